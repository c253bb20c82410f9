// Package digest prepares what the tables and pages of a report need from a run
// of the laboratory (result.Run): a row of figures for each case, and each plan
// read, labelled and with notes at its nodes.
//
// It renders nothing and recommends nothing. Its neighbours: bench/result is what
// it reads, bench/plan reads the plans, bench/report/verdict judges, and
// bench/report and bench/report/markdown show what comes from here.
//
// # What the figures mean
//
//   - A search can take several statements (the cell strategies read outward in
//     rounds): rows examined, estimated and actual rows are sums over them.
//   - Estimated and actual rows are those of the operations that read the table,
//     in the free plans. Forced plans are left out, since MySQL shows an estimate
//     of 1 row where an index is forced.
//   - An estimate for an operation that a limit stops early is left out as well:
//     that fewer rows came tells nothing.
//
// # Known limits
//
//   - Rows that an index condition rejects inside the storage engine appear in no
//     plan, so that the rows examined are a lower bound where there is such a
//     condition.
//   - A case one of whose plans cannot be read has figures of the others only;
//     Plans says which.
package digest
