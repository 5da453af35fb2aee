// Package models holds layers and networks, and passes over them.
//
// A layer's forward and backward are written once, over [tensor.Value]. What
// tells a gradient from a Hessian-vector product, a mixed derivative or a
// clipped gradient is in the [Pass], never in a layer. A [Model] binds a net to
// a device: its parameters are views of one flat vector, and so is whatever is
// shaped like them (gradients, directions, momenta).
//
// docs/designs/001-layers.md describes the scheme and how to add a layer.
package models
