package bench

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/hf"
)

// MiniLMFolder is where `make data-minilm` puts all-MiniLM-L6-v2.
const MiniLMFolder = "data/minilm"

// EmbedLoad is texts in batches of one length each: as when many texts are sorted,
// padding costs those who pad nothing.
type EmbedLoad struct {
	Name    string
	Batches [][2]int // texts, and tokens of each
}

// EmbedLoads are short and longer records. encoder_peers.py has the same.
var EmbedLoads = []EmbedLoad{{"short", [][2]int{{32, 48}, {32, 16}}}, {"long", [][2]int{{16, 128}}}}

func (l EmbedLoad) tokens() [][]int32 {
	var texts [][]int32
	for _, b := range l.Batches {
		for range b[0] {
			i := len(texts)
			text := []int32{101}
			for j := range b[1] - 2 {
				text = append(text, int32(1000+(i*131+j*17)%20000))
			}
			texts = append(texts, append(text, 102))
		}
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
