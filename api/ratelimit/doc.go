// Package ratelimit bounds how many requests a user, or an address that nobody is
// known behind, may make.
//
// [New] makes a [Limiter], whose [Limiter.Handler] is middleware. It stands inside
// what tells the user, so that a user has one budget wherever they come from. Each
// has a token bucket: it holds [Limit].Requests, fills evenly over [Limit].Window,
// and every request takes one token. A request that finds none is answered with
// 429, Retry-After and a problem document.
//
// Every answer carries RateLimit-Policy and RateLimit, the fields of
// draft-ietf-httpapi-ratelimit-headers:
//
//	RateLimit-Policy: "user";q=600;w=60
//	RateLimit: "user";a=597;w=1;r=597;t=1
//
// a, and w beside it, are what the draft's text of August 2026, on the way from -11
// to -12, calls the available quota and the effective window; r and t are the same
// two under the names of -08 to -11. Each version has its readers pass over
// parameters that it does not know. The window is the time until the bucket is full
// again, and for an empty one, as Retry-After, until the next token: so what is told
// is never more than what is granted. There is no pk, for a partition key would
// repeat an address or a user in caches and logs.
//
// An address is that of the connection, or the one in X-Forwarded-For behind
// proxies that [Config.TrustedProxies] lists: the right-most that is not itself such
// a proxy, because whoever stands before it can write what they like. IPv6
// addresses count by their /64, which is what one subscriber has at least.
//
// Buckets are those of golang.org/x/time/rate, whose methods take the time, so that
// a clock can be put in. go-chi/httprate, the other candidate, does not fit: it reads
// the clock itself, keeps every key of a window with no bound on their number, hashes
// keys without a seed, so that somebody can look for a name which shares a victim's
// counter, and sends X-RateLimit fields of which it can change the name only.
//
// Limits: buckets are in the process; n processes behind a balancer grant up to n
// times the limit, so divide it. At most [Config.MaxKeys] buckets are kept and the
// longest unused is dropped for a new one, which then begins full: memory is bounded,
// at the price that whoever commands more networks than that evades the limit, as
// they would anyway. A bucket lets through up to twice its size within one window,
// after a pause. The fields are on redirects too, where the draft advises against
// them.
package ratelimit
