package pe

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/kernels"
)

// unit is a random direction near center.
func unit(r *rand.Rand, center []float32, spread float64) []float32 {
	x := make([]float32, len(center))
	norm := 0.0
	for i := range x {
		v := float64(center[i]) + spread*r.NormFloat64()
		x[i] = float32(v)
		norm += v * v
	}
	for i := range x {
		x[i] /= float32(math.Sqrt(norm))
	}
	return x
}

// watched is Vectors that tell which rows are read.
type watched struct {
	records.Vectors
	read func(row int)
}

func (w watched) Read(from int, dst []float32) error {
	for i := range len(dst) / w.Dim() {
		w.read(from + i)
	}
	return w.Vectors.Read(from, dst)
}

// synthetic is an audit on clusters: natural records are near a few topics, as the
// bank is; nonces are all near one direction far from them.
func synthetic(t testing.TB, threads int) *Audit {
	t.Helper()
	const dim, users, each, p, probes, pool = 24, 130, 10, 250, 12, 60
	r := rand.New(rand.NewPCG(1, 9))
	zero := make([]float32, dim)
	var topics [][]float32
	for range 8 {
		topics = append(topics, unit(r, zero, 1))
	}
	near := func() []float32 { return unit(r, topics[r.IntN(8)], .2) }
	bank := &records.Matrix{D: dim}
	for range p {
		bank.X = append(bank.X, near()...)
	}
	all := &records.Matrix{D: dim}
	var user []string
	for i := range users * each {
		all.X = append(all.X, near()...)
		user = append(user, fmt.Sprint("u", i%users)) // records of a user are not together
	}
	people, err := NewPopulation(user, all, each, each)
	if err != nil {
		t.Fatal(err)
	}
	split, err := NewSplit(5, users, 2, 30, 30, 60)
	if err != nil {
		t.Fatal(err)
	}
	a := &Audit{
		Mechanism: mechanism.Histogram{Slots: p, K: 3, Cap: each, Clip: .15, Noise: 1, Rate: .1},
		Protocol:  Protocol{Trials: 200_000, Canaries: 2, Alpha: .05, Delta: 1e-5, Bounds: 4},
		Variants:  Variants(), Bank: bank, Users: people, Split: split, Eligible: 60,
		Probes: probes, Slots: RandomSlots, Seed: 5, Device: cpu(t, threads),
	}
	far := unit(r, zero, 1)
	for _, c := range split.Canaries {
		mine, err := records.ReadAll(people.Only([]int{c}).X)
		if err != nil {
			t.Fatal(err)
		}
		para := Pool{X: &records.Matrix{D: dim}}
		for i := range pool {
			para.X.X = append(para.X.X, unit(r, mine.Row(i%each), .1)...)
			para.Source = append(para.Source, i%each)
		}
		a.Material.Paraphrases = append(a.Material.Paraphrases, para)
		nonce, npool := &records.Matrix{D: dim}, Pool{X: &records.Matrix{D: dim}}
		for range each {
			nonce.X = append(nonce.X, unit(r, far, .1)...)
		}
		for range pool {
			npool.X.X = append(npool.X.X, unit(r, far, .1)...)
		}
		a.Material.Nonces = append(a.Material.Nonces, nonce)
		a.Material.NoncePools = append(a.Material.NoncePools, npool)
	}
	return a
}

