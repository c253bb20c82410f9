package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/nearjob/nearjob/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSecret = Secret("correct horse battery staple, 32+")
	issuer     = "https://id.example.com"
	audience   = "jobs"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// claims are good ones, changed by pairs of name and value; a nil value removes.
func claims(change ...any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": issuer, "aud": audience, "sub": "42", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix()}
	for i := 0; i < len(change); i += 2 {
		if change[i+1] == nil {
			delete(c, change[i].(string))
		} else {
			c[change[i].(string)] = change[i+1]
		}
	}
	return c
}

// sign makes a token. Header fields are added as pairs of name and value.
func sign(t testing.TB, method jwt.SigningMethod, key any, c jwt.Claims, header ...any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i].(string)] = header[i+1]
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/me", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func newVerifier(t testing.TB, c Config) *Verifier {
	t.Helper()
	if c.Issuer == "" {
		c.Issuer, c.Audience = issuer, audience
	}
	if c.Now == nil {
		c.Now = func() time.Time { return now }
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	v, err := New(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// testKeys are the private keys of a provider.
type testKeys struct {
	rsa, weak  *rsa.PrivateKey
	p256, p384 *ecdsa.PrivateKey
	ed         ed25519.PrivateKey
}

func newKeys(t testing.TB) (k testKeys) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.weak, err = rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	k.p256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	k.p384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	_, k.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return k
}

// jwk describes a public key (or, told so, a private or symmetric one).
func jwk(t testing.TB, key any, kid string, change func(*jwkset.JWKMarshal)) jwkset.JWKMarshal {
	t.Helper()
	_, isPublic := key.(interface{ Equal(crypto.PublicKey) bool })
	k, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{
		Metadata: jwkset.JWKMetadataOptions{KID: kid},
		Marshal:  jwkset.JWKMarshalOptions{Private: !isPublic},
		Validate: jwkset.JWKValidateOptions{SkipAll: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := k.Marshal()
	if change != nil {
		change(&m)
	}
	return m
}

func set(keys ...jwkset.JWKMarshal) []byte {
	text, _ := json.Marshal(jwkset.JWKSMarshal{Keys: keys})
	return text
}

func TestSecretTokens(t *testing.T) {
	v := newVerifier(t, Config{Secret: testSecret})
	key := []byte(testSecret)
	hs := jwt.SigningMethodHS256
	good := sign(t, hs, key, claims())
	head, payload, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(payload, ".")
	b64 := base64.RawURLEncoding.EncodeToString

	for name, c := range map[string]struct {
		token string
		want  string // the user; "" for a token that is not accepted
		why   string // part of what the client is told
	}{
		"good":                  {good, "42", ""},
		"aud in a list":         {sign(t, hs, key, claims("aud", []string{"other", audience})), "42", ""},
		"user in Korean":        {sign(t, hs, key, claims("sub", "김 민수")), "김 민수", ""},
		"longest user":          {sign(t, hs, key, claims("sub", strings.Repeat("김", 128))), strings.Repeat("김", 128), ""},
		"roles are not read":    {sign(t, hs, key, claims("role", "admin", "scope", "all", "groups", []string{"root"})), "42", ""},
		"typ at+jwt":            {sign(t, hs, key, claims(), "typ", "at+JWT"), "42", ""},
		"typ with application/": {sign(t, hs, key, claims(), "typ", "application/at+jwt"), "42", ""},
		"just expired, skew":    {sign(t, hs, key, claims("exp", now.Add(-29*time.Second).Unix())), "42", ""},
		"just too early, skew":  {sign(t, hs, key, claims("nbf", now.Add(29*time.Second).Unix())), "42", ""},

		"expired":               {sign(t, hs, key, claims("exp", now.Add(-31*time.Second).Unix())), "", "expired"},
		"no exp":                {sign(t, hs, key, claims("exp", nil)), "", "lacks a claim"},
		"exp as a string":       {sign(t, hs, key, claims("exp", "tomorrow")), "", "claims"},
		"exp beyond all time":   {sign(t, hs, key, claims("exp", 1e300, "nbf", 1e300)), "", ""},
		"not yet valid":         {sign(t, hs, key, claims("nbf", now.Add(31*time.Second).Unix())), "", "not valid yet"},
		"wrong iss":             {sign(t, hs, key, claims("iss", "https://id.example.org")), "", "issuer"},
		"no iss":                {sign(t, hs, key, claims("iss", nil)), "", "lacks a claim"},
		"iss of another case":   {sign(t, hs, key, claims("iss", strings.ToUpper(issuer))), "", "issuer"},
		"wrong aud":             {sign(t, hs, key, claims("aud", "payments")), "", "audience"},
		"no aud":                {sign(t, hs, key, claims("aud", nil)), "", "lacks a claim"},
		"empty aud":             {sign(t, hs, key, claims("aud", []string{})), "", "lacks a claim"},
		"no sub":                {sign(t, hs, key, claims("sub", nil)), "", "sub is missing"},
		"SUB is not sub":        {sign(t, hs, key, claims("sub", nil, "SUB", "42")), "", "sub is missing"},
		"empty sub":             {sign(t, hs, key, claims("sub", "")), "", "sub is missing"},
		"sub as a number":       {sign(t, hs, key, claims("sub", 42)), "", "not a string"},
		"sub too long":          {sign(t, hs, key, claims("sub", strings.Repeat("x", 129))), "", "more than 128"},
		"sub with a newline":    {sign(t, hs, key, claims("sub", "42\nadmin")), "", "printed"},
		"sub with a zero":       {sign(t, hs, key, claims("sub", "42\x00")), "", "printed"},
		"sub right to left":     {sign(t, hs, key, claims("sub", "42\u202e24")), "", "printed"},
		"sub invisible":         {sign(t, hs, key, claims("sub", "42\u200b")), "", "printed"},
		"sub ends with a space": {sign(t, hs, key, claims("sub", "42 ")), "", "space"},
		"sub of broken bytes":   {forge(t, key, `{"alg":"HS256"}`, `{"iss":"`+issuer+`","aud":"jobs","exp":1999999999,"sub":"a`+"\xff"+`"}`), "", "UTF-8"},
		"crit":                  {sign(t, hs, key, claims(), "crit", []string{"exp"}, "exp", 1), "", "signature"},
		"logout token":          {sign(t, hs, key, claims(), "typ", "logout+jwt"), "", "signature"},
		"typ as a number":       {sign(t, hs, key, claims(), "typ", 1), "", "signature"},
		"alg none":              {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims()), "", "signature"},
		"alg None, no sig":      {b64([]byte(`{"alg":"None"}`)) + "." + payload + ".", "", ""},
		"alg none, signed":      {b64([]byte(`{"alg":"none"}`)) + "." + payload + "." + signature, "", "signature"},
		"no alg":                {b64([]byte(`{"typ":"JWT"}`)) + "." + payload + "." + signature, "", "signature"},
		"alg as a number":       {b64([]byte(`{"alg":256}`)) + "." + payload + "." + signature, "", "signature"},
		"alg HS384":             {sign(t, jwt.SigningMethodHS384, key, claims()), "", "signature"},
		"alg HS512":             {sign(t, jwt.SigningMethodHS512, key, claims()), "", "signature"},
		"another secret":        {sign(t, hs, []byte(strings.Repeat("x", 32)), claims()), "", "signature"},
		"no signature":          {head + "." + payload + ".", "", "signature"},
		"signature cut":         {good[:len(good)-4], "", "not a JSON Web Token"},
		"claims changed":        {head + "." + b64([]byte(`{"sub":"1"}`)) + "." + signature, "", "signature"},
		"two parts":             {head + "." + payload, "", "not a JSON Web Token"},
		"four parts":            {good + ".x", "", "not a JSON Web Token"},
		"dots":                  {strings.Repeat(".", 200), "", "not a JSON Web Token"},
		"padded":                {good + "=", "", "not a JSON Web Token"},
		"header is no object":   {b64([]byte(`[]`)) + "." + payload + "." + signature, "", "not a JSON Web Token"},
		"huge":                  {sign(t, hs, key, claims("x", strings.Repeat("x", 9000))), "", "longer than 8192"},
		"five parts (JWE)":      {"a.b.c.d.e", "", "not a JSON Web Token"},
	} {
		t.Run(name, func(t *testing.T) {
			user, err := v.User(request(c.token))
			if user != c.want {
				t.Errorf("user %q, want %q (%v)", user, c.want, err)
			}
			if c.want != "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrBadToken) || errors.Is(err, ErrNoToken) {
				t.Fatalf("error %v is not ErrBadToken", err)
			}
			if !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %q does not say %q", err, c.why)
			}
		})
	}
}

