// Package sqlite is Nearjob's embedded engine: a [store.Engine] in one file, for
// a demo, a test, a laboratory on a laptop, or a small service.
//
// It keeps the same contract and gives the same answers as store/mysql. It knows
// no strategy and no HTTP; package geo/cell gives it the cell numbers of a place,
// and store/storetest is what it must pass.
//
// # Driver
//
// The driver is ncruces/go-sqlite3, through its own interface and not
// database/sql: statements stay prepared, rows arrive without an allocation for
// each value, a context stops a statement without a goroutine to watch it, and it
// brings R*Tree and the math functions without a build tag or a C compiler.
// DRIVERS.md has the figures. database/sql serves the migrations only.
//
// # Writing
//
// There is one writing connection; every write takes SQLite's write lock at its
// beginning (BEGIN IMMEDIATE), so that none fails half way because another
// process wrote first. The search tables follow job in the same transaction by
// code, not by triggers: SQL cannot compute the cell numbers.
//
// A transition of the lifecycle is one such transaction, and so is a claim of
// messages: nothing can come between what it reads and what it writes. The
// database refuses by its own indexes a second worker who holds a job, a second
// application of a worker, a fork of a job's history, and a second message of one
// event to one user.
//
// The file is in WAL mode with synchronous=FULL: what was acknowledged survives
// the end of the process and the loss of power.
//
// Where places are blurred (Options.Blur), open_job and the R*Tree have the blurred ones
// and job the exact ones. Each write of a place looks into open_job_blur, which says
// by which blur, and refuses to write by another; [Engine.Reblur] changes that
// first and then the places.
//
// # Reading
//
// Readers have connections of their own and wait for no writer. All statements
// of one Read see one state of the database.
//
// # Limits
//
// One machine: WAL needs shared memory, so the file must not be on a network
// file system. One writer at a time. In-memory databases are refused, since each
// connection of a pool would have its own.
package sqlite
