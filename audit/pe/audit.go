package pe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
)

// Pool is texts that probes are chosen from, embedded.
type Pool struct {
	X *records.Matrix // [M, D]
	// Source is the canary's record that each is a paraphrase of, from 0 on; nil
	// for nonces.
	Source []int
}

// Material is what attacks need beside users and the bank, for each canary. Parts
// that no attack needs may be missing.
type Material struct {
	Paraphrases []Pool            // of canary c's records
	Nonces      []*records.Matrix // the records of nonce canary c
	NoncePools  []Pool
}

// Slots says which slots probes take.
type Slots string

// The rules for slots.
const (
	RandomSlots Slots = "random" // drawn with the seed, in the order drawn
	LastSlots   Slots = "last"   // the last of the bank
)

// Audit is one release of one bank, and the attacks on it.
type Audit struct {
	Mechanism mechanism.Histogram
	Protocol  Protocol
	Variants  []Variant
	Bank      *records.Matrix // [p, D]
	Users     *Population     // at most Mechanism.Cap records each
	Split     Split
	// Eligible is N, the users of a release beside the canary: those of the split's
	// test part, as often as it takes.
	Eligible int
	Material Material
	Probes   int   // r, slots that probes may take
	Slots    Slots // which
	// KeepOriginals leaves candidates of the bank in their slots until the greedy
	// search puts a probe there; without it the slots are empty meanwhile.
	KeepOriginals bool
	Seed          uint64
	Device        kernels.Device
	// Told hears what is being done, and how much of it.
	Told func(what string, done, total int)
}