// forge signs what no library would.
func forge(t testing.TB, key []byte, header, payload string) string {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(header)) + "." + b64([]byte(payload))
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return text + "." + b64(m.Sum(nil))
}

func TestKeySetTokens(t *testing.T) {
	keys, others := newKeys(t), newKeys(t)
	secret := []byte(strings.Repeat("s", 40))
	alg := func(a jwkset.ALG) func(*jwkset.JWKMarshal) {
		return func(m *jwkset.JWKMarshal) { m.ALG = a }
	}
	s := set(
		jwk(t, &keys.rsa.PublicKey, "rsa", nil),
		jwk(t, &keys.rsa.PublicKey, "rsa-sig", func(m *jwkset.JWKMarshal) { m.ALG, m.USE = "RS256", "sig" }),
		jwk(t, &keys.p256.PublicKey, "ec", nil),
		jwk(t, keys.ed.Public(), "ed", nil),
		// None of these may verify anything.
		jwk(t, secret, "oct", nil),
		jwk(t, secret, "oct-hs", alg("HS256")),
		jwk(t, &keys.weak.PublicKey, "weak", nil),
		jwk(t, &keys.p384.PublicKey, "p384", nil),
		jwk(t, others.p256, "private", nil),
		jwk(t, others.rsa, "private-rsa", nil),
		jwk(t, &keys.rsa.PublicKey, "rsa-hs", alg("HS256")),
		jwk(t, &keys.rsa.PublicKey, "rsa-ps", alg("PS256")),
		jwk(t, &keys.rsa.PublicKey, "rsa-enc", func(m *jwkset.JWKMarshal) { m.USE = "enc" }),
		jwk(t, &keys.p256.PublicKey, "ec-sign", func(m *jwkset.JWKMarshal) { m.KEYOPS = []jwkset.KEYOPS{"sign"} }),
	)
	pub, err := x509.MarshalPKIXPublicKey(&keys.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&keys.rsa.PublicKey)})

	rs, es, ed, hs := jwt.SigningMethodRS256, jwt.SigningMethodES256, jwt.SigningMethodEdDSA, jwt.SigningMethodHS256
	cases := map[string]struct {
		token string
		good  bool
	}{
		"RS256":               {sign(t, rs, keys.rsa, claims(), "kid", "rsa"), true},
		"RS256, alg and use":  {sign(t, rs, keys.rsa, claims(), "kid", "rsa-sig"), true},
		"ES256":               {sign(t, es, keys.p256, claims(), "kid", "ec"), true},
		"EdDSA":               {sign(t, ed, keys.ed, claims(), "kid", "ed"), true},
		"RS256 without a kid": {sign(t, rs, keys.rsa, claims()), true},
		"EdDSA without a kid": {sign(t, ed, keys.ed, claims()), true},

		"HS256 signed with the PEM":     {sign(t, hs, asPEM, claims(), "kid", "rsa"), false},
		"HS256 signed with PKCS 1":      {sign(t, hs, pkcs1, claims(), "kid", "rsa"), false},
		"HS256 signed with the DER":     {sign(t, hs, pub, claims(), "kid", "rsa"), false},
		"HS256 signed with the modulus": {sign(t, hs, keys.rsa.N.Bytes(), claims()), false},
		"HS256 with the Ed25519 key":    {sign(t, hs, []byte(keys.ed.Public().(ed25519.PublicKey)), claims(), "kid", "ed"), false},
		"HS256 by a symmetric JWK":      {sign(t, hs, secret, claims(), "kid", "oct"), false},
		"HS256 by an HS256 JWK":         {sign(t, hs, secret, claims(), "kid", "oct-hs"), false},
		"HS256 without a kid":           {sign(t, hs, secret, claims()), false},
		"none":                          {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(), "kid", "rsa"), false},
		"PS256":                         {sign(t, jwt.SigningMethodPS256, keys.rsa, claims(), "kid", "rsa"), false},
		"RS512":                         {sign(t, jwt.SigningMethodRS512, keys.rsa, claims(), "kid", "rsa"), false},
		"JWK says HS256":                {sign(t, rs, keys.rsa, claims(), "kid", "rsa-hs"), false},
		"JWK says PS256":                {sign(t, rs, keys.rsa, claims(), "kid", "rsa-ps"), false},
		"JWK is for encryption":         {sign(t, rs, keys.rsa, claims(), "kid", "rsa-enc"), false},
		"JWK only signs":                {sign(t, es, keys.p256, claims(), "kid", "ec-sign"), false},
		"RSA of 1024 bits":              {sign(t, rs, keys.weak, claims(), "kid", "weak"), false},
		"RSA of 1024 bits, no kid":      {sign(t, rs, keys.weak, claims()), false},
		"P-384":                         {sign(t, jwt.SigningMethodES384, keys.p384, claims(), "kid", "p384"), false},
		"P-384, no kid":                 {sign(t, jwt.SigningMethodES384, keys.p384, claims()), false},
		"a published private key":       {sign(t, es, others.p256, claims(), "kid", "private"), false},
		"a published private RSA key":   {sign(t, rs, others.rsa, claims(), "kid", "private-rsa"), false},
		"unknown kid":                   {sign(t, rs, keys.rsa, claims(), "kid", "nobody"), false},
		"kid of another key":            {sign(t, rs, keys.rsa, claims(), "kid", "ec"), false},
		"kid as a number":               {sign(t, rs, keys.rsa, claims(), "kid", 1), false},
		"kid is empty":                  {sign(t, rs, keys.rsa, claims(), "kid", ""), false},
		"kid is null":                   {sign(t, rs, keys.rsa, claims(), "kid", nil), false},
		"kid is huge":                   {sign(t, rs, keys.rsa, claims(), "kid", strings.Repeat("k", 2000)), false},
		"kid is a path":                 {sign(t, rs, keys.rsa, claims(), "kid", "../../dev/null"), false},
		"a stranger's key":              {sign(t, rs, others.rsa, claims(), "kid", "rsa"), false},
		"a stranger's key, no kid":      {sign(t, es, others.p256, claims()), false},
		"the key is in the token":       {sign(t, es, others.p256, claims(), "jwk", jwk(t, &others.p256.PublicKey, "x", nil), "jku", "https://evil.example.com", "x5u", "https://evil.example.com"), false},
	}
	file := t.TempDir() + "/jwks.json"
	writeFile(t, file, s)
	sources := map[string]Config{
		"file": {JWKSFile: file},
		"url":  {JWKSURL: newProvider(t, s).url, UnknownKeyInterval: time.Hour, Client: client(t)},
	}
	for from, c := range sources {
		v := newVerifier(t, c)
		for name, c := range cases {
			t.Run(from+"/"+name, func(t *testing.T) {
				user, err := v.User(request(c.token))
				switch {
				case c.good && (user != "42" || err != nil):
					t.Errorf("user %q, error %v", user, err)
				case !c.good && (user != "" || !errors.Is(err, ErrBadToken)):
					t.Errorf("user %q, error %v, want ErrBadToken", user, err)
				}
			})
		}
	}
}

