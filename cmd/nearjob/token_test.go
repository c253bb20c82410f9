package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nearjob/nearjob/api/auth"
)

func TestToken(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := auth.New(t.Context(), auth.Config{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	good := func(token string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
		if user, err := v.User(r); err != nil || user != "42" {
			t.Errorf("%q: %v", user, err)
		}
	}
	good(must(t, "", "token", "--user", "42", "--jwt-secret-file", file))
	good(must(t, "", "token", "--user", "42", "--ttl", "5m", "--jwt-secret", secret))
	t.Setenv("NEARJOB_JWT_SECRET", secret)
	good(must(t, "", "token", "--user", "42"))
	if out := must(t, "", "token", "--help"); !strings.Contains(out, "    nearjob token") || strings.Contains(out, secret) {
		t.Error(out)
	}
	for _, tt := range []struct{ env, args, says string }{
		{secret, "--user 42 --jwt-secret-file " + file, "both given"},
		{"", "--user 42", "no secret"},
		{"hunter2", "--user 42", "32"},
		{secret, "--user 42 --ttl 0s", "ttl"},
		{secret, "", "--user"},
		{"", "--user 42 --jwt-secret-file " + t.TempDir(), "not a file"},
		{"", "--user 42 --jwt-secret-file " + file + "x", "no such file"},
	} {
		t.Setenv("NEARJOB_JWT_SECRET", tt.env)
		code, out, errs := call(t, "", append([]string{"token"}, strings.Fields(tt.args)...)...)
		if code == 0 || out != "" || !strings.Contains(errs, tt.says) || strings.Contains(errs, secret) || strings.Contains(errs, "hunter2") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: %d %q %q", tt.args, code, out, errs)
		}
	}
}
