// Package notify delivers the messages that the matching's transitions leave in
// the outbox: who applied, who was accepted, what was cancelled; and those of
// alerts, that a job has opened.
//
// A [Dispatcher] claims messages from a [store.Outbox], puts each into its
// recipient's words ([Texts], English and Korean) and hands it to every [Channel]
// that the recipient has chosen: push messages (package fcm), webhooks (package
// webhook), streams (package sse). Any number of processes may run a dispatcher
// on one outbox.
//
// What it promises:
//
//   - At least once. A message leaves the outbox only after its delivery is noted
//     there. A process that is killed loses its claims when their leases end, and
//     another delivers the messages. So duplicates happen; they carry the same
//     id ([Note].ID) on every channel, by which receivers drop them.
//   - In order for each job: a message is not claimed while an earlier one of its
//     job is undelivered, unless that one was given up.
//   - Two processes do not deliver one message at the same time, as long as a
//     delivery ends within its lease (Options requires a lease of at least twice
//     the timeout, and a claim that has waited too long is not begun) and the
//     clocks of the nodes differ by less than what remains.
//   - A failed message is tried again after an exponential backoff with full
//     jitter, not before what a Retry-After asks for, and a bounded number of
//     times. Then it is dead: kept with its last error until an operator replays it.
//
// One message goes to several targets, and they fail apart. What one target has
// taken is not sent to it again because another failed: the dispatcher remembers
// the targets that have a message until the message is done. This memory is the
// process's own and bounded. When the next attempt falls to another process, or
// the process was restarted, a target gets the message again, under the same id.
// A table of deliveries would make that rarer, at one more write for each, and
// could not rule it out: no write is atomic with a call to somebody's server.
//
// Known limits:
//
//   - Order is per job and not per recipient, so a recipient's failing webhook
//     holds up the job's later messages to others. The default of 10 attempts
//     bounds the waits to about four minutes on average, and to nine at most; a
//     server that asks for longer ones by Retry-After gets up to [MaxRetryAfter]
//     each. What is refused for good holds up nothing, and streams, which read
//     the store, are not held up at all.
//   - A message that was given up because one target failed goes to all targets
//     again when it is replayed.
//   - Giving back a claim at a stop counts as one of the message's attempts.
//
// The package knows no database. Its neighbours: package store writes the outbox
// and says what the messages are; package api lets users choose channels.
package notify
