// Package scoreio reads and writes the files that audits exchange: scores,
// losses and canaries.
//
// A score file has one row per candidate and audit, with the columns
//
//	set,audit,canary,member,score
//
// as CSV with that header, as npz with one array per column, or as a JSON list
// of objects; the ending of the file's name decides. set, audit and canary are
// numbers from 0 on, member is 0 or 1, and score is a finite number, higher
// for candidates that look more like members. Scores are printed with as many
// digits as bring back the same bits.
//
// Score files of other programs are read too: they may lack set, audit and
// canary, order their columns as they like, call them by other names (Columns),
// hold losses instead of scores, separate columns by tabs (.tsv), be packed by
// gzip, and write member as true and false.
//
// Every row is checked, and errors name the file, the line or row, the column,
// the value, and what was expected.
package scoreio
