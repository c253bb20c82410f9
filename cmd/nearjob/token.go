package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nearjob/nearjob/api/auth"
)

type tokenCmd struct {
	User     string        `required:"" placeholder:"NAME" help:"The user: what the token's sub says."`
	TTL      time.Duration `name:"ttl" default:"1h" help:"How long the token is good."`
	Issuer   string        `placeholder:"NAME" help:"Default: nearjob."`
	Audience string        `placeholder:"NAME" help:"Default: nearjob."`
	jwtSecret
}

func (tokenCmd) Help() string {
	return `For development and tests: it needs the secret that the server checks tokens with. Where users
log in with an identity provider, tokens come from there. The token goes to standard output.

Examples:

    export NEARJOB_JWT_SECRET=$(openssl rand -base64 48)
    nearjob token --user 42 --ttl 1h
    curl -H "Authorization: Bearer $(nearjob token --user 42)" http://127.0.0.1:8080/v1/me/jobs`
}

func (c *tokenCmd) Run(_ context.Context, s streams) error {
	secret, err := c.secret()
	if err != nil {
		return err
	}
	if secret == "" {
		return usage("no secret: set NEARJOB_JWT_SECRET or name a file with --jwt-secret-file")
	}
	token, err := auth.Mint(secret, c.User, c.TTL, c.Issuer, c.Audience, time.Now())
	if err != nil {
		return usageError{err}
	}
	_, err = fmt.Fprintln(s.out, token)
	return err
}

// jwtSecret is the flags of the commands that know the shared secret.
type jwtSecret struct {
	JWTSecret     auth.Secret `name:"jwt-secret" placeholder:"SECRET" help:"Shared secret of tokens (HS256), at least 32 bytes. Others on this machine can see a flag: better in the environment or a file."`
	JWTSecretFile string      `name:"jwt-secret-file" type:"path" placeholder:"FILE" help:"A file with that secret; white space at its end does not count."`
}

// maxSecretFile is far more than a secret has, and less than a wrong file may have.
const maxSecretFile = 64 << 10

func (c *jwtSecret) secret() (auth.Secret, error) {
	return secretOf("jwt-secret", c.JWTSecret, c.JWTSecretFile)
}

// secretOf returns a secret that a flag has, or the file that the flag's namesake
// with -file names; "" for neither. No error holds any of it.
func secretOf(flag string, value auth.Secret, file string) (auth.Secret, error) {
	switch {
	case file == "":
		return value, nil
	case value != "":
		return "", usage("--%s (or %s) and --%[1]s-file are both given: want one of them", flag, "NEARJOB_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
	}
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSecretFile) {
		return "", usage("--%s-file: %s is not a file of at most %d bytes", flag, file, maxSecretFile)
	}
	if err != nil {
		return "", fmt.Errorf("--%s-file: %w", flag, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--%s-file: %w", flag, err)
	}
	secret := strings.TrimRight(string(text), " \t\r\n")
	if secret == "" {
		return "", usage("--%s-file: %s is empty", flag, file)
	}
	return auth.Secret(secret), nil
}
