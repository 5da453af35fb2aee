// Package onerun plays the one-run membership game: it tells how well a model
// that was trained once gives away which of m examples, the canaries, it was
// trained on.
//
// For each canary set and each audit of it, independent fair coins decide
// which canaries go in; a model is trained on the training data, less the
// originals that the canaries displace, plus the canaries that are in; and the
// score of each canary is minus its loss. The area under the ROC curve and the
// true positive rate at 5 % false positives say how far members and
// non-members are apart.
//
// All methods of making canaries meet the same coins and the same training
// seeds, so their figures can be compared pair by pair. Every audit is a unit
// of its own: it depends on the seed and its place and on nothing that was
// played before, so a game can be interrupted anywhere and resumed.
package onerun
