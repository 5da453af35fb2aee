// Package pe audits the vote histogram of Private Evolution: how well can
// somebody who sees the releases tell whether one user took part
// (arXiv:2609.13499)?
//
// A few candidates of the bank are replaced by probes that draw one user's
// votes together. Records vote for the candidates nearest to them (Route);
// what users contribute at the probes' slots (Contributions) is all that the
// attack sees of them. Its log-likelihood ratio is a sum of independent terms,
// so that its exact law is known (Law, RoundsLaw), trials are simulated as
// scalars (Sampler), and the exact ε of the attack (Exact) stands beside the one
// that a number of trials can prove. Audit goes from embeddings to bounds; Game
// from rows of votes that somebody else has counted.
package pe
