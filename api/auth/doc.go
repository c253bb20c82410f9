// Package auth tells which user an HTTP request comes from: it verifies the JSON
// Web Token (RFC 7519) that a request carries as a bearer token (RFC 6750), and
// takes the token's sub as the user.
//
// [New] makes a [Verifier] that knows either one shared secret (HS256) or the
// public keys of an identity provider, from a JWK Set in a file or behind a URL
// (RS256, ES256, EdDSA). [Verifier.Require] and [Verifier.Optional] are
// middleware which put the user where [User] finds it. [Mint] makes tokens for a
// shared secret, for development and tests.
//
// Which algorithm a signature is checked with follows from the type of the key
// and never from the token, so that neither "alg: none" nor an HS256 token signed
// with a public key gets through. A key set gives no symmetric, private or weak
// key, and no key whose own alg, use or key_ops says that it is for something
// else. Issuer, audience and expiry are always required. See RFC 8725 for the
// attacks that this answers.
//
// The package does not say what a user may do: it reads no role, scope or group
// from a token, and knows no database. A token is looked for in the Authorization
// header only; a URL ends in logs and histories. No token and no secret is in any
// error or log line of the package.
//
// Signatures and claims are checked by golang-jwt/jwt, the most used and longest
// kept JWT library of Go, whose parser can be told which algorithms to accept. Key
// sets are kept by MicahParks/keyfunc and jwkset, which were made for it: they
// refresh in the background and, rate-limited, when an unknown key id turns up.
//
// Limits: there is no revocation; a token is good until it expires, so let them
// live for minutes or hours. A key that a provider signs with before it publishes
// it is found by one extra fetch for each [Config.UnknownKeyInterval]; somebody
// who sends made-up key ids can use up that fetch, and then the key is found by
// the next regular refresh. Ed25519 keys go by the name EdDSA of RFC 8037 only, not by
// Ed25519 of RFC 9864. Encrypted tokens (JWE) and DPoP are not supported.
package auth
