package ibis

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// hyperCase is a variant of the inner problem at its solution.
type hyperCase struct {
	q        *toy
	cfg      Refinement
	star     []float64 // θ*
	theta    []float64 // θ_C
	v        []float64 // solves (∂G/∂θ)ᵀ v = Σ_C ∇ℓ
	vWrong   []float64 // solves (∂G/∂θ) v = Σ_C ∇ℓ
	want     []float64 // central differences of Φ
	canaries []float64
}

// toyLambda is .7/m for m = 4, as in the check that the signs come from.
const toyLambda = 0.175

func newHyperCase(t *testing.T, dev kernels.Device, variant string) *hyperCase {
	q := newToy(t, dev)
	c := &hyperCase{q: q, canaries: q.canaries.x}
	c.cfg = Refinement{Lambda: toyLambda, Rho: 1, Eta: 1, Steps: 1, Every: 1, Batch: 1}
	if variant == "augmented" || variant == "augmented and clipped" {
		c.cfg.Augment = "shift:1+flip"
		for i := range q.n() { // one fixed transform for each example
			q.moves = append(q.moves, 0, int32(i%3-1), int32(i/3%2))
		}
	}
	start := mustFloats(t, dev, q.m.Theta)
	c.star = q.solve(start, c.canaries, q.rest.Len())
	c.theta = q.solve(c.star, c.canaries, q.n())
	if variant == "clipped" || variant == "augmented and clipped" {
		for range 4 { // clipping changes the norms
			q.clip = middleGap(q.norms(c.theta, c.canaries))
			c.theta = q.solve(c.theta, c.canaries, q.n())
		}
		c.cfg.ClipNorm = q.clip
		c.checkClipping(variant)
	}
	_, sum, _ := q.atCanaries(c.theta, c.canaries)
	jt := q.transposed(c.theta, c.canaries, q.n())
	for _, s := range []struct {
		v *[]float64
		a mat.Matrix
	}{{&c.v, jt}, {&c.vWrong, jt.T()}} {
		var v mat.VecDense
		if err := v.SolveVec(s.a, mat.NewVecDense(len(sum), sum)); err != nil {
			t.Fatal(err)
		}
		*s.v = v.RawVector().Data
	}
	q.near = new(mat.LU)
	q.near.Factorize(jt)
	c.differences()
	return c
}

// middleGap is the middle of the widest gap between the norms about the median.
func middleGap(norms []float64) float64 {
	slices.Sort(norms)
	widest, at := 0.0, 0.0
	for i := len(norms)/2 - 4; i < len(norms)/2+3; i++ {
		if gap := norms[i+1] - norms[i]; gap > widest {
			widest, at = gap, (norms[i+1]+norms[i])/2
		}
	}
	return at
}

// checkClipping: a difference must not cross the kink at the threshold, and both
// kinds of examples are needed.
func (c *hyperCase) checkClipping(variant string) {
	clipped := 0
	for i, r := range c.q.norms(c.theta, c.canaries) {
		if !(math.Abs(r-c.q.clip) > 1e-3) {
			c.q.t.Fatalf("%s: the gradient of example %d has norm %v, within 1e-3 of the threshold %v", variant, i, r, c.q.clip)
		}
		if r > c.q.clip {
			clipped++
		}
	}
	if n := c.q.n(); clipped < n/3 || clipped > n-n/3 {
		c.q.t.Fatalf("%s: %d of %d examples are clipped, about half are due", variant, clipped, n)
	}
}

// differences of Φ along each pixel, by Richardson's rule from h and 2h: the
// error is of order h⁴ = 1e-16 of the fifth derivative, and 1e-14/h = 1e-10 of
// rounding, since θ_C is known to about 1e-14.
func (c *hyperCase) differences() {
	const h = 1e-4
	x := slices.Clone(c.canaries)
	phi := func(i int, h float64) float64 {
		x[i] = c.canaries[i] + h
		defer func() { x[i] = c.canaries[i] }()
		return c.q.phi(c.star, c.theta, x, toyLambda)
	}
	c.want = make([]float64, len(x))
	for i := range x {
		c.want[i] = (8*(phi(i, h)-phi(i, -h)) - (phi(i, 2*h) - phi(i, -2*h))) / (12 * h)
	}
}