func TestHeader(t *testing.T) {
	v := newVerifier(t, Config{Secret: testSecret})
	good := sign(t, jwt.SigningMethodHS256, []byte(testSecret), claims())
	for name, c := range map[string]struct {
		lines []string
		want  error
		code  string
	}{
		"usual":             {[]string{"Bearer " + good}, nil, ""},
		"lower case":        {[]string{"bearer " + good}, nil, ""},
		"upper case":        {[]string{"BEARER " + good}, nil, ""},
		"more spaces":       {[]string{"Bearer   " + good + " "}, nil, ""},
		"no header":         {nil, ErrNoToken, ""},
		"empty":             {[]string{""}, ErrNoToken, ""},
		"Basic":             {[]string{"Basic dXNlcjpwYXNz"}, ErrNoToken, ""},
		"no scheme":         {[]string{good}, ErrNoToken, ""},
		"another word":      {[]string{"Bearers " + good}, ErrNoToken, ""},
		"only the scheme":   {[]string{"Bearer"}, ErrBadToken, codeRequest},
		"two words":         {[]string{"Bearer " + good + " " + good}, ErrBadToken, codeRequest},
		"two headers":       {[]string{"Bearer " + good, "Bearer " + good}, ErrBadToken, codeRequest},
		"Basic and Bearer":  {[]string{"Basic dXNlcjpwYXNz", "Bearer " + good}, ErrBadToken, codeRequest},
		"comma":             {[]string{"Bearer " + good + ",Bearer " + good}, ErrBadToken, codeRequest},
		"control character": {[]string{"Bearer " + good + "\x01"}, ErrBadToken, codeRequest},
		"too long":          {[]string{"Bearer " + strings.Repeat("x", 8193)}, ErrBadToken, codeToken},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("")
			if c.lines != nil {
				r.Header["Authorization"] = c.lines
			}
			user, err := v.User(r)
			if !errors.Is(err, c.want) || (c.want == nil) != (user == "42") {
				t.Errorf("user %q, error %v, want %v", user, err, c.want)
			}
			var bad *TokenError
			if errors.As(err, &bad); c.code != "" && bad.Code != c.code {
				t.Errorf("code %q, want %q", bad.Code, c.code)
			}
		})
	}
	t.Run("not from the URL", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodPost, "/v1/me?access_token="+good, strings.NewReader("access_token="+good))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: "access_token", Value: good})
		if user, err := v.User(r); !errors.Is(err, ErrNoToken) {
			t.Errorf("user %q, error %v", user, err)
		}
	})
}

