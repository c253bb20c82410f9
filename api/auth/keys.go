package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// minRSABits is what RFC 7518, section 3.3, wants.
const minRSABits = 2048

// maxKeyID bounds a token's kid, which is looked up and may be logged.
const maxKeyID = 256

var (
	errNoUsableKey = errors.New("the key set has no key that can verify tokens")
	errUnknownKey  = errors.New("no key has the token's key id")
	errWrongKey    = errors.New("the token's algorithm is not that of the key")
)

// keys finds what a token's signature is checked with.
type keys interface {
	// methods are the algorithms that any of the keys may be for.
	methods() []string
	// find returns a key, or a jwt.VerificationKeySet, each of whose keys is for
	// the token's algorithm.
	find(ctx context.Context, t *jwt.Token) (any, error)
	// ready returns nil or ErrUnavailable.
	ready(ctx context.Context) error
}

// sharedSecret is the key of HS256. It is a func so that nothing can print it.
type sharedSecret func() []byte

func (sharedSecret) methods() []string { return []string{jwt.SigningMethodHS256.Alg()} }

func (s sharedSecret) find(_ context.Context, t *jwt.Token) (any, error) {
	if t.Method != jwt.SigningMethodHS256 {
		return nil, errWrongKey
	}
	return s(), nil
}

func (sharedSecret) ready(context.Context) error { return nil }

// algorithm returns the one algorithm that a public key is used with here; "" for
// a key of another kind, such as a symmetric one.
func algorithm(key any) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() >= minRSABits {
			return jwt.SigningMethodRS256.Alg()
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return jwt.SigningMethodES256.Alg()
		}
	case ed25519.PublicKey:
		return jwt.SigningMethodEdDSA.Alg()
	}
	return ""
}

// unusable says why a key of a set must not verify tokens; "" if it may.
func unusable(k jwkset.JWK) string {
	m := k.Marshal()
	alg := algorithm(k.Key())
	switch {
	case m.K != "" || m.KTY == jwkset.KtyOct:
		return "is symmetric: whoever can read the set could sign tokens"
	case m.D != "":
		return "is private: whoever can read the set can sign tokens; withdraw it"
	case alg == "":
		return fmt.Sprintf("is none of RSA with %d bits or more, EC on P-256 and Ed25519", minRSABits)
	case m.ALG != "" && m.ALG.String() != alg:
		return "has an alg other than " + alg
	case m.USE != "" && m.USE != jwkset.UseSig:
		return "has a use other than sig"
	case len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify):
		return "has key_ops without verify"
	case len(m.KID) > maxKeyID:
		return fmt.Sprintf("has a kid of more than %d bytes", maxKeyID)
	}
	return ""
}

// verifying is a key storage that only keys which may verify tokens get into.
type verifying struct {
	jwkset.Storage
	log *slog.Logger
}

func newVerifying(log *slog.Logger) verifying {
	return verifying{jwkset.NewMemoryStorage(), log}
}

// KeyReplaceAll keeps the keys as they are if the new set has none that is good:
// that is an answer gone wrong far more often than a provider without keys.
func (s verifying) KeyReplaceAll(ctx context.Context, given []jwkset.JWK) error {
	var good []jwkset.JWK
	for i, k := range given {
		if why := unusable(k); why != "" {
			s.log.LogAttrs(ctx, slog.LevelWarn, "key of the key set is not used", slog.Int("index", i), slog.String("reason", why))
			continue
		}
		good = append(good, k)
	}
	if len(good) == 0 {
		return errNoUsableKey
	}
	return s.Storage.KeyReplaceAll(ctx, good)
}

// keySet are the public keys of an identity provider.
type keySet struct {
	storage jwkset.Storage // what is known now; reading it fetches nothing
	source  jwkset.Storage // fetches the set again for an unknown key id
	lookup  jwt.Keyfunc    // reads from source

	// same makes requests that wait for the same unknown key share one fetch:
	// the limit on fetches would refuse all but the first.
	same *singleflight.Group
}

func (*keySet) methods() []string {
	return []string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg(), jwt.SigningMethodEdDSA.Alg()}
}

func (s *keySet) ready(ctx context.Context) error {
	all, err := s.storage.KeyReadAll(ctx)
	if err != nil || len(all) == 0 {
		return ErrUnavailable
	}
	return nil
}

