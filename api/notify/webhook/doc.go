// Package webhook calls addresses that users have named, as the Standard Webhooks
// specification says (https://www.standardwebhooks.com): webhook-id,
// webhook-timestamp, webhook-signature of version v1, and secrets "whsec_...".
// Signatures are made by that project's own library, so that they are what its
// libraries for other languages verify.
//
// The addresses are strangers', so the caller is the one in danger. By default it
// calls https only, and only addresses on the public internet: no private,
// loopback, link-local or metadata address. The check is made when the connection
// is dialled, on the address that the name has led to, so a name that changes
// between check and use (DNS rebinding) gains nothing. Redirects are not
// followed, proxies of the environment not used, answers read up to a limit and
// within a time.
//
// An answer of 2xx is success. 410 Gone takes the webhook out of use. All else is
// tried again, after what a Retry-After says.
//
// Limits: a network that reaches IPv4 through NAT64 has addresses in 64:ff9b::/96
// that lead anywhere, so they are refused unless allowed. One secret for each
// webhook: to change it without a gap, let the receiver take both for a while.
package webhook
