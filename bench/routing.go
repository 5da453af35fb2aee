package bench

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/audit/pe"
	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/kernels"
)

// The routing of Private Evolution: records, bank, dimensions, votes of a record.
// routing_peers.py has the same.
const (
	RoutedRecords = 128_000
	RoutedBank    = 8_192
	RoutedDim     = 384
	RoutedVotes   = 5
)

// Routing finds the nearest candidates of random vectors of length 1, whose
// neighbours are closer together than those of text.
func Routing(dev kernels.Device) (*Work, error) {
	r := rand.New(rand.NewPCG(1, 0))
	queries, bank := unitVectors(r, RoutedRecords), unitVectors(r, RoutedBank)
	return &Work{
		Flops: 2 * RoutedRecords * RoutedBank * RoutedDim,
		Run: func() error {
			_, err := pe.Route(context.Background(), dev, queries, pe.Bank{X: bank}, RoutedVotes, nil)
			return err
		},
		Free: func() {},
		Long: true,
	}, nil
}

func unitVectors(r *rand.Rand, n int) *records.Matrix {
	m := &records.Matrix{D: RoutedDim, X: make([]float32, n*RoutedDim)}
	for i := range n {
		row, square := m.Row(i), 0.0
		for j := range row {
			x := r.NormFloat64()
			row[j] = float32(x)
			square += x * x
		}
		for j := range row {
			row[j] /= float32(math.Sqrt(square))
		}
	}
	return m
}
