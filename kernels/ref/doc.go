// Package ref defines every operation of kernels.Ops in float64: plain loops
// over plain slices, written to be read. The doc comment of a function is its
// formula; devices are held to these functions by kernels/kerneltest.
//
// All matrices are row-major and dense. Slices have the lengths that the
// formula implies; a shorter one panics. With acc a result is added to what
// dst holds: the sum starts from dst, in ascending order of its index, so that
// a sum taken in parts has the same bits as one taken at once.
package ref
