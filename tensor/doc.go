// Package tensor holds arrays on a device, and Values: an array and,
// optionally, its derivative along one direction.
//
// Code written over Values once gives gradients, Hessian-vector products and
// mixed derivatives, because every operation of [Ctx] knows its product rule.
// docs/designs/001-layers.md says why it is done this way.
package tensor
