package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/nearjob/nearjob/api/notify"
	"github.com/nearjob/nearjob/store"
)

// Webhooks is what the channel needs of a store.
type Webhooks interface {
	Webhooks(ctx context.Context, user store.UserID) ([]store.Webhook, error)
	PutWebhook(ctx context.Context, w store.Webhook) error
}

// Options adjusts the channel. The zero Options is fit for addresses that
// strangers name.
type Options struct {
	// Allow are networks that may be called although they are not on the public
	// internet, such as 127.0.0.0/8 in a laboratory.
	Allow []netip.Prefix

	// AllowHTTP lets addresses be http:// too.
	AllowHTTP bool

	Timeout     time.Duration    // of one call, from dialling to the end of the answer; 0: 10 s
	MaxResponse int64            // bytes of an answer's body that are read; 0: 16 KiB
	UserAgent   string           // "": "nearjob-webhook"
	Now         func() time.Time // nil: time.Now
}

// Channel calls users' webhooks. Safe for concurrent use.
type Channel struct {
	hooks  Webhooks
	opts   Options
	client *http.Client
}

var _ notify.Channel = (*Channel)(nil)

// New returns a channel that finds addresses in hooks.
func New(hooks Webhooks, opts Options) *Channel {
	opts.Timeout = cmp.Or(opts.Timeout, 10*time.Second)
	opts.MaxResponse = cmp.Or(opts.MaxResponse, 16<<10)
	opts.UserAgent = cmp.Or(opts.UserAgent, "nearjob-webhook")
	if opts.Now == nil {
		opts.Now = time.Now
	}
	g := newGuard(opts.Allow)
	dialer := &net.Dialer{
		Timeout: opts.Timeout,
		// The address comes here as it will be dialled, after the name was
		// resolved: a name that points elsewhere the second time gains nothing.
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			if err := g.check(network, address); err != nil {
				return &guardError{err}
			}
			return nil
		},
	}
	return &Channel{hooks: hooks, opts: opts, client: &http.Client{
		Transport: &http.Transport{
			// No Proxy: it would dial for us, past the guard.
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    opts.Timeout,
			ResponseHeaderTimeout:  opts.Timeout,
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           100,
			MaxIdleConnsPerHost:    2,
			MaxConnsPerHost:        16,
			IdleConnTimeout:        30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Channel) Close() { c.client.CloseIdleConnections() }

// Targets lists the user's webhooks that are in use.
func (c *Channel) Targets(ctx context.Context, user store.UserID) ([]notify.Target, error) {
	hooks, err := c.hooks.Webhooks(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	var targets []notify.Target
	for _, w := range hooks {
		if w.Disabled != "" {
			continue
		}
		targets = append(targets, notify.Target{Key: w.ID.String(), Send: func(ctx context.Context, n notify.Note) error {
			return c.send(ctx, w, n)
		}})
	}
	return targets, nil
}

// Event is the body of a call, in the form that the Standard Webhooks
// specification recommends.
type Event struct {
	Type      string      `json:"type"` // "nearjob." and the action, such as "nearjob.accept"
	Timestamp time.Time   `json:"timestamp"`
	Data      notify.Note `json:"data"`
}

// ID is the webhook-id of a message: the same at every attempt.
func ID(message store.ID) string { return "msg_" + message.String() }

func (c *Channel) send(ctx context.Context, w store.Webhook, n notify.Note) error {
	if err := c.CheckURL(w.URL); err != nil {
		return &notify.RefusedError{Err: err}
	}
	key, err := parseSecret(w.Secret)
	if err != nil {
		return &notify.RefusedError{Err: err}
	}
	signer, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return &notify.RefusedError{Err: err}
	}
	body, err := json.Marshal(Event{Type: "nearjob." + string(n.Action), Timestamp: n.At.UTC(), Data: n})
	if err != nil {
		return &notify.RefusedError{Err: fmt.Errorf("encode the event: %w", err)}
	}
	// The time is that of the attempt, for receivers refuse old ones as replays.
	now := c.opts.Now()
	id := ID(n.ID)
	signature, err := signer.Sign(id, now, body)
	if err != nil {
		return &notify.RefusedError{Err: fmt.Errorf("sign the event: %w", err)}
	}

	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return &notify.RefusedError{Err: errors.New("url: cannot be called")} // err shows the URL
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", c.opts.UserAgent)
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)

	resp, err := c.client.Do(req)
	if err != nil {
		return callError(err)
	}
	defer resp.Body.Close()
	// What is read lets the connection be used again; a longer answer costs its connection.
	io.CopyN(io.Discard, resp.Body, c.opts.MaxResponse+1)

	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusGone:
		if err := c.disable(ctx, w, "the address answered 410 Gone on "+now.UTC().Format(time.RFC3339)); err != nil {
			return fmt.Errorf("disable the webhook after 410 Gone: %w", err)
		}
		return fmt.Errorf("410 Gone: %w", notify.ErrGone)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("the address answered %d: redirects are not followed, name the address itself", resp.StatusCode)
	}
	err = fmt.Errorf("the address answered %d", resp.StatusCode)
	if after := notify.RetryAfter(resp.Header, now); after > 0 {
		return &notify.LaterError{After: after, Err: err}
	}
	return err
}

