package pe

import (
	"fmt"
	"slices"
	"strings"
)

// Probes says where the probes of an attack come from.
type Probes int

// The sources of probes.
const (
	NoProbes    Probes = iota // the bank stays; observed are the slots that the canary votes for
	Copies                    // the canary's records, verbatim
	Paraphrases               // of the canary's records
	Nonces                    // of the same kind as the canary's, which are nonces too
)

// Choose says how probes are chosen from a pool.
type Choose int

// The ways to choose.
const (
	Spread Choose = iota // over the canary's records, or uniformly
	ByNorm               // greedily by J_norm
	ByMu                 // greedily by J_μ
)

// Variant is one attack of arXiv:2609.13499, appendix B.
type Variant struct {
	Name   string
	Probes Probes
	Choose Choose
}

// Variants are the eight attacks, in the order of the paper's table 2.
func Variants() []Variant {
	return []Variant{
		{"ordinary", NoProbes, Spread},
		{"exact", Copies, Spread},
		{"paraphrase", Paraphrases, Spread},
		{"paraphrase-norm", Paraphrases, ByNorm},
		{"paraphrase-mu", Paraphrases, ByMu},
		{"nonce", Nonces, Spread},
		{"nonce-norm", Nonces, ByNorm},
		{"nonce-mu", Nonces, ByMu},
	}
}

// VariantsNamed are those with these names, in the order of Variants.
func VariantsNamed(names []string) ([]Variant, error) {
	all := Variants()
	var known []string
	for _, v := range all {
		known = append(known, v.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("pe: attack %q, expected some of %s", n, strings.Join(known, ", "))
		}
	}
	var out []Variant
	for _, v := range all {
		if slices.Contains(names, v.Name) {
			out = append(out, v)
		}
	}
	return out, nil
}
