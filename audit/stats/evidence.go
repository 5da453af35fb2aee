package stats

import "fmt"

// Guesses is what a one-run game found: of Canaries canaries, each in or out
// of the training data by a fair coin of its own, the attack guessed Guessed,
// and of those Correct were guessed right. It abstained from the others.
type Guesses struct {
	Canaries, Guessed, Correct int
}

// Check reports whether the counts are possible.
func (g Guesses) Check() error {
	switch {
	case g.Canaries < 1:
		return fmt.Errorf("stats: canaries: %d, expected 1 or more", g.Canaries)
	case g.Guessed < 1 || g.Guessed > g.Canaries:
		return fmt.Errorf("stats: guesses: %d, expected 1 to the %d canaries", g.Guessed, g.Canaries)
	case g.Correct < 0 || g.Correct > g.Guessed:
		return fmt.Errorf("stats: correct: %d, expected 0 to the %d guesses", g.Correct, g.Guessed)
	}
	return nil
}

// Counts is what independent runs of two worlds found: of Members runs with
// the record, TP were called so, and of NonMembers runs without it, FP were.
type Counts struct {
	FP, NonMembers, TP, Members int
}

// Check reports whether the counts are possible.
func (c Counts) Check() error {
	switch {
	case c.Members < 1:
		return fmt.Errorf("stats: members: %d runs, expected 1 or more", c.Members)
	case c.NonMembers < 1:
		return fmt.Errorf("stats: non-members: %d runs, expected 1 or more", c.NonMembers)
	case c.TP < 0 || c.TP > c.Members:
		return fmt.Errorf("stats: true positives: %d, expected 0 to the %d members", c.TP, c.Members)
	case c.FP < 0 || c.FP > c.NonMembers:
		return fmt.Errorf("stats: false positives: %d, expected 0 to the %d non-members", c.FP, c.NonMembers)
	}
	return nil
}