// disable takes a webhook out of use, unless its user has changed or removed it
// while it was called. (What he changes between the two calls here is lost: the
// store has no compare and set for webhooks.)
func (c *Channel) disable(ctx context.Context, called store.Webhook, why string) error {
	hooks, err := c.hooks.Webhooks(ctx, called.User)
	if err != nil {
		return err
	}
	if !slices.Contains(hooks, called) {
		return nil
	}
	called.Disabled = why
	return c.hooks.PutWebhook(ctx, called)
}

// CheckURL returns an *[store.InvalidError] for an address that is not called,
// as far as the address itself shows: where a name leads is seen only when it is
// called. It is for whoever takes an address from a user, too.
func (c *Channel) CheckURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return store.Invalid("url", "is not a URL") // err shows it, with what may be secret
	case u.Scheme != "https" && !(c.opts.AllowHTTP && u.Scheme == "http"):
		return store.Invalid("url", "does not begin with https://")
	case u.Hostname() == "":
		return store.Invalid("url", "names no host")
	case u.Fragment != "":
		return store.Invalid("url", "has a fragment, which is never sent: leave out # and what follows")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return store.Invalid("url", "has a port that is not 1..65535")
		}
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !newGuard(c.opts.Allow).reachable(a) {
		return store.Invalid("url", "is not an address on the public internet")
	}
	return nil
}

// guardError marks a refusal of the guard on its way through net and http.
type guardError struct{ err error }

func (e *guardError) Error() string { return e.err.Error() }
func (e *guardError) Unwrap() error { return e.err }

// callError takes the URL out of an error of net/http, for it may hold secrets,
// and errors are logged and stored.
func callError(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if ge, ok := errors.AsType[*guardError](err); ok {
		// For good: a try again would keep the job's other messages waiting for
		// what a user may have done on purpose.
		return &notify.RefusedError{Err: fmt.Errorf("not called: %w", ge.err)}
	}
	return fmt.Errorf("call: %w", err)
}

// Lengths of a secret's key, in bytes, by the specification.
const (
	minKey = 24
	maxKey = 64
)

const secretPrefix = "whsec_"

// NewSecret makes a secret for a webhook from random bytes, such as those of
// crypto/rand.Reader.
func NewSecret(random io.Reader) (string, error) {
	key := make([]byte, 32)
	if _, err := io.ReadFull(random, key); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// CheckSecret returns an *[store.InvalidError] for what is no secret: "whsec_"
// and the base64 of 24 to 64 bytes.
func CheckSecret(s string) error {
	_, err := parseSecret(s)
	return err
}

// parseSecret is here since the library takes any base64, and none, for a secret.
func parseSecret(s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return nil, store.Invalid("secret", `does not begin with "whsec_"`)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, store.Invalid("secret", `is not base64 after "whsec_"`) // err shows a part of it
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, store.Invalid("secret", fmt.Sprintf("has a key of %d bytes, not %d..%d", len(key), minKey, maxKey))
	}
	return key, nil
}
