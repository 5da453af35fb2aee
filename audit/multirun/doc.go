// Package multirun audits by many trainings, where package onerun uses one: a
// list of independent trials that is journalled, can be split over machines
// (shards), and is merged to the bytes of a run in one place.
//
// There are two such lists. Worlds trains with and without one canary, for the
// bounds of two worlds. Interference toggles single canaries in random subsets
// of the others and tells how much a canary's score depends on them.
package multirun
