// Package lab is the measuring core of the laboratory: it loads data sets into
// MySQL at growing sizes, runs the same search through every strategy of
// store/search, and records times, plans, warnings and what the optimizer weighed.
//
// It judges nothing and renders nothing: what it finds is a result.Run, which
// bench/report shows. It knows no strategy and builds no SQL: statements are those
// that store/mysql sends for the service, so that what is measured is what is
// served. Its schemas come from bench/scratch; bench/experiment and bench/table
// ask other questions of the same server.
//
// # What is measured
//
// For each data set, size and radius the same query goes through each strategy in
// two ways: free, as the service runs it, and forced, with the index of the
// strategy named in the SQL (FORCE INDEX). Before anything is timed, all of them
// must return the rows that a plain loop over the data set finds, in the same order
// and with distances that agree to the last bit: see [DifferenceError].
//
// Times are of plain queries, never of EXPLAIN ANALYZE, which slows them down.
// Every query runs before it is timed, so that its pages are in the buffer pool.
// The runs of all strategies are interleaved in a random order, so that whatever
// drifts on the machine hits all alike. A statement's own time is of its
// execution as a prepared statement with all rows taken from the driver, as the
// engine does it, but without making candidates of them. Nothing else runs at the
// same time: sets are loaded in parallel, then measured one after another.
//
// The clock of the searches stands still: at [Set].Now, or when the set's newest job
// was posted. So a data set has the same answers today and next year.
//
// # Captures
//
// With an output folder, each case is written to captures/<key>.json as soon as it
// is measured: everything, uncut, with the raw optimizer traces. A file states the
// conditions that it was made under (the content of the data set, the query,
// the server, its settings, the tables' definition, the program's version). A run
// uses the files that fit its own conditions and measures the rest, so that the
// same command goes on where it was broken off. A file that does not fit is
// measured again and the run says so; it is never mixed in.
//
// With all captures there, a run only asks the server for its settings; without a
// server at all it takes the settings from captures/environment.json.
//
// # Known limits
//
//   - One client, one search at a time: latency, not throughput. bench/experiment
//     has the one under load.
//   - Warm only. What a search costs with a cold buffer pool depends on disks.
//   - The statistics of InnoDB are samples: two loads of the same rows can have
//     estimates that differ by some per cent. The figures of a case are from one load.
//   - Rows are loaded in the shuffled order, a thousand a transaction, as if they had
//     come in over time from everywhere. Loading them by place was no faster (200 to
//     330 microseconds a row on one core, most of it for the R-tree), and makes an
//     R-tree that no service has.
//   - The optimizer trace of the hypergraph optimizer has no figures by index; the
//     cause then says so.
//   - A strategy that reads no index is not forced.
package lab
