// Package api is Nearjob's HTTP interface: the jobs near a point or in a box, as
// JSON or GeoJSON, and the matching of a job with a worker, with a description in
// OpenAPI 3.1 and a page that shows it.
//
// [New] makes the handler, [Serve] runs it on a listener with limits and ends it
// without cutting off what runs. The package knows no database and no engine: it
// asks a [Searcher], reads records from [Jobs] and hands what users do to a
// [Market]; what a query and an action mean is decided by package store, what is a
// hit by store/search.
//
// Every fault of a request is answered at once, as a problem document of RFC 9457
// ([Problem]), including those that the router finds. One function turns an error
// into a status; a cause that is not the client's business goes to the log only,
// under the request id that the client sees too. Logs never hold a query
// string, for it says where somebody is.
//
// With a Market there are users, whom package auth tells from tokens. What a user
// may do follows from what they are towards the job (the requester, the worker of an
// application, neither), and from nothing in the token but its sub. Who asks for
// what they may see but not do gets 403, and for what they may not know of 404, as
// if there were no such thing: an application is known to its worker and the job's
// requester only. An action that the states do not allow is 409 and says
// what can be done instead; a change of another version than there is, 412.
//
// Where a server hides places ([Deps].Place), a job's requester and the worker whose
// application holds it are shown the exact one, and everybody else another, in every
// answer; newJob therefore shows the other, and whoever calls it has to know a reason to
// show more. An answer that is kept for a replay is its user's own. No event, message
// or application has a place.
//
// Before the handlers of /v1 stand, in this order: a limit for each address, the
// token, a limit for each user (package ratelimit), and the replay of answers
// (package idempotency), which every POST takes part in. A POST to /v1/jobs with an
// Idempotency-Key is safe even where its answer was lost with the process that
// made it: the SourceID of its record then follows from user, key and body, and the
// database lets no second one in. Nobody is shown that, for the place is part of
// the body. Actions need no such care, for the states let
// none happen twice.
//
// Package huma generates the description, parses no value and writes no error: its
// parser drops blank and repeated parameters, and its reader of the Accept header
// panics on some inputs. The matching endpoints pass it by altogether, so that
// bodies are read to the letter: no unknown name, none twice, nothing behind.
//
// Limits: what net/http refuses before a handler runs (a header that is too large
// or too slow, a malformed request line) is answered by net/http in plain text.
// Rate limits are kept for each process. An ETag is the version of the record, so
// it is for If-Match only, and the answers are not to be cached. The requester's
// view of a job counts its applications by reading them.
package api
