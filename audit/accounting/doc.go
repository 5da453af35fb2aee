// Package accounting says what a mechanism costs: the ε and δ of differential
// privacy that it satisfies.
//
// A mechanism is described by an Event (DPSGD, Gaussian, PoissonSampledGaussian,
// Laplace, and compositions of them), with its neighbouring relation as a field.
// Accountants take the description:
//
//   - NewCurve gives the tight answer, an interval of width at most MaxWidth with
//     the exact value in it, for both directions (record removed and added), as ε
//     of δ, δ of ε, and trade-off function;
//   - Opacus gives the number that Opacus' PRV accountant prints, which is about
//     0.01 more;
//   - RDPEpsilon and GDPEpsilon give Rényi's upper bound and the Gaussian
//     approximation, which is no bound;
//   - SingleRelease is exact for one release.
//
// Noise.Calibrate finds the noise multiplier for a target ε, and
// Noise.CalibrateOpacus the one that Opacus finds.
//
// An unknown event is an error that names it; so is a parameter out of range.
// Limits are right: no steps, or a sample rate of 0, cost nothing, and no noise
// costs an infinite ε.
package accounting
