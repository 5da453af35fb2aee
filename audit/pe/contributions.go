package pe

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/audit/mechanism"
)

// Contributions is what users add to the histogram at the observed slots: all
// that the attack's statistic depends on.
type Contributions struct {
	Slots []int32   // observed, R of them, ascending
	Row   []float64 // [Users, R]: c_u, already clipped over all slots
}

// Users is the number of rows.
func (c *Contributions) Users() int { return len(c.Row) / len(c.Slots) }

// Of is user u's row.
func (c *Contributions) Of(u int) []float64 {
	r := len(c.Slots)
	return c.Row[u*r : (u+1)*r : (u+1)*r]
}

// Contribute makes the rows of users whose records are the rows starts[u] to
// starts[u+1]-1 of near.
func Contribute(h mechanism.Histogram, near *Nearest, starts []int, slots []int32) (*Contributions, error) {
	if near.K != h.K {
		return nil, fmt.Errorf("pe: the %d nearest of each record for a mechanism with k = %d", near.K, h.K)
	}
	if len(slots) == 0 || !slices.IsSorted(slots) || len(slices.Compact(slices.Clone(slots))) != len(slots) {
		return nil, fmt.Errorf("pe: %d observed slots, expected some, ascending, each once", len(slots))
	}
	if len(starts) == 0 || starts[0] < 0 || !slices.IsSorted(starts) || starts[len(starts)-1] > near.Len() {
		return nil, fmt.Errorf("pe: users' records are not within the %d there are", near.Len())
	}
	at := make(map[int]int, len(slots))
	for i, s := range slots {
		at[int(s)] = i
	}
	users := len(starts) - 1
	c := &Contributions{slots, make([]float64, users*len(slots))}
	return c, parallel(users, func(u int) error {
		votes, err := h.Votes(near.Rows(starts[u], starts[u+1]))
		if err != nil {
			return fmt.Errorf("user %d: %w", u, err)
		}
		row := c.Of(u)
		for _, v := range votes {
			if i, observed := at[v.Slot]; observed {
				row[i] = v.Weight
			}
		}
		return nil
	})
}
