package bench

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/hf"
)

// MiniLMFolder is where `make data-minilm` puts all-MiniLM-L6-v2.
const MiniLMFolder = "data/minilm"

// EmbedLoad is a number of texts, and the least and greatest number of their tokens.
type EmbedLoad struct {
	Name               string
	Count, Least, Most int
}

// EmbedLoads are short records of mixed lengths, and longer ones that are all alike,
// where padding costs nobody anything. encoder_peers.py has the same.
var EmbedLoads = []EmbedLoad{{"short", 256, 8, 64}, {"long", 64, 128, 128}}

func (l EmbedLoad) tokens() [][]int32 {
	texts := make([][]int32, l.Count)
	for i := range texts {
		n := l.Least + i*37%(l.Most-l.Least+1)
		texts[i] = append(texts[i], 101)
		for j := range n - 2 {
			texts[i] = append(texts[i], int32(1000+(i*131+j*17)%20000))
		}
		texts[i] = append(texts[i], 102)
	}
	return texts
}

// Embed is the sentence embeddings of a load with all-MiniLM-L6-v2, from token ids.
func Embed(dev kernels.Device, l EmbedLoad) (*Work, error) {
	f, err := hf.ReadFolder(MiniLMFolder)
	if err != nil {
		return nil, fmt.Errorf("%w: make data-minilm fetches the weights", err)
	}
	e, err := f.Load(dev)
	if err != nil {
		return nil, err
	}
	texts := l.tokens()
	flops := 0.0
	for _, t := range texts {
		d, inner, n := float64(f.Config.Width), float64(f.Config.Inner), float64(len(t))
		flops += float64(f.Config.Layers) * n * (8*d*d + 4*d*inner + 4*n*d)
	}
	return &Work{
		Flops: flops,
		Run: func() error {
			_, err := e.Embed(context.Background(), texts, f.Pooling, f.Normalize, nil)
			return err
		},
		Free: e.Free,
	}, nil
}
