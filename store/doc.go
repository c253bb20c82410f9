// Package store is Nearjob's domain: what a job is, what can be asked, what is
// answered, and the small interfaces between the parts.
//
// It knows no database, no HTTP and no strategy. Its neighbours: store/search
// answers a [Query] through a strategy; store/mysql and store/sqlite are the
// engines that carry out an [Access] and keep the jobs; store/ingest turns
// files into jobs; store/storetest is what every engine and strategy must pass.
//
// A search has one answer, whatever the strategy and the engine: the distance is
// computed by package geo, hits are ordered by distance and then id (or newest
// first), and a page goes on exactly after the last row of the page before.
//
// Matching a job with a worker is a table of transitions ([Transition], with the
// diagrams), which [Decide] looks up and the engines carry out as a [Market]: each
// in one transaction with the job's place in the search tables, its history and the
// messages for those who are to be told.
//
// Times are kept to the millisecond in UTC, amounts of money in hundredths.
package store
