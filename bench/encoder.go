package bench

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/hf"
)

// MiniLMFolder is where `make data-minilm` puts all-MiniLM-L6-v2.
const MiniLMFolder = "data/minilm"

// EmbedLoad is texts of several numbers of tokens, embedBatch of each: as when many
// texts are sorted, padding costs those who pad nothing.
type EmbedLoad struct {
	Name    string
	Lengths []int
}

const embedBatch = 32

// EmbedLoads are short and longer records. encoder_peers.py has the same.
var EmbedLoads = []EmbedLoad{{"short", []int{12, 24, 40, 60}}, {"long", []int{128}}}

func (l EmbedLoad) tokens() [][]int32 {
	texts := make([][]int32, embedBatch*len(l.Lengths))
	for i := range texts {
		n := l.Lengths[i%len(l.Lengths)]
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
