// Package kernels is the compute floor of Aviary: the operations that models
// are made of, on buffers that only their device can look into.
//
// Ops is the contract, one method per operation, each with its formula. Three
// devices fulfil it: [Reference] (float64, plain Go, the definition that the
// others are tested against), [CPU] (float32, C with AVX-512, AVX2 and
// portable paths chosen at run time) and, later, CUDA (float32).
// kernels/kerneltest holds every device to the reference.
//
// # Bits
//
// Every sum runs in one fixed order, so results do not depend on the number of
// threads. A contraction over k is the chain s = fma(a[k], b[k], s) in
// ascending k, starting from the destination when it accumulates: splitting a
// batch into microbatches and accumulating gives the same bits as one batch.
package kernels