func TestMint(t *testing.T) {
	v, err := New(t.Context(), Config{Secret: testSecret, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	token, err := Mint(testSecret, "42", time.Hour, "", "", now)
	if err != nil {
		t.Fatal(err)
	}
	if user, err := v.User(request(token)); user != "42" || err != nil {
		t.Errorf("user %q, error %v", user, err)
	}
	v.parser = jwt.NewParser(jwt.WithTimeFunc(func() time.Time { return now.Add(61 * time.Minute) }))
	if _, err := v.User(request(token)); !errors.Is(err, ErrBadToken) {
		t.Errorf("after its time: %v", err)
	}
	_, err = Mint("short", "a\nb", 0, "", "", now)
	var invalid *store.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Faults) != 3 {
		t.Errorf("faults: %v", err)
	}
	if err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("the error repeats the secret: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   []string // the fields with faults
	}{
		"secret":           {Config{Secret: testSecret}, nil},
		"https":            {Config{JWKSURL: "https://id.example.com/jwks", Issuer: "i", Audience: "a"}, nil},
		"loopback by name": {Config{JWKSURL: "http://localhost:8080/jwks", Issuer: "i", Audience: "a"}, nil},
		"loopback by v4":   {Config{JWKSURL: "http://127.0.0.9/jwks", Issuer: "i", Audience: "a"}, nil},
		"loopback by v6":   {Config{JWKSURL: "http://[::1]/jwks", Issuer: "i", Audience: "a"}, nil},
		"no skew":          {Config{Secret: testSecret, Leeway: -1}, nil},

		"nothing":            {Config{}, []string{"secret", "issuer", "audience"}},
		"short":              {Config{Secret: "sesame-sesame-sesame-sesame-31b"}, []string{"secret"}},
		"two ways":           {Config{Secret: testSecret, JWKSFile: "f"}, []string{"secret"}},
		"http":               {Config{JWKSURL: "http://id.example.com/jwks", Issuer: "i", Audience: "a"}, []string{"jwks_url"}},
		"http, like a local": {Config{JWKSURL: "http://localhost.example.com/jwks", Issuer: "i", Audience: "a"}, []string{"jwks_url"}},
		"http, user trick":   {Config{JWKSURL: "http://localhost@id.example.com/", Issuer: "i", Audience: "a"}, []string{"jwks_url"}},
		"file URL":           {Config{JWKSURL: "file:///etc/passwd", Issuer: "i", Audience: "a"}, []string{"jwks_url"}},
		"no host":            {Config{JWKSURL: "https://:443/", Issuer: "i", Audience: "a"}, []string{"jwks_url"}},
		"all at once": {Config{JWKSURL: "x", Leeway: time.Hour, MaxTokenBytes: 1, MaxKeySetBytes: 1, RefreshInterval: -1, RefreshTimeout: -1, UnknownKeyInterval: -1},
			[]string{"jwks_url", "issuer", "audience", "leeway", "max_token_bytes", "max_key_set_bytes", "refresh_interval", "refresh_timeout", "unknown_key_interval"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.EnsureDefaults()
			err := c.config.Validate()
			var got []string
			var invalid *store.InvalidError
			if errors.As(err, &invalid) {
				for _, f := range invalid.Faults {
					got = append(got, f.Field)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("faults in %v, want %v: %v", got, c.want, err)
			}
		})
	}
}

// TestNothingSecretShows prints all that could be printed.
func TestNothingSecretShows(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := Config{Secret: testSecret, Issuer: issuer, Audience: audience, Log: logger, Now: func() time.Time { return now }}
	v, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&log, verb+verb+verb+verb+verb, c, &c, c.Secret, v, *v)
	}
	text, err := json.Marshal(struct{ Secret Secret }{c.Secret})
	if err != nil {
		t.Fatal(err)
	}
	log.Write(text)
	logger.Info("config", "secret", c.Secret, "config", c)
	tokens := map[string]string{
		"good":    sign(t, jwt.SigningMethodHS256, []byte(testSecret), claims()),
		"expired": sign(t, jwt.SigningMethodHS256, []byte(testSecret), claims("exp", 1)),
		"forged":  sign(t, jwt.SigningMethodHS256, []byte(strings.Repeat("z", 40)), claims()),
		"none":    sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims()),
		"not one": "c2VjcmV0LXRoaW5n.c2VjcmV0LXRoaW5n.c2VjcmV0LXRoaW5n",
	}
	h := v.Require(problem, http.NotFoundHandler())
	for _, token := range tokens {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(token))
		_ = w.Result().Header.Write(&log)
		log.Write(w.Body.Bytes())
		if _, err := v.User(request(token)); err != nil {
			fmt.Fprintf(&log, "%v %+v %#v", err, err, err)
		}
	}
	if !strings.Contains(log.String(), "token refused") {
		t.Fatalf("nothing was logged: %s", log.String())
	}
	shown := strings.ToLower(log.String())
	for _, part := range []string{string(testSecret), "battery", fmt.Sprintf("%x", string(testSecret)), fmt.Sprint([]byte(testSecret)),
		base64.StdEncoding.EncodeToString([]byte(testSecret))} {
		if strings.Contains(shown, strings.ToLower(part)) {
			t.Errorf("the secret shows, as %q", part)
		}
	}
	for name, token := range tokens {
		for part := range strings.SplitSeq(token, ".") {
			if len(part) > 8 && strings.Contains(shown, strings.ToLower(part)) {
				t.Errorf("a part of the token %q shows", name)
			}
		}
	}
}

