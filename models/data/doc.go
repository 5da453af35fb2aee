// Package data loads labelled images from the files that people have: IDX
// (plain or gzip), .npy and .npz. Ten thousand real digits are built in.
//
// Files are data from elsewhere: every loader checks sizes before it takes
// memory, and every error names the file, what was found and what was
// expected.
package data
