package rng

// The purposes of all streams in Aviary.
const (
	Coins      Purpose = "coins"      // membership of each canary (set, audit)
	Select     Purpose = "select"     // which examples become canaries (set)
	Relabel    Purpose = "relabel"    // wrong labels of mislabeled canaries (set)
	Train      Purpose = "train"      // the seed of one training run (set, audit)
	Init       Purpose = "init"       // initial parameters
	Shuffle    Purpose = "shuffle"    // order of examples (epoch)
	Poisson    Purpose = "poisson"    // Poisson sampling (step)
	Noise      Purpose = "noise"      // DP-SGD noise: key of the device's Philox streams
	Augment    Purpose = "augment"    // crops and flips (step)
	Split      Purpose = "split"      // train/test split
	Mechanism  Purpose = "mechanism"  // noise of a test mechanism
	SelfTest   Purpose = "selftest"   // known-answer audits
	Fisher     Purpose = "fisher"     // labels drawn from the model, for its Fisher matrix
	Pick       Purpose = "pick"       // random choice among preselected examples
	Blank      Purpose = "blank"      // labels of blank canaries (set)
	Craft      Purpose = "craft"      // the seed of a model that canaries are crafted with (set, model)
	Refine     Purpose = "refine"     // the seed of one bilevel refinement, with streams of its own
	Worlds     Purpose = "worlds"     // order and training seeds of an audit of two worlds (set, canary)
	Toggle     Purpose = "toggle"     // canaries, subsets and training seed of a measurement of interference (set, what)
	Trials     Purpose = "trials"     // trials of an audit of Private Evolution (experiment, block, world)
	Slots      Purpose = "slots"      // slots that probes take, and which of a pool they are
	Nonce      Purpose = "nonce"      // nonce texts
	Paraphrase Purpose = "paraphrase" // paraphrases (canary, number, try)
	Bank       Purpose = "bank"       // which records make a bank, and what a language model is asked for it
	Users      Purpose = "users"      // which users test, calibrate, design probes and are canaries
)