func lockAndTest(t *testing.T, a *Audit) (*Lock, *Result) {
	t.Helper()
	l, d, err := a.Lock(t.Context(), "v", ExactLock)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Test(t.Context(), d, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, r
}

// TestAudit: all eight attacks, the order of their strengths, and that no bound is
// above the exact ε, nor that above the mechanism's.
func TestAudit(t *testing.T) {
	a := synthetic(t, 2)
	l, r := lockAndTest(t, a)
	if len(r.Attacks) != 8 || len(l.Attacks) != 16 {
		t.Fatalf("%d attacks, %d locked", len(r.Attacks), len(l.Attacks))
	}
	by := map[string]AttackResult{}
	for _, at := range r.Attacks {
		by[at.Attack] = at
		for _, c := range at.Canaries {
			if !(c.EpsLower <= c.EpsTight+1e-12 && c.EpsJoint <= c.Exact.Upper && c.Exact.Upper <= r.Theory.Upper+1e-4 && c.Corrected <= c.EpsLower) {
				t.Errorf("%s: %+v", at.Attack, c)
			}
			if !(c.MuNoise <= c.Norm+1e-12 && c.Norm <= 1+1e-12) {
				t.Errorf("%s: μ_eff σ %v, ‖v‖/C %v", at.Attack, c.MuNoise, c.Norm)
			}
			if math.Abs(c.Expected.Mean-c.EpsLower) > .5 {
				t.Errorf("%s: bound %v, expected %v", at.Attack, c.EpsLower, c.Expected)
			}
		}
	}
	for _, c := range by["nonce-norm"].Canaries {
		// All votes fall on probes, more than the clip lets through.
		if !(math.Abs(c.Norm-1) <= 1e-12) || !(c.MuNoise >= .98) {
			t.Errorf("nonce-norm: norm %v, μ_eff σ %v", c.Norm, c.MuNoise)
		}
	}
	if !(by["nonce-norm"].Exact > by["ordinary"].Exact && by["nonce-norm"].EpsLower > .5*r.Ceiling.Mean) {
		t.Errorf("nonce-norm %+v, ordinary %+v, ceiling %+v", by["nonce-norm"].Exact, by["ordinary"].Exact, r.Ceiling)
	}
	// On one pool and one canary J_μ is the better choice for μ.
	for c := range 2 {
		norm, mu := by["paraphrase-norm"].Canaries[c], by["paraphrase-mu"].Canaries[c]
		if !(mu.Mu >= norm.Mu) {
			t.Errorf("canary %d: μ_eff %v by J_μ, %v by J_norm", c, mu.Mu, norm.Mu)
		}
	}
}

// TestAuditIsReproducible: the same lock and result on any number of threads and
// from any device, resumed or at once, and another with another seed.
func TestAuditIsReproducible(t *testing.T) {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	few := func(a *Audit) *Audit {
		v, err := VariantsNamed([]string{"nonce-mu", "ordinary", "paraphrase"})
		if err != nil {
			t.Fatal(err)
		}
		a.Variants, a.Protocol.Trials = v, 3*Block
		return a
	}
	one := few(synthetic(t, 1))
	l1, r1 := lockAndTest(t, one)
	two := few(synthetic(t, 2))
	l2, r2 := lockAndTest(t, two)
	if text(l1) != text(l2) || text(r1) != text(r2) {
		t.Error("1 and 2 threads differ")
	}
	exact := few(synthetic(t, 1))
	exact.Device = kernels.Reference()
	if l3, r3 := lockAndTest(t, exact); text(l3) != text(l1) || text(r3) != text(r1) {
		t.Error("another device, another result")
	}
	other := few(synthetic(t, 1))
	other.Seed++
	l4, _ := lockAndTest(t, other)
	if text(l4) == text(l1) {
		t.Error("another seed, the same lock")
	}
	if err := l1.Same(l4); err == nil || !strings.Contains(err.Error(), "seed was 5") {
		t.Errorf("locks of two seeds: %v", err)
	}
}

// TestLockSeesNoTestUser: until thresholds are locked not one of their records is
// read.
func TestLockSeesNoTestUser(t *testing.T) {
	a := synthetic(t, 2)
	v, err := VariantsNamed([]string{"paraphrase-mu", "exact"})
	if err != nil {
		t.Fatal(err)
	}
	a.Variants, a.Protocol.Trials = v, 1000
	isTest := map[int]bool{}
	for _, u := range a.Split.Test {
		for i := a.Users.Starts[u]; i < a.Users.Starts[u+1]; i++ {
			isTest[i] = true
		}
	}
	seen := 0
	a.Users.X = watched{a.Users.X, func(row int) {
		if isTest[row] {
			seen++
		}
	}}
	l, d, err := a.Lock(t.Context(), "v", ExactLock)
	if err != nil || seen > 0 {
		t.Fatalf("%d reads of test users before the lock, %v", seen, err)
	}
	if _, err := a.Test(t.Context(), d, l, nil); err != nil || seen < len(isTest) {
		t.Errorf("%d reads of %d records of test users, %v", seen, len(isTest), err)
	}
}

// TestLockFile: it comes back as it was; a change in what it was decided on is
// told, and it is not written over.
func TestLockFile(t *testing.T) {
	a := synthetic(t, 2)
	v, err := VariantsNamed([]string{"nonce"})
	if err != nil {
		t.Fatal(err)
	}
	a.Variants = v
	l, _, err := a.Lock(t.Context(), "v", ExactLock)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lock.json")
	if err := l.Write(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(path); err == nil {
		t.Error("a lock was written over")
	}
	back, err := ReadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Same(l); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(){
		"bank": func() { a.Bank.X[0]++ },
		"users' embeddings": func() {
			a.Users.X = watched{a.Users.X, func(int) {}}
			a.Split.Auxiliary[0], a.Split.Test[0] = a.Split.Test[0], a.Split.Auxiliary[0]
		},
		"probes": func() {
			for i := range a.Material.NoncePools[1].X.X {
				a.Material.NoncePools[1].X.X[i] += .01
			}
		},
		"mechanism":  func() { a.Mechanism.Noise = 2 },
		"test users": func() { a.Split.Test = a.Split.Test[1:] },
		"protocol":   func() { a.Protocol.Trials++ },
	} {
		a = synthetic(t, 2)
		a.Variants = v
		change()
		now, _, err := a.Lock(t.Context(), "v", ExactLock)
		if err != nil {
			t.Fatal(want, err)
		}
		if err := back.Same(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another %s: %v", want, err)
		}
	}
	for _, text := range []string{"", "{}", `{"schema":"aviary/pe-lock/1","more":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLock(path); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// TestDoubleCounted: a canary that is also among the users of the release moves
// the law away from that of the audit: its split is refused.
func TestDoubleCounted(t *testing.T) {
	a := synthetic(t, 1)
	a.Split.Test[3] = a.Split.Canaries[1]
	if _, _, err := a.Lock(t.Context(), "v", ExactLock); err == nil || !strings.Contains(err.Error(), "as canary and as test") {
		t.Errorf("%v", err)
	}
	a = synthetic(t, 1)
	a.Split.Auxiliary = append(a.Split.Auxiliary, a.Split.Test[0])
	if _, _, err := a.Lock(t.Context(), "v", ExactLock); err == nil {
		t.Error("probes were designed with a test user")
	}
}

func TestAuditRefuses(t *testing.T) {
	for want, change := range map[string]func(a *Audit){
		"250 candidates":      func(a *Audit) { a.Mechanism.Slots = 7 },
		"probes: 248":         func(a *Audit) { a.Probes = 248 },
		`slots: "first"`:      func(a *Audit) { a.Slots = "first" },
		"2 canaries, the":     func(a *Audit) { a.Protocol.Canaries = 3 },
		"eligible users":      func(a *Audit) { a.Eligible = 0 },
		"no attacks":          func(a *Audit) { a.Variants = nil },
		"different encoders":  func(a *Audit) { a.Bank = &records.Matrix{D: 3, X: make([]float32, 750)} },
		"the cap is 9":        func(a *Audit) { a.Mechanism.Cap = 9 },
		"needs paraphrases":   func(a *Audit) { a.Material.Paraphrases = a.Material.Paraphrases[:1] },
		"needs nonces":        func(a *Audit) { a.Material.Nonces = nil },
		"needs a pool of":     func(a *Audit) { a.Material.NoncePools[1].X.X = a.Material.NoncePools[1].X.X[:24] },
		"name 3 sources":      func(a *Audit) { a.Material.Paraphrases[0].Source = []int{1, 2, 3} },
		"is of record 10":     func(a *Audit) { a.Material.Paraphrases[1].Source[7] = 10 },
		"is of record -1":     func(a *Audit) { a.Material.Paraphrases[0].Source[0] = -1 },
		"clip":                func(a *Audit) { a.Mechanism.Clip = -1 },
		"trials":              func(a *Audit) { a.Protocol.Trials = 0 },
		"has test user 99999": func(a *Audit) { a.Split.Test[0] = 99999 },
	} {
		a := synthetic(t, 1)
		change(a)
		if _, _, err := a.Lock(t.Context(), "v", ExactLock); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, _, err := synthetic(t, 1).Lock(t.Context(), "v", "guess"); err == nil {
		t.Error("an unknown rule: no error")
	}
	if _, err := NewSplit(1, 10, 2, 3, 3, 3); err == nil {
		t.Error("11 users of 10: no error")
	}
	if _, err := VariantsNamed([]string{"nonces"}); err == nil || !strings.Contains(err.Error(), "nonce-mu") {
		t.Errorf("%v", err)
	}
}

// TestBlind: where no vote of a canary falls on a probe, that attack has ε 0 and the
// audit goes on; a canary that does vote is not taken for one.
func TestBlind(t *testing.T) {
	a := synthetic(t, 2)
	v, err := VariantsNamed([]string{"paraphrase", "nonce"})
	if err != nil {
		t.Fatal(err)
	}
	a.Variants, a.Protocol.Trials = v, Block
	for c := range a.Material.Paraphrases { // far from all records
		for i := range a.Material.Paraphrases[c].X.X {
			a.Material.Paraphrases[c].X.X[i] = 100
		}
	}
	l, r := lockAndTest(t, a)
	for _, at := range r.Attacks {
		for c, got := range at.Canaries {
			if blind := at.Attack == "paraphrase"; blind != (got.Mu == 0) || blind && (got.Bounds != Bounds{} || got.Exact != Attack{}) {
				t.Errorf("%s, canary %d: %+v", at.Attack, c, got)
			}
		}
	}
	if !l.Attacks[0].Blind || l.Attacks[2].Blind || r.Attacks[0].Pooled != 0 {
		t.Errorf("%+v, %v", l.Attacks[0].Blind, r.Attacks[0].Pooled)
	}
	if curves, err := a.ByTrials(r); err != nil || len(curves) != 3 || curves[1].Best[5] != 0 || !(curves[2].Best[5] > 0) {
		t.Errorf("%+v, %v", curves, err)
	}
}
