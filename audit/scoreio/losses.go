package scoreio

import (
	"fmt"
	"math"
	"slices"
)

// Loss is what somebody else's trainer reports of one canary in one audit.
type Loss struct {
	// Plan is the id of the plan that the losses answer, "" if the file does
	// not tell.
	Plan               string
	Set, Audit, Canary int
	Loss               float64 // finite
}

var lossColumns = []string{"set", "audit", "canary", "loss"}

// ReadLosses reads a losses file: CSV with the columns set,audit,canary,loss,
// optionally after a column plan, or npz with the arrays set, audit, canary
// and loss. A file without rows is an error.
func ReadLosses(path string) ([]Loss, error) {
	read, err := byEnding(path, unpackedName, map[string]func(string) ([]Loss, error){
		".csv": readLossesCSV, ".npz": readLossesNPZ,
	})
	if err != nil {
		return nil, err
	}
	return read(path)
}

func readLossesCSV(path string) ([]Loss, error) {
	t, err := openTable(path, lossColumns, slices.Concat([]string{"plan"}, lossColumns))
	if err != nil {
		return nil, err
	}
	defer t.close()
	var rows []Loss
	for t.next() {
		rows = append(rows, Loss{
			Plan: t.field("plan"),
			Set:  t.number("set"), Audit: t.number("audit"), Canary: t.number("canary"),
			Loss: t.float("loss"),
		})
	}
	if err := t.finish(len(rows)); err != nil {
		return nil, err
	}
	return rows, checkLosses(rows, t.line)
}

// ReadRunLosses reads the losses of one training run: CSV with the columns
// canary,loss in any order of rows. Each of the m canaries must be there once.
func ReadRunLosses(path string, m int) ([]float64, error) {
	t, err := openTable(path, []string{"canary", "loss"})
	if err != nil {
		return nil, err
	}
	defer t.close()
	losses, seen := make([]float64, m), make([]bool, m)
	rows := 0
	for ; t.next(); rows++ {
		i, loss := t.number("canary"), t.float("loss")
		switch {
		case t.err != nil:
		case i >= m:
			t.fail("canary", fmt.Sprintf("a canary from 0 to %d", m-1))
		case seen[i]:
			t.fail("canary", "every canary once, and it was there before")
		default:
			losses[i], seen[i] = loss, true
		}
	}
	if err := t.finish(rows); err != nil {
		return nil, err
	}
	if i := slices.Index(seen, false); i >= 0 {
		return nil, fmt.Errorf("%s: no loss for canary %d, expected all of 0 to %d", path, i, m-1)
	}
	return losses, nil
}

// checkLosses checks what both formats share; where names row i in errors.
func checkLosses(rows []Loss, where func(i int) string) error {
	for i, r := range rows {
		if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
			return fmt.Errorf("%s: loss is %v, expected a finite number", where(i), r.Loss)
		}
	}
	return checkPlaces(len(rows), func(i int) place { return place{rows[i].Set, rows[i].Audit, rows[i].Canary} }, where)
}
