// Package search finds the open jobs near a point: one answer, whatever the
// strategy and the engine.
//
// A [Finder] turns a [store.Query] into a [Task] and hands it to a [Strategy]. The
// strategy decides which rows to ask the engine for (a [store.Access]: data, not
// SQL) and in how many rounds; what is a hit, in which order, and where a page
// ends is decided here, once for all of them, in the refine step: exact distance,
// filter, bounded top-k, cursor. So a new strategy is one file with a Search
// method and a line in [Strategies], and it can be slow but not wrong, as long as
// it leaves out no row that could be a hit.
//
// The package imports no database. Decorators (caches, a choice of strategy for
// each query) wrap a Finder's Find.
//
// Limits: an answer is not a snapshot. A job that opens or closes while a
// search runs may or may not be seen; a job that is matched before its record is
// read is left out, so that a page can be shorter than its limit and still have
// a next one. Newest-first reads every job in the area, since no index orders by
// time within a circle.
package search
