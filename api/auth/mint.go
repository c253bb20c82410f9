package auth

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/nearjob/nearjob/store"
)

// Mint returns a token for a user that is good from now for a time, signed with a
// shared secret (HS256). An issuer or audience that is "" is the default of
// [Config]. The error is a *store.InvalidError that lists every fault and does not
// repeat the secret.
func Mint(secret Secret, user string, ttl time.Duration, issuer, audience string, now time.Time) (string, error) {
	var f []store.Fault
	if n := len(secret); n < MinSecretBytes {
		f = append(f, store.Fault{Field: "secret", Reason: fmt.Sprintf("has %d bytes: want at least %d", n, MinSecretBytes)})
	}
	if err := CheckUser(user); err != nil {
		f = append(f, store.Fault{Field: "user", Reason: err.Error()})
	}
	if ttl < time.Second { // times in a token are whole seconds
		f = append(f, store.Fault{Field: "ttl", Reason: fmt.Sprintf("%v is less than 1s", ttl)})
	}
	if len(f) > 0 {
		return "", fmt.Errorf("auth: %w", &store.InvalidError{Faults: f})
	}
	c := Config{Secret: secret, Issuer: issuer, Audience: audience}
	c.EnsureDefaults()
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer:    c.Issuer,
		Subject:   user,
		Audience:  jwt.ClaimStrings{c.Audience},
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	})
	signed, err := t.SignedString([]byte(secret))
	if err != nil {
		return "", fmt.Errorf("auth: sign the token: %w", err)
	}
	return signed, nil
}
