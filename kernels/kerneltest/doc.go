// Package kerneltest holds every device to the float64 definitions of
// kernels/ref. It is an ordinary package, so that the tests of any device can
// call it.
//
// Cases has one entry for each operation. It first runs on small integers,
// where every partial sum is exact in float32 whatever the order, and demands
// the very numbers; then on random numbers, within the tolerances derived in
// tol.go. Operands are views at odd offsets of larger buffers, and each buffer
// is fenced with guard values of its own: a read past an operand changes the
// result, a write past it changes the guard. What an operation may only read
// must stay as it was.
package kerneltest
