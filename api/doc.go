// Package api is Nearjob's HTTP interface: the jobs near a point or in a box, as
// JSON or GeoJSON, with a description in OpenAPI 3.1 and a page that shows it.
//
// [New] makes the handler, [Serve] runs it on a listener with limits and ends it
// without cutting off what runs. The package knows no database and no engine: it
// asks a [Searcher] and reads records from [Jobs]; what a query means is decided
// by package store, what is a hit by store/search.
//
// Every fault of a request is answered at once, as a problem document of RFC 9457
// ([Problem]), including those that the router finds. One function turns an error
// into a status; a cause that is not the client's business goes to the log only,
// under the request id that the client sees too. Logs never hold a query
// string, for it says where somebody is.
//
// Limits: there is no authentication and no rate limit here. What net/http
// refuses before a handler runs (a header that is too large or too slow, a
// malformed request line) is answered by net/http in plain text. Huma, which
// generates the description, parses no value and writes no error: its parser
// drops blank and repeated parameters, and its reader of the Accept header panics
// on some inputs.
package api
