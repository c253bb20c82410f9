// Package ingest reads files of jobs, whoever wrote them, into a store.
//
// [Import] recognises the format of a file by its content, turns each record
// into a [store.Job] and saves the jobs in batches. A record that cannot be used
// is left out, counted by [Reason] and written to [Rejects] with its line; the
// import goes on. Nothing is guessed: what is assumed is counted as a [Warning], and where two
// columns could be meant, it stops and asks.
//
// A further format is one file: a [Format] that turns its records into [Row]s,
// named in [Formats]. What the texts in a Row mean (numbers, dates, yes and no)
// is decided in one place for all formats.
//
// Files are streams and may be of any size; a record may have at most
// [MaxRecord] bytes and [MaxColumns] columns. Text must be UTF-8. Coordinates are
// WGS 84 degrees. Neighbours: the engines save the jobs (store.Jobs),
// bench/dataset makes jobs up.
//
// Known limits: a job that names no identifier is known by its content, so a
// changed record is a new job; jobs that are no longer in a file stay in the store.
package ingest
