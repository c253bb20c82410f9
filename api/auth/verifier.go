package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/nearjob/nearjob/store"
)

// Errors that say which case it is.
var (
	// ErrNoToken is a request without a bearer token.
	ErrNoToken = errors.New("the request has no bearer token")
	// ErrBadToken is a request with a token that is not accepted. The error that
	// wraps it is a *TokenError.
	ErrBadToken = errors.New("the bearer token is not accepted")
	// ErrUnavailable is a token that cannot be judged now, for no key of the
	// identity provider is known.
	ErrUnavailable = errors.New("the keys of the identity provider cannot be reached")
)

// TokenError says why a token is not accepted, in words that clients may read.
type TokenError struct {
	// Code is of RFC 6750: "invalid_token", or "invalid_request" for a header that
	// is not one bearer token at all.
	Code   string
	Detail string
	cause  error // for the log
}

func (e *TokenError) Error() string        { return e.Detail }
func (e *TokenError) Is(target error) bool { return target == ErrBadToken }

// The error codes of RFC 6750, section 3.1.
const (
	codeRequest = "invalid_request"
	codeToken   = "invalid_token"
)

func badToken(detail string, cause error) error {
	return &TokenError{Code: codeToken, Detail: detail, cause: cause}
}

func badRequest(detail string) error {
	return &TokenError{Code: codeRequest, Detail: detail}
}

// Verifier tells users from requests. It is safe for concurrent use.
type Verifier struct {
	config Config
	keys   keys
	parser *jwt.Parser
}

// New returns a Verifier. Reading its key set in the background ends with ctx. The
// error is a *store.InvalidError, or says what is wrong with the file of a key
// set; a URL that does not answer is no error, but logged and asked again.
func New(ctx context.Context, c Config) (*Verifier, error) {
	c.EnsureDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	v := &Verifier{config: c}
	var err error
	switch {
	case c.JWKSURL != "":
		v.keys, err = newURLKeys(ctx, &c)
	case c.JWKSFile != "":
		v.keys, err = newFileKeys(ctx, &c)
	default:
		secret := []byte(c.Secret)
		v.keys = sharedSecret(func() []byte { return secret })
	}
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	v.config.Secret = "" // nothing needs it here any more
	v.parser = jwt.NewParser(
		jwt.WithValidMethods(v.keys.methods()),
		jwt.WithIssuer(c.Issuer),
		jwt.WithAudience(c.Audience),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(max(0, c.Leeway)),
		jwt.WithTimeFunc(c.Now),
		jwt.WithStrictDecoding(), // one token has one spelling
	)
	return v, nil
}

// Ready returns nil, or ErrUnavailable where no key is known yet.
func (v *Verifier) Ready(ctx context.Context) error { return v.keys.ready(ctx) }

// User returns the user that a request comes from: its token's sub. The errors are
// ErrNoToken, ErrBadToken, ErrUnavailable, and that of the request's context.
func (v *Verifier) User(r *http.Request) (user string, err error) {
	token, err := bearer(r.Header, v.config.MaxTokenBytes)
	if err != nil {
		return "", err
	}
	return v.verify(r.Context(), token)
}

func (v *Verifier) verify(ctx context.Context, token string) (user string, err error) {
	t, err := v.parser.Parse(token, func(t *jwt.Token) (any, error) {
		if err := checkHeader(t.Header); err != nil {
			return nil, err
		}
		return v.keys.find(ctx, t)
	})
	switch {
	case err == nil:
	case errors.Is(err, ErrUnavailable):
		return "", ErrUnavailable
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "", ctx.Err()
	default:
		return "", badToken(whyBad(err), err)
	}
	sub, err := t.Claims.GetSubject()
	if err != nil {
		return "", badToken("The token's sub is not a string.", err)
	}
	if err := CheckUser(sub); err != nil {
		return "", badToken("The token's sub "+err.Error()+".", err)
	}
	return sub, nil
}

// checkHeader refuses what the parser does not look at. RFC 7515, section 4.1.11:
// a header that lists extensions as critical is refused by who does not know
// them. RFC 8725, section 3.11: a token of another kind, such as a logout token,
// is no access token.
func checkHeader(header map[string]any) error {
	if _, critical := header["crit"]; critical {
		return errors.New("the header has crit, and no extension is known here")
	}
	if typ, given := header["typ"]; given {
		name, _ := typ.(string)
		name = strings.TrimPrefix(strings.ToLower(name), "application/")
		if !slices.Contains([]string{"jwt", "at+jwt"}, name) {
			return errors.New("the header's typ is neither JWT nor at+jwt")
		}
	}
	return nil
}

// whyBad is what clients are told. What they can do something about is named; what
// helps only whoever forges tokens is not.
func whyBad(err error) string {
	for _, c := range []struct {
		is   error
		text string
	}{
		{jwt.ErrTokenMalformed, "The token is not a JSON Web Token."},
		{jwt.ErrTokenExpired, "The token has expired: get a new one."},
		{jwt.ErrTokenNotValidYet, "The token is not valid yet."},
		{jwt.ErrTokenInvalidIssuer, "The token is from another issuer."},
		{jwt.ErrTokenInvalidAudience, "The token is for another audience."},
		{jwt.ErrTokenRequiredClaimMissing, "The token lacks a claim: want iss, aud, exp and sub."},
		{jwt.ErrTokenInvalidClaims, "The token's claims are not what they should be."},
	} {
		if errors.Is(err, c.is) {
			return c.text
		}
	}
	return "The token's signature cannot be verified."
}

// bearer returns the bearer token of a request's header, which is no longer than
// max bytes.
func bearer(h http.Header, max int) (string, error) {
	lines := h.Values("Authorization")
	switch len(lines) {
	case 0:
		return "", ErrNoToken
	case 1:
	default:
		return "", badRequest("The request has more than one Authorization header.")
	}
	scheme, token, _ := strings.Cut(strings.Trim(lines[0], " \t"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", ErrNoToken // RFC 6750 treats an unknown scheme as no attempt at all
	}
	token = strings.TrimLeft(token, " ")
	switch {
	case token == "":
		return "", badRequest("The Authorization header has no token after Bearer.")
	case len(token) > max:
		return "", badToken(fmt.Sprintf("The token is longer than %d bytes.", max), nil)
	case !isToken68(token):
		return "", badRequest("The Authorization header is not Bearer, a space and one token.")
	}
	return token, nil
}

// isToken68 reports whether s is what RFC 9110 calls a token68.
func isToken68(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// MaxUserLength is the length of the longest user, in characters.
const MaxUserLength = store.MaxUserID

// CheckUser says what is wrong with the name of a user: it is 1 to MaxUserLength
// printable characters, without a space at either end. The text continues the
// name of what holds it.
func CheckUser(user string) error {
	switch n := utf8.RuneCountInString(user); {
	case n == 0:
		return errors.New("is missing or empty")
	case n > MaxUserLength:
		return fmt.Errorf("has more than %d characters", MaxUserLength)
	case !utf8.ValidString(user) || strings.ContainsRune(user, utf8.RuneError):
		// A JSON parser puts this rune in for broken bytes: two users would become one.
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(user, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("has a character that cannot be printed")
	case user[0] == ' ' || user[len(user)-1] == ' ':
		return errors.New("begins or ends with a space")
	}
	return nil
}
