package auth

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/nearjob/nearjob/store"
)

const (
	// MinSecretBytes is the length of the shortest secret: that of HS256's hash,
	// as RFC 7518, section 3.2, wants.
	MinSecretBytes = 32

	// MaxLeeway bounds the clock skew that can be allowed for.
	MaxLeeway = 5 * time.Minute

	defaultName = "nearjob" // issuer and audience of the tokens that Mint makes
)

// Secret is a shared secret. However it is printed, marshalled or logged, what
// shows is "[secret]"; only a conversion to string gives it away.
type Secret string

const hidden = "[secret]"

func (Secret) String() string               { return hidden }
func (Secret) Format(f fmt.State, _ rune)   { _, _ = f.Write([]byte(hidden)) } // every verb, %x and %#v too
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }

// Config says which tokens are good. Exactly one of Secret, JWKSFile and JWKSURL
// is needed.
type Config struct {
	Secret   Secret // for HS256; at least MinSecretBytes long
	JWKSFile string // a file with a JWK Set (RFC 7517), read again every RefreshInterval
	JWKSURL  string // the URL of a JWK Set: https, or http to this very machine

	// Issuer and Audience are what a token's iss must be and its aud must hold.
	// With a Secret they may be left out, for "nearjob"; with a key set they may
	// not, for a provider signs tokens for other services with the same keys.
	Issuer, Audience string

	Leeway time.Duration // clock skew allowed for in exp and nbf; 0: 30 s; below 0: none

	MaxTokenBytes int // longest token that is looked at; 0: 8 KiB

	RefreshInterval    time.Duration // between two regular reads of the key set; 0: 15 min
	RefreshTimeout     time.Duration // of one fetch of the key set; 0: 5 s
	UnknownKeyInterval time.Duration // at least this between two fetches for unknown key ids; 0: 30 s
	MaxKeySetBytes     int64         // largest key set; 0: 256 KiB

	Client *http.Client     // whose Transport fetches the key set; nil: http.DefaultTransport
	Log    *slog.Logger     // nil: nothing is logged
	Now    func() time.Time // nil: time.Now
}

// EnsureDefaults fills in what is not stated.
func (c *Config) EnsureDefaults() {
	if c.Secret != "" {
		c.Issuer = cmp.Or(c.Issuer, defaultName)
		c.Audience = cmp.Or(c.Audience, defaultName)
	}
	c.Leeway = cmp.Or(c.Leeway, 30*time.Second)
	c.MaxTokenBytes = cmp.Or(c.MaxTokenBytes, 8<<10)
	c.RefreshInterval = cmp.Or(c.RefreshInterval, 15*time.Minute)
	c.RefreshTimeout = cmp.Or(c.RefreshTimeout, 5*time.Second)
	c.UnknownKeyInterval = cmp.Or(c.UnknownKeyInterval, 30*time.Second)
	c.MaxKeySetBytes = cmp.Or(c.MaxKeySetBytes, 256<<10)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Validate reports every fault at once, after EnsureDefaults; the error is a
// *store.InvalidError. It does not repeat the secret.
func (c *Config) Validate() error {
	var f []store.Fault
	add := func(field, format string, args ...any) {
		f = append(f, store.Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	var set []string
	for _, s := range []struct{ name, value string }{
		{"secret", string(c.Secret)}, {"jwks_file", c.JWKSFile}, {"jwks_url", c.JWKSURL},
	} {
		if s.value != "" {
			set = append(set, s.name)
		}
	}
	switch len(set) {
	case 0:
		add("secret", "is missing: want a secret, or the file or the URL of a key set")
	case 1:
	default:
		add(set[0], "stands beside %s: want only one, for each is a way to sign tokens", strings.Join(set[1:], " and "))
	}
	if n := len(c.Secret); n > 0 && n < MinSecretBytes {
		add("secret", "has %d bytes: want at least %d random ones, as from: openssl rand -base64 32", n, MinSecretBytes)
	}
	if c.JWKSURL != "" {
		if reason := faultOfURL(c.JWKSURL); reason != "" {
			add("jwks_url", "%s", reason)
		}
	}
	if c.Issuer == "" {
		add("issuer", "is missing: want the iss of the tokens, as the identity provider states it")
	}
	if c.Audience == "" {
		add("audience", "is missing: want the aud of the tokens that are meant for this service")
	}
	if c.Leeway > MaxLeeway {
		add("leeway", "%v is more than %v", c.Leeway, MaxLeeway)
	}
	if c.MaxTokenBytes < 256 || c.MaxTokenBytes > 64<<10 {
		add("max_token_bytes", "%d is not 256..65536", c.MaxTokenBytes)
	}
	if c.MaxKeySetBytes < 256 || c.MaxKeySetBytes > 16<<20 {
		add("max_key_set_bytes", "%d is not 256..16777216", c.MaxKeySetBytes)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"refresh_interval", c.RefreshInterval}, {"refresh_timeout", c.RefreshTimeout}, {"unknown_key_interval", c.UnknownKeyInterval},
	} {
		if d.value <= 0 {
			add(d.field, "%v is not above 0", d.value)
		}
	}
	if len(f) > 0 {
		return &store.InvalidError{Faults: f}
	}
	return nil
}

// faultOfURL says what is wrong with the URL of a key set. It does not repeat the
// URL, which may hold a password.
func faultOfURL(raw string) string {
	u, err := url.ParseRequestURI(raw)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return "is not a URL such as https://id.example.com/.well-known/jwks.json"
	case u.Scheme == "https":
		return ""
	case u.Scheme == "http" && loopback(u):
		return ""
	}
	return "does not begin with https://: whoever can change the keys on their way can sign tokens (http is for this very machine)"
}

// loopback reports whether a URL leads to this very machine.
func loopback(u *url.URL) bool {
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// address is a URL without what may be secret in it, for logs.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return u.Scheme + "://" + u.Hostname() + u.EscapedPath()
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), u.Port()) + u.EscapedPath()
}
