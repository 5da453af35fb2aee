// Package ibis makes canaries for the one-run game that are easy to detect and
// leave each other's scores alone: influence functions choose them among the
// training examples, and a bilevel optimisation refines their pixels.
//
// # Influence
//
// With score s = −loss and a model θ that minimises the mean loss over its n
// training examples, the influence of example j on the score of example i is
//
//	I(i, j) = ∇loss(θ, i)ᵀ H⁻¹ ∇loss(θ, j),
//
// with H the Hessian of the mean loss: leaving j out changes the score of i by
// −I(i, j)/n to first order. I(i, i) is i's self-influence. H is replaced by
//
//   - [KFAC]: one Kronecker product per layer (Martens and Grosse 2015), with
//     which influence is a sum over layers of products of two inner products;
//   - [EKFAC]: the same eigenvectors with corrected eigenvalues (George et al.
//     2018), nearer to H, and dearer: each column of influences costs as much
//     as a layer's gradients of all candidates;
//   - [Exact]: the damped Gauss-Newton matrix itself, inverted by conjugate
//     gradients. It is the oracle, for small nets.
//
// [Select] chooses canaries by these figures.
//
// # Refinement
//
// [Refine] moves the pixels of canaries C so that
//
//	Φ(C) = Σ_C s(θ*, z) − s(θ_C, z) + R
//
// falls, where θ* is trained on D and θ_C on D ∪ C: what is seen of a canary in
// the score, and the regulariser R, the squared cosines between the canaries'
// embeddings at θ*, which stands for interference. θ_C and the implicit
// derivative follow the pixels in small steps. [Refinement] describes the
// training that will be audited, augmentation and clipping included.
package ibis
