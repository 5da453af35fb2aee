// Package mechanism holds mechanisms whose privacy is known exactly, dressed
// as trainers: an audit of one must find what the formulas say, so they are
// the known answers that the whole game is tested against.
//
// The data are points: each canary is a coordinate of its own, and the sum of
// the training data over that coordinate is 1 if the canary is in and 0 if
// not. The mechanism releases every coordinate with noise, and the "loss" of a
// canary is minus its release, so the audit's score is the release itself. One
// canary changes one coordinate by 1: ε and δ are those of one release.
package mechanism
