// Package experiment asks again, on the server at hand, the questions that teams
// with a "jobs near me" search on MySQL keep answering from hearsay:
//
//   - crossover: at which share of the table does the optimizer give up an index,
//     and is it right to?
//   - reuse: does it help to write the distance once, in a derived table?
//   - covering: what do a covering index, and a table clustered by place, save?
//   - stacked: what happens under load when all jobs share one coordinate?
//   - protocol: what do prepared statements, the pool's size and connections cost?
//
// Each experiment makes its own tables in a schema of its own, shows that the
// sides it compares return the same rows, and only then times them: in turns, so
// that whatever else the machine does falls on all of them. Its findings set what
// was published beside what was seen; the outcome of each is computed from the
// figures.
//
// The package renders nothing: bench/report shows a [result.Experiment].
// bench/scratch gives the schemas, bench/dataset the rows, bench/plan reads the
// plans, and store/search and store/mysql are what is under load in stacked. It
// measures no table of the user's; bench/table does.
//
// # Known limits
//
//   - The client and the server share a machine in most runs, so that a figure
//     includes the client's work. Ratios of one run carry over to other machines better
//     than times do.
//   - Everything is warm: each statement ran before it is timed. A table that is
//     larger than the buffer pool favours reading less even more.
//   - With FORCE INDEX, MySQL from 8.0 on estimates no rows and prints a cost that
//     means nothing. The costs of an index that was not chosen are read from the
//     optimizer trace, which the hypergraph optimizer does not have.
//   - Schemas are dropped at the end, also after a cancellation; a process that is
//     killed leaves them (see bench/scratch).
package experiment
