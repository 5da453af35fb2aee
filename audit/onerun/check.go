package onerun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aviary-audit/aviary/audit"
)

// check refuses what can be refused before anything is touched.
func (g *Game) check() error {
	switch {
	case g.Data == nil || g.Data.Len() == 0:
		return fmt.Errorf("audit: no training data")
	case g.Trainer == nil:
		return fmt.Errorf("audit: no trainer")
	case g.Sets < 1:
		return fmt.Errorf("audit: %d canary sets, expected 1 or more", g.Sets)
	case g.Audits < 1:
		return fmt.Errorf("audit: %d audits per set, expected 1 or more", g.Audits)
	}
	m, err := g.checkSelectors()
	if err != nil {
		return err
	}
	if err := g.checkCoins(m); err != nil {
		return err
	}
	// A trainer that can tell at once whether it takes the data is asked.
	if c, ok := g.Trainer.(interface{ Check(audit.Dataset) error }); ok {
		return c.Check(shortened{g.Data, g.shortest(m)})
	}
	return nil
}

// checkSelectors returns the number of canaries in a set.
func (g *Game) checkSelectors() (int, error) {
	if len(g.Selectors) == 0 {
		return 0, fmt.Errorf("audit: no canaries asked for")
	}
	seen := map[string]bool{}
	m, fromFiles := g.NumCanaries, true
	for _, s := range g.Selectors {
		name := s.Name()
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }) {
			return 0, fmt.Errorf("audit: method %q: expected a name of letters, digits, dots, dashes and underscores", name)
		}
		if seen[name] {
			return 0, fmt.Errorf("audit: method %q is there twice", name)
		}
		seen[name] = true
		file, isFile := s.(*fromFile)
		fromFiles = fromFiles && isFile
		if isFile {
			var err error
			if m, err = file.check(m, g.Sets); err != nil {
				return 0, err
			}
		}
	}
	if g.NumCanaries == 0 && !fromFiles {
		m = 0
	}
	if err := checkCount(m, g.Data.Len()); err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	return m, nil
}

// checkCoins looks at the coins of all audits before the first is played: one
// without members, or without others, says nothing.
func (g *Game) checkCoins(m int) error {
	for set := range g.Sets {
		for aud := range g.Audits {
			if in := coins(g.Seed, set, aud, m); !slices.Contains(in, true) || !slices.Contains(in, false) {
				return fmt.Errorf("audit: set %d, audit %d: all %d coins fell on the same side: use more canaries or another seed", set, aud, m)
			}
		}
	}
	return nil
}

// Displacer is a selector that knows beforehand how many examples the m canaries
// of a set displace. Another is taken to displace none.
type Displacer interface{ Displaced(m, set int) int }

// shortest is the length of the shortest training set of the game, as far as
// its selectors tell.
func (g *Game) shortest(m int) int {
	least := g.Data.Len()
	for _, s := range g.Selectors {
		for set := range g.Sets {
			displaced := 0
			if s, ok := s.(Displacer); ok {
				displaced = s.Displaced(m, set)
			}
			for aud := range g.Audits {
				in := 0
				for _, isIn := range coins(g.Seed, set, aud, m) {
					if isIn {
						in++
					}
				}
				least = min(least, g.Data.Len()-displaced+in)
			}
		}
	}
	return least
}

// shortened is a data set of which so many examples are left.
type shortened struct {
	audit.Dataset
	left int
}

// Len implements audit.Dataset.
func (s shortened) Len() int { return s.left }
