package models

import (
	"errors"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/kernels"
)

// The buckets are those of transformers, at all distances up to 600
// (bench/peers/oracles_encoder.py).
func TestRelativeBuckets(t *testing.T) {
	arrays, err := npz.ReadFile("testdata/mpnet_buckets.npz")
	if err != nil {
		t.Fatal(err)
	}
	distances, err := npz.Of[int32](arrays["distance"])
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := npz.Of[int32](arrays["bucket"])
	if err != nil {
		t.Fatal(err)
	}
	if len(distances) != 1201 || len(buckets) != 1201 {
		t.Fatalf("%d distances, %d buckets, expected 1201", len(distances), len(buckets))
	}
	for i, d := range distances {
		if got := relativeBucket(int(d), 32); got != int(buckets[i]) {
			t.Errorf("distance %d: bucket %d, expected %d", d, got, buckets[i])
		}
	}
}

// The bias of key j for query i is at Longest-1 + j-i.
func TestRelativeBias(t *testing.T) {
	c := EncoderConfig{Positions: 5, Heads: 2, Buckets: 8}
	table := make([]float32, 16)
	for i := range table {
		table[i] = float32(i)
	}
	bias := relativeBias(table, c)
	for i := range 5 {
		for j := range 5 {
			for h := range 2 {
				if got, want := bias[h*9+4+j-i], table[relativeBucket(j-i, 8)*2+h]; got != want {
					t.Errorf("head %d, key %d, query %d: %v, expected %v", h, j, i, got, want)
				}
			}
		}
	}
}

var tiny = EncoderConfig{Vocabulary: 9, Positions: 6, Types: 2, Width: 4, Heads: 2, Layers: 1, Inner: 3, Stabilizer: 1e-6}

func ones(_ string, shape ...int) ([]float32, error) {
	n := 1
	for _, s := range shape {
		n *= s
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x, nil
}

func TestNewEncoderRefuses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for want, change := range map[string]func(c *EncoderConfig){
		"vocabulary is 0":                 func(c *EncoderConfig) { c.Vocabulary = 0 },
		"heads is 0":                      func(c *EncoderConfig) { c.Heads = 0 },
		"a width of 4 for 3 heads":        func(c *EncoderConfig) { c.Heads = 3 },
		"stabilizer is 0":                 func(c *EncoderConfig) { c.Stabilizer = 0 },
		"3 buckets":                       func(c *EncoderConfig) { c.Buckets = 3 },
		"longest sequence is -1":          func(c *EncoderConfig) { c.Counted, c.Padding = true, 6 },
		"layer.0.inner.weight has 5 numb": nil,
		"no such tensor":                  nil,
	} {
		c, weights := tiny, ones
		switch {
		case change != nil:
			change(&c)
		case strings.HasPrefix(want, "layer"):
			weights = func(name string, shape ...int) ([]float32, error) {
				if name == "layer.0.inner.weight" {
					return make([]float32, 5), nil
				}
				return ones(name, shape...)
			}
		default:
			weights = func(name string, shape ...int) ([]float32, error) {
				if name == "layer.0.outer.shift" {
					return nil, errors.New("no such tensor")
				}
				return ones(name, shape...)
			}
		}
		if _, err := NewEncoder(dev, c, weights); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
		if live := dev.Stats().LiveBytes; live != 0 {
			t.Errorf("%s: %d bytes were not given back", want, live)
		}
	}
}

// Weights that are no numbers show as an error, not as vectors.
func TestEmbedNotFinite(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	e, err := NewEncoder(dev, tiny, func(name string, shape ...int) ([]float32, error) {
		x, err := ones(name, shape...)
		if name == "words" {
			x[5*4] /= 0 * x[0] // +Inf
		}
		return x, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Free()
	if _, err := e.Embed(t.Context(), [][]int32{{1, 2}, {3, 5}}, PoolMean, true, nil); err == nil || !strings.Contains(err.Error(), "sequence 1 is not finite") {
		t.Errorf("want an error about sequence 1, got %v", err)
	}
}
