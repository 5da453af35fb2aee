// Package report turns an audit.Report and its score files into what people
// read: one self-contained HTML page, tables, and plots.
//
// Everything here is derived: Render makes all of it again from report.json
// and the score files of a run directory. No page needs a network, a script or
// a second file, and all text from outside passes through html/template.
package report
