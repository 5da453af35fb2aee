package ibis

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/models/train"
)

// Influence holds the curvature of a trained model, and tells influences
// between examples. One goroutine uses it at a time. Its owner calls Free.
type Influence interface {
	// Self is the self-influence of every example of d, in d's order.
	Self(ctx context.Context, d *train.Data, progress Progress) ([]float64, error)
	// Among prepares the influences between those examples of d: its candidates,
	// in that order.
	Among(ctx context.Context, d *train.Data, index []int) (Columns, error)
	Free()
}

// Columns are the columns of an influence matrix among p candidates. Its owner
// calls Free.
type Columns interface {
	// Columns returns for each candidate of js the influence that its membership
	// has on the scores of all p candidates: result[c][i] = I(i, js[c]). What a
	// column holds does not depend on which others are asked for with it.
	Columns(ctx context.Context, js []int) ([][]float64, error)
	// Batch is how many columns are best asked for at once.
	Batch() int
	Free()
}

// Progress is told how much of a job is done. It may be nil.
type Progress func(done, total int)

// part is the progress of a part of a job: its own units, after those before.
func (p Progress) part(before, total int) Progress {
	if p == nil {
		return nil
	}
	return func(done, _ int) { p(before+done, total) }
}

func (p Progress) tell(done, total int) {
	if p != nil {
		p(done, total)
	}
}

// Matrix is the influences between all examples of d, [n, n] row by row: the
// row is the example whose score is looked at, the column the one whose
// membership changes.
func Matrix(ctx context.Context, f Influence, d *train.Data) ([]float64, error) {
	index := make([]int, d.Len())
	for i := range index {
		index[i] = i
	}
	return among(ctx, f, d, index, nil)
}

// among is Matrix for the examples index of d.
func among(ctx context.Context, f Influence, d *train.Data, index []int, progress Progress) ([]float64, error) {
	cols, err := f.Among(ctx, d, index)
	if err != nil {
		return nil, err
	}
	defer cols.Free()
	n := len(index)
	matrix := make([]float64, n*n)
	for from := 0; from < n; from += cols.Batch() {
		js := make([]int, min(cols.Batch(), n-from))
		for c := range js {
			js[c] = from + c
		}
		part, err := cols.Columns(ctx, js)
		if err != nil {
			return nil, err
		}
		for c, column := range part {
			for i, v := range column {
				matrix[i*n+from+c] = v
			}
		}
		progress.tell(from+len(js), n)
	}
	return matrix, nil
}

var errNoCandidates = errors.New("ibis: no candidates, expected at least one")

// checkDamping refuses a damping with which H may have no inverse.
func checkDamping(damping float64) error {
	if !(damping > 0) || math.IsInf(damping, 0) {
		return fmt.Errorf("ibis: damping is %v, expected a positive number", damping)
	}
	return nil
}
