package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
)

// Problem answers a request with a problem document (RFC 9457) of a status and a
// text for people. Headers of the answer that are already set must stay.
type Problem func(w http.ResponseWriter, r *http.Request, status int, detail string)

type userKey struct{}

// WithUser returns a context of a request that comes from a user.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// User returns the user that the request of a context comes from; "" is nobody
// that is known.
func User(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Require lets only requests with a good token through to next, which finds their
// user by [User]. Others are answered: 401 with a challenge for no token or a bad
// one, 400 for a header that is no token at all, 503 while no key is known.
func (v *Verifier) Require(problem Problem, next http.Handler) http.Handler {
	return v.middleware(problem, next, true)
}

// Optional lets requests without a token through as well, whose user is "". A
// token that is there must be good, so that nobody takes an answer for everyone
// for their own.
func (v *Verifier) Optional(problem Problem, next http.Handler) http.Handler {
	return v.middleware(problem, next, false)
}

func (v *Verifier) middleware(problem Problem, next http.Handler, required bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The answer depends on who asks, whatever comes of it.
		w.Header().Add("Vary", "Authorization")
		user, err := v.User(r)
		var bad *TokenError
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(WithUser(r.Context(), user)))
		case errors.Is(err, ErrNoToken) && !required:
			next.ServeHTTP(w, r.WithContext(WithUser(r.Context(), "")))
		case errors.Is(err, ErrNoToken):
			// No error code: the client may not have known that a token is needed.
			w.Header().Set("WWW-Authenticate", challenge)
			problem(w, r, http.StatusUnauthorized, "This needs a user: send a token as Authorization: Bearer.")
		case errors.As(err, &bad):
			v.config.Log.LogAttrs(r.Context(), slog.LevelDebug, "token refused", slog.String("reason", bad.Detail), slog.Any("cause", bad.cause))
			status := http.StatusUnauthorized
			if bad.Code == codeRequest {
				status = http.StatusBadRequest
			}
			w.Header().Set("WWW-Authenticate", challenge+`, error="`+bad.Code+`", error_description="`+quotable(bad.Detail)+`"`)
			problem(w, r, status, bad.Detail)
		default:
			// No key is known, or the request's time ran out while one was fetched.
			v.config.Log.LogAttrs(r.Context(), slog.LevelWarn, "token not judged", slog.Any("error", err))
			w.Header().Set("Retry-After", "5")
			problem(w, r, http.StatusServiceUnavailable, "The token cannot be checked now. Try again in a few seconds.")
		}
	})
}

const challenge = `Bearer realm="nearjob"`

// quotable leaves out what RFC 6750 does not allow in an error_description.
func quotable(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c >= 0x20 && c <= 0x7e && c != '"' && c != '\\' {
			out = append(out, c)
		}
	}
	return string(out)
}
