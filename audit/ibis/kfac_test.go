package ibis

import (
	"context"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// formulaTol bounds the rounding of float64 sums of some hundred terms, through
// matrices whose damping keeps the condition below 1e3.
const formulaTol = 1e-10

// curvatureOf is KFAC or EKFAC.
type curvatureOf func(ctx context.Context, m *models.Model, d *train.Data, damping float64, f Fisher, progress Progress) (Influence, error)

// influences is all that an Influence tells of the rig's data: self-influence
// and matrix.
func (r *rig) influences(t *testing.T, make curvatureOf, damping float64, f Fisher) (self, matrix []float64) {
	t.Helper()
	ctx := context.Background()
	k := must[Influence](t)(make(ctx, r.m, r.d, damping, f, nil))
	defer k.Free()
	self = must[[]float64](t)(k.Self(ctx, r.d, nil))
	matrix = must[[]float64](t)(Matrix(ctx, k, r.d))
	return self, matrix
}

func TestInfluenceIsTheExplicitFormula(t *testing.T) {
	// The first layer has as many inputs, with the constant, as outputs, so that
	// no mistake in the order of its sides shows in shapes.
	r := newRig(t, kernels.ReferenceAsync(), newCloud(23, 3, 1.5, 3), models.MLP(3, 4, 3))
	e := newExplicit(t, r)
	const damping, seed = 0.1, 5
	for _, c := range []struct {
		name   string
		make   curvatureOf
		want   func(damping float64, seed uint64, f faults) []float64
		faults map[string]faults
	}{
		{"KFAC", KFAC, e.kfac, map[string]faults{
			"empirical Fisher":    {labels: fromData},
			"factors swapped":     {labels: fromModel, swapped: true},
			"gradient transposed": {labels: fromModel, transposed: true},
			"damping split":       {labels: fromModel, split: true},
			"no split":            {labels: fromModel, unit: true},
			"absolute damping":    {labels: fromModel, absolute: true},
		}},
		{"EKFAC", EKFAC, e.ekfac, map[string]faults{
			"empirical Fisher": {labels: fromData},
			"K-FAC's values":   {labels: fromModel, plain: true},
			"no damping":       {labels: fromModel, noDamping: true},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, how := range []labels{fromModel, drawn} {
				self, matrix := r.influences(t, c.make, damping, Fisher{Seed: seed, Expected: how == fromModel})
				want := c.want(damping, seed, faults{labels: how})
				if err := furthest(matrix, want); !(err <= formulaTol) {
					t.Errorf("%s labels: influences are off by %.2g", how, err)
				}
				wantSelf, _ := diagonal(want)
				if err := furthest(self, wantSelf); !(err <= formulaTol) {
					t.Errorf("%s labels: self-influences are off by %.2g", how, err)
				}
			}
			_, matrix := r.influences(t, c.make, damping, Fisher{Expected: true})
			for name, f := range c.faults {
				if err := furthest(matrix, c.want(damping, seed, f)); err <= 1e-3 {
					t.Errorf("planted fault %q: off by %.2g only", name, err)
				}
			}
		})
	}
}

// More examples than a block has, and candidates in any order.
func TestBlocksAndCandidates(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, kernels.Reference(), newCloud(blockLen+52, 3, 1.5, 3), models.MLP(3, 4, 3))
	e := newExplicit(t, r)
	index := append([]int{7}, firstN(r.d.Len())...)
	slices.Reverse(index) // the last first, and example 7 twice
	for _, c := range []struct {
		make curvatureOf
		want func(damping float64, seed uint64, f faults) []float64
	}{{KFAC, e.kfac}, {EKFAC, e.ekfac}} {
		k := must[Influence](t)(c.make(ctx, r.m, r.d, 0.2, Fisher{Seed: 9}, nil))
		cols := must[Columns](t)(k.Among(ctx, r.d, index))
		columns := must[[][]float64](t)(cols.Columns(ctx, []int{1, len(index) - 1}))
		self := must[[]float64](t)(k.Self(ctx, r.d, nil))
		want := c.want(0.2, 9, faults{labels: drawn})
		n := r.d.Len()
		var got, due, diag []float64
		for c, j := range []int{index[1], 7} {
			for i, e := range index {
				got, due = append(got, columns[c][i]), append(due, want[e*n+j])
			}
		}
		for i := range n {
			diag = append(diag, want[i*n+i])
		}
		if err := furthest(got, due); !(err <= formulaTol) {
			t.Errorf("columns are off by %.2g", err)
		}
		if err := furthest(self, diag); !(err <= formulaTol) {
			t.Errorf("self-influences are off by %.2g", err)
		}
		cols.Free()
		k.Free()
	}
	if live := r.m.Device().Stats().LiveBytes; live != int64(8*(r.m.Len()+r.d.X.Len())) {
		t.Errorf("%d bytes are live, expected those of the model and the data", live)
	}
}
