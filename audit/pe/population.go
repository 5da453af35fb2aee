package pe

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/internal/rng"
)

// Population is users and the embeddings of their records.
type Population struct {
	ID     []string        // of each user
	Starts []int           // user u has records Starts[u] to Starts[u+1]-1
	X      records.Vectors // [records, D]
	Row    []int           // of each record, in the file that it came from
}

// NewPopulation groups the records of x by user, in the order in which users first
// appear, and keeps the first limit records of each (0: all). Records of users
// that have fewer than least are left out.
func NewPopulation(user []string, x records.Vectors, limit, least int) (*Population, error) {
	if len(user) != x.Len() {
		return nil, fmt.Errorf("pe: %d records and %d embeddings, expected as many", len(user), x.Len())
	}
	rows := map[string][]int{}
	var order []string
	for i, u := range user {
		if u == "" {
			return nil, fmt.Errorf("pe: record %d has no user", i)
		}
		if _, known := rows[u]; !known {
			order = append(order, u)
		}
		rows[u] = append(rows[u], i)
	}
	p := &Population{Starts: []int{0}}
	for _, u := range order {
		list := rows[u]
		if len(list) < least {
			continue
		}
		if limit > 0 && len(list) > limit {
			list = list[:limit]
		}
		p.ID = append(p.ID, u)
		p.Row = append(p.Row, list...)
		p.Starts = append(p.Starts, len(p.Row))
	}
	if len(p.ID) == 0 {
		return nil, fmt.Errorf("pe: no user has %d records or more", least)
	}
	p.X = records.Rows(x, p.Row)
	return p, nil
}

// Users is the number of users.
func (p *Population) Users() int { return len(p.ID) }

// Only is the population of these users, in this order.
func (p *Population) Only(users []int) *Population {
	o := &Population{Starts: []int{0}}
	var rows []int
	for _, u := range users {
		o.ID = append(o.ID, p.ID[u])
		for i := p.Starts[u]; i < p.Starts[u+1]; i++ {
			rows = append(rows, i)
			o.Row = append(o.Row, p.Row[i])
		}
		o.Starts = append(o.Starts, len(rows))
	}
	o.X = records.Rows(p.X, rows)
	return o
}

// Split says which users do what; none does two things.
type Split struct {
	Canaries    []int `json:"canaries"`    // whose participation is attacked
	Auxiliary   []int `json:"auxiliary"`   // known to the attacker: probes and moments
	Calibration []int `json:"calibration"` // lock the threshold
	Test        []int `json:"test"`        // the eligible users of the audited releases
}

// NewSplit draws a split of n users.
func NewSplit(seed uint64, n, canaries, auxiliary, calibration, test int) (Split, error) {
	for _, c := range []struct {
		name string
		n    int
	}{{"canaries", canaries}, {"auxiliary users", auxiliary}, {"calibration users", calibration}, {"test users", test}} {
		if c.n < 1 {
			return Split{}, fmt.Errorf("pe: %s: %d, expected 1 or more", c.name, c.n)
		}
	}
	if need := canaries + auxiliary + calibration + test; need > n {
		return Split{}, fmt.Errorf("pe: %d canaries, %d auxiliary, %d calibration and %d test users are %d users, and there are %d",
			canaries, auxiliary, calibration, test, need, n)
	}
	order := rng.New(seed, rng.Users).Perm(n)
	take := func(k int) []int {
		list := slices.Sorted(slices.Values(order[:k]))
		order = order[k:]
		return list
	}
	return Split{take(canaries), take(auxiliary), take(calibration), take(test)}, nil
}

// Check refuses a split in which a user has two parts, or that names users who are
// not there.
func (s Split) Check(n int) error {
	seen := map[int]string{}
	for _, part := range []struct {
		name  string
		users []int
	}{{"canary", s.Canaries}, {"auxiliary", s.Auxiliary}, {"calibration", s.Calibration}, {"test", s.Test}} {
		if len(part.users) == 0 {
			return fmt.Errorf("pe: the split has no %s user", part.name)
		}
		for _, u := range part.users {
			if u < 0 || u >= n {
				return fmt.Errorf("pe: the split has %s user %d, expected one from 0 to %d", part.name, u, n-1)
			}
			if other, twice := seen[u]; twice {
				return fmt.Errorf("pe: user %d is in the split as %s and as %s", u, other, part.name)
			}
			seen[u] = part.name
		}
	}
	return nil
}

// replicated is the rows of c repeated until there are users of them: each as
// often as it goes, and for the rest as many different ones, drawn.
func replicated(c *Contributions, users int, r *rand.Rand) *Contributions {
	out := &Contributions{Slots: c.Slots}
	for range users / c.Users() {
		out.Row = append(out.Row, c.Row...)
	}
	for _, u := range r.Perm(c.Users())[:users%c.Users()] {
		out.Row = append(out.Row, c.Of(u)...)
	}
	return out
}
