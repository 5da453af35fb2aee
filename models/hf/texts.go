package hf

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/hf/tokenizer"
)

// TextEncoder is an encoder of a folder with its tokenizer.
type TextEncoder struct {
	*models.Encoder
	Folder    *Folder
	Tokenizer *tokenizer.Tokenizer
}

// OpenText reads a folder's tokenizer.json and puts its model on a device. Free gives
// the memory back.
func OpenText(dir string, dev kernels.Device) (*TextEncoder, error) {
	f, err := ReadFolder(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(f.Dir, "tokenizer.json")
	t, err := tokenizer.Open(path)
	if err != nil {
		return nil, err
	}
	if t.Len() > f.Config.Vocabulary {
		return nil, fmt.Errorf("hf: %s has token ids up to %d, expected less than the %d of config.json", path, t.Len()-1, f.Config.Vocabulary)
	}
	if t.Special() > f.MaxTokens {
		return nil, fmt.Errorf("hf: %s puts %d tokens around each text, expected at most the %d that the model takes", path, t.Special(), f.MaxTokens)
	}
	e, err := f.Load(dev)
	if err != nil {
		return nil, err
	}
	return &TextEncoder{e, f, t}, nil
}

// BadText is the error of a text that has no tokens.
type BadText struct {
	Text int // its number, from 0 on
	Err  error
}

func (b *BadText) Error() string { return fmt.Sprintf("hf: text %d: %v", b.Text, b.Err) }

// Unwrap returns the reason.
func (b *BadText) Unwrap() error { return b.Err }

// Tokens are the token ids of texts, each cut at Folder.MaxTokens. The error is a
// *BadText.
func (e *TextEncoder) Tokens(texts []string) ([][]int32, error) {
	const piece = 64 // texts that a goroutine takes at a time
	ids := make([][]int32, len(texts))
	errs := make([]error, (len(texts)+piece-1)/piece)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(errs)) {
		wait.Go(func() {
			for p := int(next.Add(1)) - 1; p < len(errs); p = int(next.Add(1)) - 1 {
				for i := p * piece; i < min((p+1)*piece, len(texts)) && errs[p] == nil; i++ {
					var err error
					if ids[i], err = e.Tokenizer.Encode(texts[i], e.Folder.MaxTokens); err != nil {
						errs[p] = &BadText{i, err}
					}
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// EmbedTexts gives a vector for each text, [texts, Width], pooled and normalised as the
// folder says. progress, unless it is nil, is called with the number of texts done.
func (e *TextEncoder) EmbedTexts(ctx context.Context, texts []string, progress func(done int)) ([]float32, error) {
	ids, err := e.Tokens(texts)
	if err != nil {
		return nil, err
	}
	return e.Embed(ctx, ids, e.Folder.Pooling, e.Folder.Normalize, progress)
}
