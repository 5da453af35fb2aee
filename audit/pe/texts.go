package pe

import (
	"encoding/base32"
	"math/rand/v2"
	"strings"

	"github.com/aviary-audit/aviary/internal/rng"
)

// NonceFormat describes nonce texts: blocks of base32 from a ChaCha8 stream that
// the seed, the purpose and the canary name.
const NonceFormat = "5 blocks of 6 base32 characters"

// What a nonce stream is for.
const (
	nonceCanary = iota
	noncePool
)

// nonceTexts are n texts that no natural text is like.
func nonceTexts(seed uint64, purpose, canary, n int) []string {
	r := rng.New(seed, rng.Nonce, uint64(purpose), uint64(canary))
	out := make([]string, n)
	for i := range out {
		out[i] = nonceText(r)
	}
	return out
}

func nonceText(r *rand.Rand) string {
	encoding := base32.StdEncoding.WithPadding(base32.NoPadding)
	var blocks []string
	for range 5 {
		var b [4]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		blocks = append(blocks, encoding.EncodeToString(b[:])[:6])
	}
	return strings.Join(blocks, "-")
}
