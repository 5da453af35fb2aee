// Package gorgonia joins Aviary to Gorgonia: it copies between the dense
// tensors of gorgonia.org/tensor and Aviary's, and audits a Gorgonia
// expression graph through [Trainer].
//
// It is a module of its own, so that Gorgonia's dependencies stay out of
// Aviary. Gorgonia serves here as a trainer to audit and as an independent
// first-order oracle. It is not used for second derivatives: it takes the
// gradient of a gradient without an error and gives the wrong number. A test
// of this package holds the example d²(x³)/dx² at 2, which is 12.
package gorgonia
