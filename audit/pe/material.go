package pe

import (
	"context"
	"fmt"
	"strings"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/internal/rng"
)

// Embedder turns texts into vectors.
type Embedder interface {
	Embed(ctx context.Context, texts []string) (*records.Matrix, error)
}

// Rewriter makes paraphrases.
type Rewriter interface {
	// Name is what reports call it.
	Name() string
	// Paraphrase returns a text with the meaning of text, and other words. Different
	// seeds give different ones.
	Paraphrase(ctx context.Context, text string, seed uint64) (string, error)
}

// Offline rewrites by rules.
type Offline struct{}

// Name implements Rewriter.
func (Offline) Name() string { return RewriterName }

// Paraphrase implements Rewriter.
func (Offline) Paraphrase(_ context.Context, text string, seed uint64) (string, error) {
	return Rewrite(text, rng.New(seed, rng.Paraphrase)), nil
}

// Name implements Rewriter.
func (l *LLM) Name() string { return l.Model }

const paraphrasePrompt = "Rewrite the following text so that it says the same in other words. Keep its language, tone and length. Answer with the new text only.\n\n"

// Paraphrase implements Rewriter.
func (l *LLM) Paraphrase(ctx context.Context, text string, seed uint64) (string, error) {
	return l.Ask(ctx, paraphrasePrompt+text, 1, seed)
}

// PoolText is a text of a pool of probes.
type PoolText struct {
	Text   string `json:"text"`
	Source int    `json:"source_record"` // of the canary, from 0 on; -1 for nonces
}

// ParaphrasePool makes size paraphrases of a canary's texts, as many of each as of
// any other, none of them verbatim and none twice if the rewriter can help it.
func ParaphrasePool(ctx context.Context, w Rewriter, texts []string, size, canary int, seed uint64, told func(done int)) ([]PoolText, error) {
	if len(texts) == 0 {
		return nil, fmt.Errorf("pe: canary %d has no texts to paraphrase", canary)
	}
	known := map[string]bool{}
	for _, t := range texts {
		known[t] = true
	}
	var pool []PoolText
	for i := range size {
		source := i % len(texts)
		const tries = 5
		var text string
		for try := range tries {
			var err error
			s := rng.Seed(seed, rng.Paraphrase, uint64(canary), uint64(i), uint64(try))
			if text, err = w.Paraphrase(ctx, texts[source], s); err != nil {
				return nil, fmt.Errorf("paraphrase %d of canary %d: %w", i, canary, err)
			}
			if text != "" && !known[text] {
				break
			}
		}
		if text == "" || text == texts[source] {
			return nil, fmt.Errorf("pe: %s gave no paraphrase of record %d of canary %d in %d tries", w.Name(), source, canary, tries)
		}
		known[text] = true
		pool = append(pool, PoolText{text, source})
		if told != nil {
			told(i + 1)
		}
	}
	return pool, nil
}

// NoncePool is size nonces that are independent of those of any canary.
func NoncePool(seed uint64, canary, size int) []PoolText {
	var pool []PoolText
	for _, t := range nonceTexts(seed, noncePool, canary, size) {
		pool = append(pool, PoolText{t, -1})
	}
	return pool
}

// NonceRecords are the texts of a nonce canary.
func NonceRecords(seed uint64, canary, n int) []string {
	return nonceTexts(seed, nonceCanary, canary, n)
}

// EmbedPool embeds a pool.
func EmbedPool(ctx context.Context, e Embedder, pool []PoolText) (Pool, error) {
	var p Pool
	texts := make([]string, len(pool))
	sources := false
	for i, t := range pool {
		texts[i] = t.Text
		p.Source = append(p.Source, t.Source)
		sources = sources || t.Source >= 0
	}
	if !sources {
		p.Source = nil
	}
	var err error
	p.X, err = e.Embed(ctx, texts)
	return p, err
}

// Hashed is the embedder without a model.
type Hashed struct{ records.NGrams }

// Embed implements Embedder.
func (h Hashed) Embed(_ context.Context, texts []string) (*records.Matrix, error) {
	for i, t := range texts {
		if strings.TrimSpace(t) == "" {
			return nil, fmt.Errorf("pe: text %d is empty: there is nothing to embed", i)
		}
	}
	return h.NGrams.Embed(texts), nil
}