// error is that of the hypergradient as a refinement computes it, after spoil has
// changed what it likes: |got - want|/|want| against the differences.
func (c *hyperCase) error(cfg Refinement, spoil func(r *refiner)) float64 {
	t, dev := c.q.t, c.q.dev
	t.Helper()
	star, theta := toyModel(t, dev), toyModel(t, dev)
	defer star.Free()
	defer theta.Free()
	dev.UploadF64(star.Theta.Mem(), c.star)
	dev.UploadF64(theta.Theta.Mem(), c.theta)
	rest, canaries := mustUpload(t, dev, c.q.rest), mustUpload(t, dev, c.q.canaries)
	defer rest.Free()
	defer canaries.Free()
	r, err := newRefiner(star, theta, rest, canaries, cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.free()
	r.pass.Poison()
	dev.UploadF64(r.v.Mem(), c.v)
	if r.mover != nil {
		dev.UploadInts(r.mover.moves.Slice(0, r.m).Mem(), c.q.moves[3*c.q.rest.Len():])
	}
	if spoil != nil {
		spoil(r)
	}
	r.choose()
	if err := r.pixelGradient(); err != nil {
		t.Fatal(err)
	}
	got := mustFloats(t, dev, r.gx)
	off := 0.0
	for i, w := range c.want {
		off += (got[i] - w) * (got[i] - w)
	}
	return math.Sqrt(off / gradcheck.Dot(c.want, c.want))
}

// hypergradientTol is fifty times the error that rounding leaves in differences.
const hypergradientTol = 5e-9

// TestHypergradient compares the gradient by the pixels with central differences
// of Φ, inner problem solved each time. Every wrong sign is a planted fault.
func TestHypergradient(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for _, variant := range []string{"plain", "augmented", "clipped", "augmented and clipped"} {
		c := newHyperCase(t, dev, variant)
		if e := c.error(c.cfg, nil); !(e <= hypergradientTol) {
			t.Errorf("%s: off by %.2e, relative", variant, e)
		}
		n, rest := float64(c.q.n()), float64(c.q.rest.Len())
		for _, fault := range []struct {
			name  string
			near  float64 // the error that is expected for the plain variant
			spoil func(r *refiner)
		}{
			{"+1/n on the mixed term", 0.55, func(r *refiner) { r.terms.mixed = 1 / n }},
			{"implicit term dropped", 0.27, func(r *refiner) { r.terms.mixed = 0 }},
			{"1/|D| instead of 1/n", 0.037, func(r *refiner) { r.terms.mixed = -1 / rest }},
			{"direct signs flipped", 0.57, func(r *refiner) { r.terms.star, r.terms.theta = 1, -1 }},
		} {
			e := c.error(c.cfg, fault.spoil)
			if !(e > fault.near/3 && e < fault.near*3) {
				t.Errorf("%s: planted fault %q is off by %.3f, expected about %.3f", variant, fault.name, e, fault.near)
			}
		}
		without := c.cfg
		without.Lambda = 0
		more := map[string]float64{"no regulariser": c.error(without, nil)}
		if c.cfg.Augment != "" {
			more["pixels not moved"] = c.error(c.cfg, func(r *refiner) { dev.UploadInts(r.mover.moves.Mem(), make([]int32, 3*r.m)) })
		}
		if c.cfg.ClipNorm > 0 {
			plain := c.cfg
			plain.ClipNorm = 0
			more["not clipped"] = c.error(plain, nil)
			more["untransposed"] = c.error(c.cfg, func(r *refiner) { dev.UploadF64(r.v.Mem(), c.vWrong) })
		}
		for name, e := range more {
			if !(e > 100*hypergradientTol) {
				t.Errorf("%s: planted fault %q is off by %.2e only", variant, name, e)
			}
		}
	}
}
