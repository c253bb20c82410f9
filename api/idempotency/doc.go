// Package idempotency lets a client send a POST again without having it carried
// out twice. The client gives a request an Idempotency-Key of its own choice, such
// as a random UUID; whoever sends the same key and the same request again gets the
// answer of the first, marked "Idempotency-Replayed: true".
//
// [Guard.Handler] is middleware around the handlers of POSTs. It stands inside
// what tells the user, for keys belong to a user and an operation (method and
// path): two users never meet, and one key may be used on two paths. It answers
//
//   - 400 for a key that is not 1 to 255 visible ASCII characters,
//   - 422 for a key that was used with another request: another body, query or
//     If-Match,
//   - 409 with Retry-After for a request that still runs after [Config].MaxWait,
//     and without it for one whose answer was too large to keep,
//   - 503 where the store does not answer, for without it nobody can tell.
//
// Whatever status a request ended with is kept, except for those that ask the
// client to try again: 408, 425, 429, 499 and 5xx free the key, and so does a
// panic. A process that dies frees the key when its lease ends. An answer is kept
// for at least [Config].TTL; [Guard.Sweep], called every few minutes, removes it
// then.
//
// The semantics are those of draft-ietf-httpapi-idempotency-key-header-07, whose
// quoted keys mean the same as bare ones.
//
// The package knows no database: a [Store] keeps the answers, such as an engine of
// package store or, in tests, [Memory].
//
// Limits: the answer is kept after the handler's own transaction, so a process
// that dies between the two lets the request run again when the lease has ended.
// The handler must bear that, as a state machine does that refuses a second
// acceptance. A handler that ignores the end of its context and works on past its
// lease may overlap with its successor; only one of the two answers is kept.
package idempotency
