package pe

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/internal/rng"
)

// Block is the number of trials that share a random stream. Blocks are
// independent, so that trials can be split over threads and machines, and be
// resumed, without a change in the counts.
const Block = 1 << 16

// groupSize is the number of users whose coins are one draw. Tables of sums have
// 2^groupSize entries for each group: for 1000 users 2.7 MB.
const groupSize = 12

// Sampler draws ℓ of a Channel exactly: users are taken in groups, and all coins
// of a group are one draw from an alias table (Walker 1977) over its subsets,
// whose sums are known.
type Sampler struct {
	ch    *Channel
	alias []uint32  // of subsets of groupSize users
	keep  []uint64  // draws below keep stay, out of 2^52
	sums  []float64 // [groups, 2^groupSize]
}

// NewSampler prepares a channel.
func NewSampler(c *Channel) *Sampler {
	s := &Sampler{ch: c}
	size := 1 << groupSize
	p := make([]float64, size)
	for set := range p {
		n := bits.OnesCount(uint(set))
		p[set] = math.Pow(c.Rate, float64(n)) * math.Pow(1-c.Rate, float64(groupSize-n))
	}
	s.alias, s.keep = aliasTable(p)
	groups := (len(c.X) + groupSize - 1) / groupSize
	s.sums = make([]float64, groups*size)
	for g := range groups {
		x := c.X[g*groupSize : min(len(c.X), (g+1)*groupSize)]
		sums := s.sums[g*size : (g+1)*size]
		for set := 1; set < size; set++ {
			low := bits.TrailingZeros(uint(set))
			sums[set] = sums[set&(set-1)]
			if low < len(x) {
				sums[set] += x[low]
			}
		}
	}
	return s
}

// aliasTable splits n = 2^k equal boxes between two outcomes each, so that drawing
// a box and a side has the law p. Probabilities are whole multiples of 2^-52/n.
func aliasTable(p []float64) (alias []uint32, keep []uint64) {
	n := len(p)
	alias, keep = make([]uint32, n), make([]uint64, n)
	share := make([]float64, n)
	var small, large []int
	for i, v := range p {
		share[i] = v * float64(n)
		if share[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		i, j := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		alias[i], keep[i] = uint32(j), uint64(share[i]*(1<<52))
		share[j] -= 1 - share[i]
		if share[j] < 1 {
			large = large[:len(large)-1]
			small = append(small, j)
		}
	}
	for _, i := range append(small, large...) { // 1, but for rounding
		alias[i], keep[i] = uint32(i), 1<<52
	}
	return alias, keep
}

// background draws Σ b_u x_u + Noise z + Shift.
func (s *Sampler) background(src *rand.PCG, normal *rand.Rand) float64 {
	l := s.ch.Shift + s.ch.Noise*normal.NormFloat64()
	const size = 1 << groupSize
	for sums := s.sums; len(sums) > 0; sums = sums[size:] {
		u := src.Uint64()
		set := u & (size - 1)
		if u>>12 >= s.keep[set] {
			set = uint64(s.alias[set])
		}
		l += sums[set]
	}
	return l
}

// Counts are how many of N trials had ℓ >= the threshold: FP without the canary,
// TP where it takes part by its coin.
type Counts struct{ FP, TP int }

// stream is the generator of one block of trials.
func stream(seed uint64, index ...uint64) *rand.PCG {
	return rand.NewPCG(rng.Seed(seed, rng.Trials, append(index, 0)...), rng.Seed(seed, rng.Trials, append(index, 1)...))
}

// Block runs trials n of block number block, in both worlds, and counts those with
// ℓ >= tau. index names the experiment; both worlds have streams of their own.
func (s *Sampler) Block(seed uint64, index []uint64, block uint64, n int, tau float64) Counts {
	var c Counts
	name := func(world uint64) []uint64 { return append(append([]uint64{}, index...), block, world) }
	src := stream(seed, name(0)...)
	normal := rand.New(src)
	for range n {
		if s.background(src, normal) >= tau {
			c.FP++
		}
	}
	src = stream(seed, name(1)...)
	normal = rand.New(src)
	for range n {
		l := s.background(src, normal)
		if normal.Float64() < s.ch.Rate {
			l += s.ch.Step
		}
		if l >= tau {
			c.TP++
		}
	}
	return c
}

// Simulate runs trials in each world, on all cores, and adds up the blocks. done,
// if not nil, has the counts of blocks that were run before, by number, and keep,
// if not nil, is told of each new one, from one goroutine at a time. Only blocks ≡
// shard modulo shards are run.
func (s *Sampler) Simulate(ctx context.Context, seed uint64, index []uint64, trials int, tau float64, run Run) (Counts, error) {
	if trials < 1 || math.IsNaN(tau) {
		return Counts{}, fmt.Errorf("pe: %d trials at the threshold %v", trials, tau)
	}
	blocks := (trials + Block - 1) / Block
	return run.blocks(ctx, blocks, func(b int) Counts {
		return s.Block(seed, index, uint64(b), min(Block, trials-b*Block), tau)
	})
}
