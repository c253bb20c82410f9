// Package sse lets users follow their messages as server-sent events: GET
// /v1/me/stream, as a browser's EventSource reads it.
//
// A stream reads the store, not the dispatcher: the node that a client is
// connected to is seldom the one that delivers. It looks for the user's messages
// by id, every few seconds, and at once when a dispatcher of the same process has
// a message for the user (the hub is a notify.Channel for that). This costs one
// indexed read for each stream and interval, 330 a second for 1,000 streams at
// the default of 3 s, and needs no broker between nodes.
//
// Each event's data is a notify.Note as JSON, and its id the message's. A client
// that comes back with Last-Event-ID gets what it missed, as long as the store
// keeps it. Ids grow, but a message can become visible after one with a higher
// id: its transaction took longer. So each look begins at the last id that the
// stream knew a while ago (Options.Lookback), leaving out what it has written. Such a late message is written without an id line, since it
// must not move Last-Event-ID back; and a client that resumes may get the
// messages of that short time before its Last-Event-ID twice. Data carries the
// id, by which to drop them.
//
// A slow reader has no queue here: what is written waits in the store. One page
// of events is written at a time, and when the client does not take it within
// Options.Write the stream is closed, to be resumed. Streams end after
// Options.MaxAge, so that who may no longer log in does not listen for ever.
//
// Limits: mount the hub outside of whatever bounds the time of a request, such as
// http.TimeoutHandler; the server's own ReadTimeout and WriteTimeout are lifted
// for streams. A stream that is refused (429, 503) is not tried again by an
// EventSource, by its specification; a client has to do that itself.
package sse