// problem is the Problem of these tests.
func problem(w http.ResponseWriter, _ *http.Request, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "detail": detail})
}

func TestMiddleware(t *testing.T) {
	v := newVerifier(t, Config{Secret: testSecret})
	key := []byte(testSecret)
	good := sign(t, jwt.SigningMethodHS256, key, claims())
	expired := sign(t, jwt.SigningMethodHS256, key, claims("exp", 1))
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "user=%q", User(r.Context())) })
	const expiredChallenge = `Bearer realm="nearjob", error="invalid_token", error_description="The token has expired: get a new one."`
	for name, c := range map[string]struct {
		handler   http.Handler
		token     string
		status    int
		body      string
		challenge string
	}{
		"required, good":    {v.Require(problem, next), good, 200, `user="42"`, ""},
		"required, none":    {v.Require(problem, next), "", 401, "needs a user", `Bearer realm="nearjob"`},
		"required, expired": {v.Require(problem, next), expired, 401, "has expired", expiredChallenge},
		"required, no token at all": {v.Require(problem, next), "a b", 400, "not Bearer",
			`Bearer realm="nearjob", error="invalid_request", error_description="The Authorization header is not Bearer, a space and one token."`},
		"optional, good":    {v.Optional(problem, next), good, 200, `user="42"`, ""},
		"optional, none":    {v.Optional(problem, next), "", 200, `user=""`, ""},
		"optional, expired": {v.Optional(problem, next), expired, 401, "has expired", expiredChallenge},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			// A user that some outer code put there must not stay.
			r := request(c.token)
			c.handler.ServeHTTP(w, r.WithContext(WithUser(r.Context(), "root")))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%d %s, want %d %q", w.Code, w.Body, c.status, c.body)
			}
			if got := w.Header().Get("WWW-Authenticate"); got != c.challenge {
				t.Errorf("challenge %s, want %s", got, c.challenge)
			}
			if w.Header().Get("Vary") != "Authorization" {
				t.Errorf("Vary is %q", w.Header().Get("Vary"))
			}
			if c.status != 200 && w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("a problem of type %q", w.Header().Get("Content-Type"))
			}
		})
	}
	if User(t.Context()) != "" {
		t.Error("a context without a user has one")
	}
}

