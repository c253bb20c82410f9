// Package plan reads what MySQL's EXPLAIN and EXPLAIN ANALYZE print, as one
// tree whatever the format, and compares two such trees.
//
// [Parse] takes FORMAT=TREE and FORMAT=JSON (versions 1 and 2) of MySQL 8.0 to
// 9.7, recognised by content, in the shapes in which people keep and paste
// them: raw, in the client's frame, as \G, with \n escapes, as a JSON string,
// with prompts and row counts around. [Diff] pairs the nodes of two plans and
// says what differs, first in shape and access, then in rows and time;
// [Difference.WriteText] prints it for a terminal. [Node.Notes] says in plain
// words what is worth a look at one node.
//
// It is not a client: it runs no statement and opens no connection. It is not
// an optimizer: a note names what the plan shows, and promises no gain. It does
// not read the traditional table of EXPLAIN, nor MariaDB's output.
//
// Nothing of the input is dropped. A line that belongs to no plan is in
// [Plan.Frame] if it is the client's, and in [Plan.Unread] otherwise; a JSON
// member that has no field is in [Node.Attributes]; an operation that is not
// known is a node of kind [Other] with its text.
//
// # What the figures mean
//
// MySQL prints rows and times of EXPLAIN ANALYZE as the mean of one loop;
// [Node.TotalRows] and [Node.TotalMS] multiply. A time includes the time of the
// inputs; [Node.SelfMS] subtracts. Estimates are for one loop too, in both
// formats that name them for each operation (TREE, JSON version 2). In JSON
// version 1 the cost of a table that is not the first of its join is for all
// loops, and its row estimate for one.
//
// # Known limits
//
//   - Input of more than [MaxBytes] or [MaxLines], deeper than [MaxDepth] or with more than
//     [MaxNodes] nodes is refused.
//   - TREE prints names without quotes. A table or index whose name holds
//     " using ", " over " or a parenthesis is split wrongly; its operation text
//     stays right.
//   - TREE does not say that an index is spatial. [Node.Spatial] is set where
//     the range shows it (unprintable_geometry_value) or an MBR predicate is in
//     the range or pushed condition.
//   - Rows that an index condition rejects inside the storage engine appear
//     nowhere in a plan, so [Node.Examined] is a lower bound there.
//   - JSON version 1 names no joins, filters or materializations as operations.
//     They are added, marked [Node.Implied], so that its tree resembles the others.
//   - MySQL's times of a subquery that ran while the statement was optimized,
//     and of a table that is materialized once for several readers, are not inside
//     the time of their parent. A self time that would be negative is given as 0
//     and marked.
package plan