// Check refuses what cannot be audited, before any work.
func (a *Audit) Check() error {
	if err := a.Mechanism.Check(); err != nil {
		return err
	}
	if err := a.Protocol.Check(); err != nil {
		return err
	}
	if err := a.Split.Check(a.Users.Users()); err != nil {
		return err
	}
	p := a.Bank.Len()
	switch {
	case a.Mechanism.Slots != p:
		return fmt.Errorf("pe: the mechanism has %d slots and the bank %d candidates", a.Mechanism.Slots, p)
	case a.Mechanism.K > MaxK:
		return fmt.Errorf("pe: k: %d, expected at most %d", a.Mechanism.K, MaxK)
	case a.Probes < 1 || a.Probes > p-a.Mechanism.K:
		return fmt.Errorf("pe: probes: %d, expected 1 to %d, so that the bank keeps k candidates", a.Probes, p-a.Mechanism.K)
	case a.Slots != RandomSlots && a.Slots != LastSlots:
		return fmt.Errorf("pe: slots: %q, expected %s or %s", a.Slots, RandomSlots, LastSlots)
	case len(a.Split.Canaries) != a.Protocol.Canaries:
		return fmt.Errorf("pe: the split has %d canaries, the protocol %d", len(a.Split.Canaries), a.Protocol.Canaries)
	case a.Eligible < 1:
		return fmt.Errorf("pe: eligible users: %d, expected 1 or more", a.Eligible)
	case len(a.Variants) == 0:
		return fmt.Errorf("pe: no attacks")
	case a.Users.X.Dim() != a.Bank.Dim():
		return fmt.Errorf("pe: records have %d dimensions and candidates %d: were they embedded by different encoders?", a.Users.X.Dim(), a.Bank.Dim())
	}
	for u := range a.Users.Users() {
		if n := a.Users.Starts[u+1] - a.Users.Starts[u]; n > a.Mechanism.Cap {
			return fmt.Errorf("pe: user %s has %d records, and the cap is %d", a.Users.ID[u], n, a.Mechanism.Cap)
		}
	}
	for _, v := range a.Variants {
		for c := range a.Protocol.Canaries {
			if err := a.checkMaterial(v, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Audit) checkMaterial(v Variant, c int) error {
	fits := func(what string, m *records.Matrix, least int) error {
		if m == nil || m.Len() < least || m.Dim() != a.Bank.Dim() {
			n, d := 0, 0
			if m != nil {
				n, d = m.Len(), m.Dim()
			}
			return fmt.Errorf("pe: %s needs %s for canary %d: at least %d in %d dimensions, got %d in %d", v.Name, what, c, least, a.Bank.Dim(), n, d)
		}
		return nil
	}
	switch v.Probes {
	case Paraphrases:
		if c >= len(a.Material.Paraphrases) {
			return fits("paraphrases", nil, a.Probes)
		}
		pool := a.Material.Paraphrases[c]
		if err := fits("paraphrases", pool.X, a.Probes); err != nil {
			return err
		}
		if len(pool.Source) != pool.X.Len() {
			return fmt.Errorf("pe: %s: %d paraphrases of canary %d name %d sources", v.Name, pool.X.Len(), c, len(pool.Source))
		}
		u := a.Split.Canaries[c]
		n := a.Users.Starts[u+1] - a.Users.Starts[u]
		for i, s := range pool.Source {
			if s < 0 || s >= n {
				return fmt.Errorf("pe: %s: paraphrase %d of canary %d is of record %d, expected one from 0 to %d", v.Name, i, c, s, n-1)
			}
		}
	case Nonces:
		if c >= len(a.Material.Nonces) || c >= len(a.Material.NoncePools) {
			return fits("nonces", nil, a.Probes)
		}
		if err := fits("a pool of nonces", a.Material.NoncePools[c].X, a.Probes); err != nil {
			return err
		}
		if err := fits("nonce records", a.Material.Nonces[c], 1); err != nil {
			return err
		}
		if n := a.Material.Nonces[c].Len(); n > a.Mechanism.Cap {
			return fmt.Errorf("pe: nonce canary %d has %d records, and the cap is %d", c, n, a.Mechanism.Cap)
		}
	}
	return nil
}

// Experiment is one attack on one canary.
type Experiment struct {
	Attack  string    `json:"attack"`
	Canary  int       `json:"canary"`
	User    string    `json:"user"`    // "" for a nonce canary
	Slots   []int32   `json:"slots"`   // of the probes, in their order
	Pool    []int     `json:"pool"`    // which of the pool they are
	Observe []int32   `json:"observe"` // slots that the statistic looks at, ascending
	V       []float64 `json:"votes"`   // what the canary adds to them
	Mu      float64   `json:"mu_eff"`  // of the auxiliary users' moments
	Norm    float64   `json:"norm"`    // ‖v_P‖/C
	Twins   int       `json:"twins"`   // probes equal to an earlier one
	// Blind says that none of the canary's votes falls on an observed slot: the attack
	// sees nothing of it, its ε is 0, and there are no trials.
	Blind  bool `json:"blind,omitempty"`
	Step   int  `json:"-"` // number of the experiment
	probes *records.Matrix
	view   *View
}

// bench is what an audit has routed: users over the survivors, the bank without
// the probes' slots.
type bench struct {
	slots     []int32 // in the order in which probes take them
	survivors Bank
	groups    map[string]*group
}

// group is the users of one part of the split.
type group struct {
	users *Population
	near  *Nearest // over the survivors
}

func (a *Audit) newBench() *bench {
	p := a.Bank.Len()
	b := &bench{groups: map[string]*group{}}
	if a.Slots == LastSlots {
		for i := range a.Probes {
			b.slots = append(b.slots, int32(p-a.Probes+i))
		}
	} else {
		for _, s := range rng.New(a.Seed, rng.Slots).Perm(p)[:a.Probes] {
			b.slots = append(b.slots, int32(s))
		}
	}
	b.survivors = Bank{X: &records.Matrix{D: a.Bank.Dim()}}
	taken := make([]bool, p)
	for _, s := range b.slots {
		taken[s] = true
	}
	for i := range p {
		if !taken[i] {
			b.survivors.X.X = append(b.survivors.X.X, a.Bank.Row(i)...)
			b.survivors.Slot = append(b.survivors.Slot, int32(i))
		}
	}
	return b
}

// The parts of a split that are routed.
const (
	auxiliary   = "auxiliary"
	calibration = "calibration"
	test        = "test"
)

// group routes one part of the users, once.
func (a *Audit) group(ctx context.Context, b *bench, name string) (*group, error) {
	if g := b.groups[name]; g != nil {
		return g, nil
	}
	part := map[string][]int{auxiliary: a.Split.Auxiliary, calibration: a.Split.Calibration, test: a.Split.Test}[name]
	g := &group{users: a.Users.Only(part)}
	total := g.users.X.Len()
	var err error
	g.near, err = Route(ctx, a.Device, g.users.X, b.survivors, a.Mechanism.K, func(done int) { a.tell("routing "+name+" users", done, total) })
	if err != nil {
		return nil, fmt.Errorf("%s users: %w", name, err)
	}
	b.groups[name] = g
	return g, nil
}

func (a *Audit) tell(what string, done, total int) {
	if a.Told != nil {
		a.Told(what, done, total)
	}
}

// extras is what is in the probes' slots: the probes, and in slots that they do not
// fill what the bank has there.
func (a *Audit) extras(slots []int32, probes *records.Matrix) Bank {
	type entry struct {
		slot int32
		row  []float32
	}
	var list []entry
	for i, s := range slots {
		if i < probes.Len() {
			list = append(list, entry{s, probes.Row(i)})
		} else {
			list = append(list, entry{s, a.Bank.Row(int(s))})
		}
	}
	slices.SortFunc(list, func(x, y entry) int { return int(x.slot - y.slot) })
	b := Bank{X: &records.Matrix{D: a.Bank.Dim()}}
	for _, e := range list {
		b.X.X, b.Slot = append(b.X.X, e.row...), append(b.Slot, e.slot)
	}
	return b
}

// contributions are those of a part of the users with these probes in place.
func (a *Audit) contributions(ctx context.Context, b *bench, name string, probes *records.Matrix, observe []int32) (*Contributions, error) {
	g, err := a.group(ctx, b, name)
	if err != nil {
		return nil, err
	}
	near, err := a.with(ctx, g.users.X, g.near, a.extras(b.slots, probes))
	if err != nil {
		return nil, err
	}
	return Contribute(a.Mechanism, near, g.users.Starts, observe)
}

// with merges further candidates into lists.
func (a *Audit) with(ctx context.Context, x records.Vectors, near *Nearest, extras Bank) (*Nearest, error) {
	k := a.Mechanism.K
	more, err := Route(ctx, a.Device, x, extras, min(k, extras.X.Len()), nil)
	if err != nil {
		return nil, err
	}
	return Merge(k, near, more)
}

// canary is one whose participation is attacked.
type canary struct {
	user string
	x    *records.Matrix
	near *Nearest // over the survivors
}

func (a *Audit) canary(ctx context.Context, b *bench, v Variant, c int) (canary, error) {
	var k canary
	if v.Probes == Nonces {
		k.x = a.Material.Nonces[c]
	} else {
		only := a.Users.Only(a.Split.Canaries[c : c+1])
		x, err := records.ReadAll(only.X)
		if err != nil {
			return k, err
		}
		k.user, k.x = only.ID[0], x
	}
	var err error
	k.near, err = Route(ctx, a.Device, k.x, b.survivors, a.Mechanism.K, nil)
	return k, err
}

// votes is the canary's part of the histogram with these probes in place.
func (a *Audit) votes(ctx context.Context, b *bench, c canary, probes *records.Matrix) ([]mechanism.Vote, error) {
	near, err := a.with(ctx, c.x, c.near, a.extras(b.slots, probes))
	if err != nil {
		return nil, err
	}
	return a.Mechanism.Votes(near.Slot)
}

// design makes one experiment: probes, observed slots, statistic. Of users it sees
// the auxiliary ones and the canary.
func (a *Audit) design(ctx context.Context, b *bench, v Variant, c int) (*Experiment, error) {
	k, err := a.canary(ctx, b, v, c)
	if err != nil {
		return nil, err
	}
	e := &Experiment{Attack: v.Name, Canary: c, User: k.user}
	if e.Pool, e.probes, err = a.probes(ctx, b, v, c, k); err != nil {
		return nil, err
	}
	e.Slots = b.slots[:e.probes.Len()]
	e.Twins = twins(e.probes)
	votes, err := a.votes(ctx, b, k, e.probes)
	if err != nil {
		return nil, err
	}
	if v.Probes == NoProbes {
		for _, w := range votes {
			e.Observe = append(e.Observe, int32(w.Slot))
		}
	} else {
		e.Observe = slices.Sorted(slices.Values(e.Slots))
	}
	if len(e.Observe) == 0 {
		return nil, fmt.Errorf("the canary votes for nothing: there is nothing to observe")
	}
	e.V = make([]float64, len(e.Observe))
	for _, w := range votes {
		if i, observed := slices.BinarySearch(e.Observe, int32(w.Slot)); observed {
			e.V[i] = w.Weight
		}
	}
	if e.Blind = !slices.ContainsFunc(e.V, func(v float64) bool { return v != 0 }); e.Blind {
		return e, nil
	}
	aux, err := a.contributions(ctx, b, auxiliary, e.probes, e.Observe)
	if err != nil {
		return nil, err
	}
	if e.view, err = a.game(ExactLock).View(aux, e.V); err != nil {
		return nil, err
	}
	e.Mu, e.Norm = e.view.Stat.Mu, e.view.Stat.Norm
	return e, nil
}

// probes chooses the probes of an experiment.
func (a *Audit) probes(ctx context.Context, b *bench, v Variant, c int, k canary) (chosen []int, probes *records.Matrix, err error) {
	var pool Pool
	switch v.Probes {
	case NoProbes:
		return nil, &records.Matrix{D: a.Bank.Dim()}, nil
	case Copies:
		n := min(k.x.Len(), a.Probes)
		for i := range n {
			chosen = append(chosen, i)
		}
		return chosen, &records.Matrix{D: k.x.D, X: k.x.X[:n*k.x.D]}, nil
	case Paraphrases:
		pool = a.Material.Paraphrases[c]
	case Nonces:
		pool = a.Material.NoncePools[c]
	}
	if v.Choose == Spread {
		chosen = spreadOver(pool, k.x.Len(), a.Probes, a.Seed, c)
	} else if chosen, err = a.search(ctx, b, v, k, pool); err != nil {
		return nil, nil, err
	}
	probes = &records.Matrix{D: pool.X.D}
	for _, i := range chosen {
		probes.X = append(probes.X, pool.X.Row(i)...)
	}
	return chosen, probes, nil
}

// spreadOver takes n of a pool: one of each record of the canary in turn, each
// record's own in a drawn order, until there are n; or, where the pool has no
// sources, n drawn uniformly.
func spreadOver(pool Pool, recordsOf, n int, seed uint64, c int) []int {
	order := rng.New(seed, rng.Slots, 1, uint64(c)).Perm(pool.X.Len())
	if pool.Source == nil {
		return order[:n]
	}
	by := make([][]int, recordsOf)
	for _, i := range order {
		by[pool.Source[i]] = append(by[pool.Source[i]], i)
	}
	var out []int
	for round := 0; len(out) < n; round++ {
		for _, list := range by {
			if round < len(list) && len(out) < n {
				out = append(out, list[round])
			}
		}
	}
	return out
}

// search runs the greedy choice of probes.
func (a *Audit) search(ctx context.Context, b *bench, v Variant, k canary, pool Pool) ([]int, error) {
	s := Search{K: a.Mechanism.K, Slot: b.slots, Near: k.near}
	if a.KeepOriginals {
		s.Near = nearestOf(k.x, Bank{X: a.Bank}, min(a.Mechanism.K+a.Probes, a.Bank.Len()))
	}
	for i := range k.x.Len() {
		for j := range pool.X.Len() {
			s.Dist = append(s.Dist, sqDist(k.x.Row(i), pool.X.Row(j)))
		}
	}
	if v.Choose == ByMu {
		cov, err := a.poolCovariance(ctx, b, pool)
		if err != nil {
			return nil, err
		}
		s.Cov = cov
	}
	choice, err := s.Greedy()
	if err != nil {
		return nil, err
	}
	return choice.Pool, nil
}

// poolCovariance is the covariance of a release at slots of the whole pool, were
// all of it in the bank: routing against everything at once is what lets it be
// frozen before the search (arXiv:2609.13499, appendix B).
func (a *Audit) poolCovariance(ctx context.Context, b *bench, pool Pool) ([]float64, error) {
	g, err := a.group(ctx, b, auxiliary)
	if err != nil {
		return nil, err
	}
	h := a.Mechanism
	first := int32(h.Slots)
	m := pool.X.Len()
	h.Slots += m
	extras := Bank{X: pool.X}
	for i := range m {
		extras.Slot = append(extras.Slot, first+int32(i))
	}
	near, err := a.with(ctx, g.users.X, g.near, extras)
	if err != nil {
		return nil, err
	}
	c, err := Contribute(h, near, g.users.Starts, extras.Slot)
	if err != nil {
		return nil, err
	}
	moments, err := NewMoments(h, c, a.Eligible)
	if err != nil {
		return nil, err
	}
	cov := make([]float64, m*m)
	for i := range m {
		for j := range m {
			cov[i*m+j] = moments.Cov.At(i, j)
		}
	}
	return cov, nil
}

// nearestOf takes all distances of a few records.
func nearestOf(x *records.Matrix, bank Bank, k int) *Nearest {
	out := &Nearest{K: k}
	for i := range x.Len() {
		all := make([]candidate, bank.X.Len())
		for j := range all {
			all[j] = candidate{sqDist(x.Row(i), bank.X.Row(j)), bank.slot(int32(j))}
		}
		slices.SortFunc(all, candidate.compare)
		for _, c := range all[:k] {
			out.Slot, out.Dist = append(out.Slot, c.slot), append(out.Dist, c.dist)
		}
	}
	return out
}

// twins counts rows that are equal to an earlier one.
func twins(m *records.Matrix) int {
	seen := map[string]bool{}
	n := 0
	for i := range m.Len() {
		key := string(floatBytes(m.Row(i)))
		if seen[key] {
			n++
		}
		seen[key] = true
	}
	return n
}

func floatBytes(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// digest is the SHA-256 of rows.
func digest(v records.Vectors) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, "aviary/vectors/1", v.Len(), v.Dim())
	const block = 1024
	x := make([]float32, min(block, v.Len())*v.Dim())
	for from := 0; from < v.Len(); from += block {
		part := x[:min(block, v.Len()-from)*v.Dim()]
		if err := v.Read(from, part); err != nil {
			return "", err
		}
		h.Write(floatBytes(part))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
