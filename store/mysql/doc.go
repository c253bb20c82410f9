// Package mysql is the MySQL engine of Nearjob: it turns an access into SQL,
// keeps the jobs, and has the server explain its plans.
//
// It knows no strategy and decides no distance: what SQL computes only leaves
// out candidates, with the margin that the strategy gave it. Its neighbours:
// package store says what is asked of it, store/storetest what it must pass,
// store/sqlite does the same for an embedded database, and geo/cell computes the
// cell numbers that are stored.
//
// # How it reads
//
// All SQL of the search is in build.go. A statement is prepared once a
// connection, since binary rows come two and a half times as fast as text, and
// rows are taken from the driver itself. The statement's shape has few variants:
// ranges are padded to a power of two and limits of time are rounded.
//
// # Limits of time
//
// Every connection has max_execution_time set, which ends a SELECT on the
// server; a context's deadline that comes sooner is sent with the statement. When
// a context ends, the driver closes the connection and this package kills it on
// the server, over a connection of its own. The same ends writes, which MySQL has
// no limit for; waits for locks end by innodb_lock_wait_timeout.
//
// # How it matches
//
// A transition locks the row of its job first (SELECT ... FOR UPDATE), so that all
// that happens to a job happens one after the other, on any number of nodes, and
// reads and writes the rest behind that lock. The UPDATEs ask for the state and
// version once more, and unique keys refuse a second worker who holds a job, a
// second application of a worker, a fork of a job's history, and a second message
// of one event to one user.
//
// What loses a deadlock (1213) or waits too long for a lock (1205) is tried again as
// a whole, see transition in transact.go. So is what breaks off at its COMMIT, whose
// outcome is unknown: the next attempt waits for the job's lock, behind which the
// attempt before has ended, and looks whether its event is there.
//
// Nodes share the outbox by SKIP LOCKED and by leases.
//
// # How it blurs
//
// Where places are blurred ([Options].Blur), open_job has the blurred ones and job the exact ones. Who
// writes a place into open_job first takes a shared lock on the one row of
// open_job_blur, which says by which blur, and refuses to write by another; that is
// one statement more. [Engine.Reblur] changes that row, and with it waits for
// all who write by the blur from before, and then the places.
//
// # Known limits
//
//   - MySQL 8.0.19 or newer; developed on 9.7. MariaDB has no SRID attribute and
//     is refused. Before 8.4 there is no plan as JSON.
//   - The account must be allowed to KILL its own connections, which every
//     account is, and to create tables for Migrate.
//   - Between the server and Nearjob there must be no proxy that shares
//     connections between clients: sessions have state.
//   - Inserting into an R-tree of SRID 4326 takes six times as long as into one of
//     SRID 0, since MySQL computes areas on the ellipsoid to split a page. It is
//     most of the time of an import, and cannot be had otherwise with a column
//     whose SRID says what it holds.
//   - A statement that was sent when the connection broke is not repeated: a Save
//     that returns ErrBusy may have been committed. Saving again does no harm. (The
//     transitions of the lifecycle find out.)
package mysql
