// Package dataset generates job data sets: the same rows for the same [Config]
// on every machine, so that a figure or a failure can be had again elsewhere.
//
// The rows are made up. They have the things that matter to a search in a
// realistic measure (places that cluster, a few employers with many jobs, jobs
// without pay, without a place, with an end), but they are no model of a labour
// market. Nothing is read from the outside: the cities of the shape [Cities] are
// embedded. The rows are a stream, so their number is not bounded by memory.
// Neighbours: store/ingest reads real data, and package bench measures on both.
//
// # Why the rows are the same everywhere
//
//   - Random numbers come from math/rand/v2's PCG, whose output is specified,
//     and only from its Uint64; the bounded numbers are made here in integers,
//     because the methods of rand.Rand take other paths on 32-bit machines.
//   - Normal deviates are sums of integers, for the usual methods need exp and log.
//   - Sine, cosine and arctangent are made here of + - * / and square roots,
//     which IEEE 754 rounds exactly on every machine. Those of package math are
//     in assembly on some machines and use fused multiply-add on others.
//   - Every product that is added to something is written float64(a*b), which
//     the language forbids to fuse.
//   - Coordinates are then rounded to 1e-7 degrees (11 mm) as integers. That is
//     for readable data; the rows would be the same without.
package dataset