// FuzzBearer: what is taken for a token was the only thing after the only Bearer.
// Run: go test -fuzz FuzzBearer ./api/auth
func FuzzBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer", "Bearer ", "Bearer a.b.c", "bearer  x ", "Basic x", "Bearer a,b", "Bearer a=b", "Bearer \x00", "Bearer\ta", "Bearer =", "Bearer é"} {
		f.Add(s, "")
		f.Add(s, "Bearer y")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		h := http.Header{"Authorization": {one}}
		if two != "" {
			h["Authorization"] = append(h["Authorization"], two)
		}
		token, err := bearer(h, 64)
		if err != nil {
			if token != "" || !errors.Is(err, ErrNoToken) && !errors.Is(err, ErrBadToken) {
				t.Fatalf("token %q, error %v", token, err)
			}
			return
		}
		if two != "" || token == "" || len(token) > 64 || strings.ContainsAny(token, " \t,\"\x00\r\n") {
			t.Fatalf("token %q of %q and %q", token, one, two)
		}
		if fields := strings.Fields(one); len(fields) != 2 || !strings.EqualFold(fields[0], "bearer") || fields[1] != token {
			t.Fatalf("token %q of %q", token, one)
		}
	})
}

// FuzzToken: only a token that was signed is accepted, in its one spelling.
// Run: go test -fuzz FuzzToken ./api/auth
func FuzzToken(f *testing.F) {
	v := newVerifier(f, Config{Secret: testSecret})
	good := sign(f, jwt.SigningMethodHS256, []byte(testSecret), claims())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[1:])
	f.Add("..")
	f.Add(sign(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims()))
	f.Fuzz(func(t *testing.T, token string) {
		user, err := v.verify(t.Context(), token)
		switch {
		case token == good && (user != "42" || err != nil):
			t.Fatalf("the good token gave %q, %v", user, err)
		case token != good && (user != "" || !errors.Is(err, ErrBadToken)):
			t.Fatalf("user %q, error %v of %q", user, err, token)
		}
	})
}

func TestCheckUser(t *testing.T) {
	bad := map[string]bool{"": true, " a": true, "a\u00a0b": true, "a\tb": true, "\xff": true, "\ufffd": true, strings.Repeat("x", 129): true,
		"a": false, "a b": false, "auth0|5f7c8ec7c33c6c004bbafe82": false, "김민수": false, "jobs@example.com": false, strings.Repeat("é", 128): false}
	for _, user := range slices.Sorted(maps.Keys(bad)) {
		if err := CheckUser(user); (err != nil) != bad[user] {
			t.Errorf("%q: %v", user, err)
		}
	}
}
