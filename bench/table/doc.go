// Package table looks at a user's own MySQL table: it reads the places of its rows,
// says which of them cannot be used, and works out what to change so that "what is
// near?" becomes fast there, as DDL and a query to paste, with the gain measured.
//
// [Inspect] checks that the table can be read, [Source.Jobs] hands its rows to the
// laboratory (bench/lab compares the strategies on them), and [Advise] makes a copy in a
// schema of its own (bench/scratch), runs every statement that it advises on that copy exactly
// as it prints it, checks that the rows are those of the plain search, and only then
// takes the time. It renders nothing (bench/report does), and does not choose between
// the strategies beyond putting the fastest first.
//
// # What it does to the table
//
// Nothing. The table is read over [Config.Source] alone, an account that may have no
// more than SELECT on that one table, and only in transactions begun with START
// TRANSACTION READ ONLY, where the server refuses every write. A reading is one SELECT
// in a consistent snapshot, which takes no row locks; like any open
// transaction it holds back ALTER TABLE on the table and the purge of old row versions until it
// ends. max_execution_time bounds it on the server: [CountLimit] for the count,
// [ReadLimit] for a reading. What is written goes to the [scratch.Server].
//
// [Config.Where] is SQL of the user's own, run with that account's rights and in the
// same transactions, in parentheses. What would end or lengthen the statement around it
// is refused: a semicolon, comments, unbalanced parentheses or quotes, and locking
// reads. It is a convenience for the owner of the table, not a wall against strangers:
// nobody else's text belongs there.
//
// # What "the same rows" means
//
// In every query, today's and the advised ones, one expression decides: the clamped asin form of
// the haversine on the sphere of [geo.EarthRadius], over the user's own columns. Indexes,
// boxes, cells and the R-tree only narrow down what it is computed for, with a margin.
// (ST_Distance_Sphere over a point column differs from it in the last digits, so that rows
// on the edge would come and go with the strategy; it is not used.) Rows without a
// usable place are in no answer. For rows at the same distance the id decides.
//
// # How DDL fits a table as it is
//
//   - Columns are added INVISIBLE, so that SELECT * and INSERT without a list of
//     columns go on as before.
//   - An R-tree takes no NULL and no longitude outside -180 < lng <= 180. The generated
//     point files rows without a usable place at the South Pole and -180 as 180; the condition
//     on the table's own columns keeps the former out of every answer.
//   - Coordinates kept as text get two virtual DOUBLE columns, NULL where the text is
//     no number, and the indexes are on those.
//   - A view has no indexes: for it the DDL makes a table beside it, which the application
//     keeps up to date.
//   - ALGORITHM and LOCK are spelled out, so that MySQL refuses rather than lock the
//     table for longer than the comment above the statement says. They are left out where
//     the table's engine, row format or FULLTEXT keys do not allow them.
//
// # Known limits
//
//   - The copies are InnoDB's, whatever the table is kept by; where that is another engine, or the
//     table is partitioned, it can have no R-tree, and spatial is not among the advice.
//   - MySQL 8.0.23 or newer (INVISIBLE columns) to paste the DDL.
//   - The copy holds the id, both coordinates, the indexes over these, and no other
//     column. A plain search of the full table reads wider rows, so that the gain there is more,
//     not less, than the one told.
//   - A condition ([Config.Where]) chooses which rows are copied; the printed query does
//     not repeat it, since the copy has not its columns. [result.Advice] says where it goes.
//   - Places must be in two columns of numbers, or of text that is a number in plain decimal
//     notation. A geometry column is refused, with a view to use instead.
//   - The id is an integer, DECIMAL, CHAR, VARCHAR, BINARY or VARBINARY column. Rows are read in
//     its order; an id without a unique key of its own costs the server a sort.
//   - When a context ends, the connection is closed; the server notices at the next row that it sends, or
//     at the time limit.
package table