func (s *keySet) find(ctx context.Context, t *jwt.Token) (any, error) {
	var (
		key any
		err error
	)
	switch id, given := t.Header["kid"]; {
	case !given:
		if s.ready(ctx) != nil {
			// Any id is unknown to an empty set, which makes source fetch it. If that
			// fails, the set is still empty, which says it all.
			_ = s.once(ctx, "", func() error { _, err := s.source.KeyRead(context.WithoutCancel(ctx), ""); return err })
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		key, err = s.lookup(t)
	default:
		kid, ok := id.(string)
		if !ok || kid == "" || len(kid) > maxKeyID {
			return nil, errUnknownKey
		}
		if _, missing := s.storage.KeyRead(ctx, kid); missing == nil {
			key, err = s.lookup(t)
			break
		}
		// The fetch outlives this request, for others may wait for it too; the
		// library bounds it by RateLimitWaitMax.
		if err = s.once(ctx, kid, func() error { _, err := s.source.KeyRead(context.WithoutCancel(ctx), kid); return err }); err == nil {
			key, err = s.lookup(t)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if err != nil {
		if unready := s.ready(ctx); unready != nil {
			return nil, unready
		}
		return nil, fmt.Errorf("%w: %w", errUnknownKey, err)
	}
	// The storage has let only good keys in. That each is used with its own
	// algorithm is decided here.
	set, ok := key.(jwt.VerificationKeySet)
	if !ok {
		if algorithm(key) != t.Method.Alg() {
			return nil, errWrongKey
		}
		return key, nil
	}
	set.Keys = slices.DeleteFunc(set.Keys, func(k jwt.VerificationKey) bool { return algorithm(k) != t.Method.Alg() })
	if len(set.Keys) == 0 {
		if unready := s.ready(ctx); unready != nil {
			return nil, unready
		}
		return nil, errWrongKey
	}
	return set, nil
}

// once calls f, or waits for another call that was made for the same key id.
func (s *keySet) once(ctx context.Context, kid string, f func() error) error {
	select {
	case r := <-s.same.DoChan(kid, func() (any, error) { return nil, f() }):
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newKeySet(ctx context.Context, storage, source jwkset.Storage) (*keySet, error) {
	f, err := keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: source, UseWhitelist: []jwkset.USE{"", jwkset.UseSig}})
	if err != nil {
		return nil, err
	}
	return &keySet{storage: storage, source: source, lookup: f.Keyfunc, same: new(singleflight.Group)}, nil
}

// newURLKeys fetches a key set now and, until ctx ends, every RefreshInterval. A
// first fetch that fails is logged and tried again by the next token: a provider
// that is down must not keep the service from starting.
func newURLKeys(ctx context.Context, c *Config) (*keySet, error) {
	failed := func(ctx context.Context, err error) {
		var u *url.Error // its text holds the whole URL
		if errors.As(err, &u) {
			err = u.Err
		}
		c.Log.LogAttrs(ctx, slog.LevelError, "fetching the key set failed; the keys before it are used",
			slog.String("url", address(c.JWKSURL)), slog.Any("error", err))
	}
	storage := newVerifying(c.Log)
	var transport http.RoundTripper
	if c.Client != nil {
		transport = c.Client.Transport
	}
	if transport == nil {
		transport = http.DefaultTransport
	}
	fetched, err := jwkset.NewStorageFromHTTP(c.JWKSURL, jwkset.HTTPClientStorageOptions{
		Client: &http.Client{
			Transport: limited{transport, c.MaxKeySetBytes},
			Timeout:   c.RefreshTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("a redirect is not followed: state the final URL")
			},
		},
		Ctx:                       ctx,
		HTTPTimeout:               c.RefreshTimeout,
		NoErrorReturnFirstHTTPReq: true,
		RefreshErrorHandler:       failed,
		RefreshInterval:           c.RefreshInterval,
		Storage:                   storage,
	})
	if err != nil {
		return nil, err
	}
	source, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs: map[string]jwkset.Storage{c.JWKSURL: fetched},
		// The library bounds the fetch by this too, so it cannot be shorter. Who
		// would have to wait longer for the limiter is refused at once.
		RateLimitWaitMax:  c.RefreshTimeout,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(c.UnknownKeyInterval), 1),
	})
	if err != nil {
		return nil, err
	}
	return newKeySet(ctx, storage, source)
}

// limited refuses answers that are larger than a number of bytes.
type limited struct {
	http.RoundTripper
	max int64
}

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = limitedBody{http.MaxBytesReader(nil, resp.Body, l.max)}
	return resp, nil
}

type limitedBody struct{ io.ReadCloser }

func (b limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = fmt.Errorf("the key set is larger than %d bytes", tooLarge.Limit)
	}
	return n, err
}

// newFileKeys reads a key set now and, until ctx ends, every RefreshInterval. The
// first read must be good: a file is the operator's own.
func newFileKeys(ctx context.Context, c *Config) (*keySet, error) {
	storage := newVerifying(c.Log)
	if err := readKeys(ctx, storage, c.JWKSFile, c.MaxKeySetBytes); err != nil {
		return nil, err
	}
	go func() {
		tick := time.NewTicker(c.RefreshInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := readKeys(ctx, storage, c.JWKSFile, c.MaxKeySetBytes); err != nil {
				c.Log.LogAttrs(ctx, slog.LevelError, "reading the key set failed; the keys before it are used", slog.Any("error", err))
			}
		}
	}()
	return newKeySet(ctx, storage, storage)
}

func readKeys(ctx context.Context, into jwkset.Storage, file string, limit int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("key set %s: %w", file, err)
		}
	}()
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return err
	}
	if int64(len(text)) > limit {
		return fmt.Errorf("is larger than %d bytes", limit)
	}
	var set jwkset.JWKSMarshal
	if err := json.Unmarshal(text, &set); err != nil {
		return fmt.Errorf("is not a JWK Set: %w", err)
	}
	var all []jwkset.JWK
	for i, m := range set.Keys {
		// Private parts are read so that they are noticed.
		k, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{Private: true}, jwkset.JWKValidateOptions{})
		switch {
		case errors.Is(err, jwkset.ErrUnsupportedKey):
		case err != nil:
			return fmt.Errorf("key %d: %w", i, err)
		default:
			all = append(all, k)
		}
	}
	return into.KeyReplaceAll(ctx, all)
}
