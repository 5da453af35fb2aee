package ibis

import (
	"slices"

	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// terms are the factors in the gradient of Φ by a canary's pixels (Proposition
// 4.2, with the score s = -ℓ):
//
//	star ∇ₓ ℓ(θ*, x) + theta ∇ₓ ℓ(θ, x) + mixed ∇²ₓθ ℓ(θ, x) v + ∂R/∂x
//
// where v solves ∇²θθ L v = Σ_C ∇θ ℓ, for the mean loss L over the n examples
// of D ∪ C.
type terms struct{ star, theta, mixed float64 }

func termsOf(cfg Refinement, n int) terms {
	t := terms{star: -1, theta: 1, mixed: -1 / float64(n)}
	if cfg.WithoutDetect {
		return terms{}
	}
	if cfg.WithoutImplicit {
		t.mixed = 0
	}
	return t
}

// refiner is the state of a refinement. Its memory on the device is taken once.
type refiner struct {
	star, theta    *models.Model
	rest, canaries *train.Data
	cfg            Refinement
	seed           uint64 // of the refinement's own streams

	dev     kernels.Device
	n, m, b int // examples of D ∪ C, canaries, canaries that move at a time
	terms   terms
	pass    *models.Pass
	shuffle *shuffle
	batch   *gathered // of D ∪ C
	mover   *mover    // nil: no augmentation

	chosen *gathered      // the canaries that move; x is nil if all of them do
	rows   []int          // which they are; nil: all
	x      *tensor.Tensor // their pixels [b, shape...]
	labels *tensor.Tensor // [b]

	grad, hvp *tensor.Tensor                   // of the batch
	v, sum    *tensor.Tensor                   // nil WithoutImplicit; sum is Σ_C ∇θ ℓ
	dir       map[*models.Param]*tensor.Tensor // v by parameter
	gx        *tensor.Tensor                   // the gradient by x
	spare     *tensor.Tensor                   // like gx; nil unless pixels are clipped
	ones      *tensor.Tensor                   // like gx; nil unless pixels are clipped
	figures   *tensor.Tensor                   // of a TracePoint

	step   int // steps done
	points []TracePoint
}

func newRefiner(star, theta *models.Model, rest, canaries *train.Data, cfg Refinement, seed uint64) (*refiner, error) {
	if err := checkPair(star, theta, rest, canaries); err != nil {
		return nil, err
	}
	r := &refiner{
		star: star, theta: theta, rest: rest, canaries: canaries, cfg: cfg, seed: rng.Seed(seed, rng.Refine),
		dev: theta.Device(), n: rest.Len() + canaries.Len(), m: canaries.Len(), b: canaries.Len(),
	}
	if err := cfg.Validate(r.m, r.n, rest.Shape()); err != nil {
		return nil, err
	}
	if cfg.CanaryBatch > 0 {
		r.b = cfg.CanaryBatch
	}
	r.terms = termsOf(cfg, r.n)
	r.shuffle = newShuffle(r.seed, rest.Len(), r.n, cfg.Batch)
	r.pass = models.NewPass(r.dev)
	return r, r.alloc()
}

// alloc takes the memory on the device.
func (r *refiner) alloc() (err error) {
	augment, err := train.ParseAugment(r.cfg.Augment)
	if err != nil {
		return err
	}
	shape := r.canaries.Shape()
	if r.batch, err = newGathered(r.dev, r.cfg.Batch, shape); err != nil {
		return err
	}
	if r.mover, err = newMover(r.dev, augment, r.seed, max(r.cfg.Batch, r.b), shape); err != nil {
		return err
	}
	if r.b < r.m {
		if r.chosen, err = newGathered(r.dev, r.b, shape); err != nil {
			return err
		}
		r.x, r.labels = r.chosen.x, r.chosen.labels
	} else {
		r.x = r.canaries.X
		if r.labels, err = tensor.FromInts(r.dev, r.canaries.Y, r.m); err != nil {
			return err
		}
	}
	type want struct {
		t     **tensor.Tensor
		shape []int
	}
	wants := []want{{&r.gx, r.x.Shape()}, {&r.figures, []int{numFigures}}}
	if r.cfg.ClipPixels {
		wants = append(wants, want{&r.spare, r.x.Shape()}, want{&r.ones, r.x.Shape()})
	}
	if r.terms.theta != 0 {
		wants = append(wants, want{&r.grad, []int{r.theta.Len()}})
	}
	if r.terms.mixed != 0 {
		for _, t := range []**tensor.Tensor{&r.hvp, &r.v, &r.sum} {
			wants = append(wants, want{t, []int{r.theta.Len()}})
		}
	}
	for _, w := range wants {
		if *w.t, err = tensor.Alloc(r.dev, w.shape...); err != nil {
			return err
		}
	}
	if r.ones != nil {
		r.dev.Fill(r.ones.Mem(), 1)
	}
	if r.v != nil {
		r.dev.Fill(r.v.Mem(), 0)
		r.dir = r.theta.Split(r.v)
	}
	return nil
}

func (r *refiner) free() {
	r.pass.Free()
	if r.chosen == nil {
		r.labels.Free(r.dev)
	}
	r.chosen.free()
	r.batch.free()
	r.mover.free()
	for _, t := range []*tensor.Tensor{r.grad, r.hvp, r.v, r.sum, r.gx, r.spare, r.ones, r.figures} {
		t.Free(r.dev)
	}
}

// doStep is one step of (4) to (6). All that is computed reads the state of
// step t; only then does it move.
func (r *refiner) doStep() error {
	outer := r.step%r.cfg.Every == 0
	if outer {
		r.choose()
		r.mover.draw(r.step, movesOfCanaries, r.b)
		if err := r.pixelGradient(); err != nil {
			return err
		}
		if err := r.observe(); err != nil {
			return err
		}
	}
	if r.terms.theta != 0 {
		batch, err := r.batchGradient()
		if err != nil {
			return err
		}
		r.moveModel(batch)
	}
	if outer {
		r.movePixels()
	}
	r.step++
	return nil
}

// choose draws the canaries that move.
func (r *refiner) choose() {
	if r.chosen == nil {
		return
	}
	r.rows = rng.New(r.seed, rng.Select, uint64(r.step)).Perm(r.m)[:r.b]
	slices.Sort(r.rows)
	r.chosen.take(r.canaries, r.rows, 0)
}

// pixelGradient puts the gradient of Φ by the chosen canaries' pixels in gx, and
// the sum of their parameters' gradients in sum.
func (r *refiner) pixelGradient() error {
	if err := r.atStar(); err != nil {
		return err
	}
	return r.atTheta()
}

// begin readies the pass for new data.
func (r *refiner) begin(dir map[*models.Param]*tensor.Tensor, grad, hvp *tensor.Tensor) *models.Pass {
	r.pass.Reset()
	r.pass.Dir, r.pass.Grad, r.pass.HVP, r.pass.Mode = dir, grad, hvp, models.Plain
	return r.pass
}

// atStar puts what belongs to θ* in gx: of the loss and of the regulariser in one
// pass.
func (r *refiner) atStar() error {
	p := r.begin(nil, nil, nil)
	e, err := p.LossAndEmbedding(r.star, tensor.Const(r.x), r.labels, p.Fill(r.terms.star, r.b))
	if err != nil {
		return err
	}
	var reg, dphi models.Value
	if r.cfg.Lambda > 0 {
		reg, dphi = interference(p.Ctx, e.Embedding, r.pairLambda())
	}
	back, _ := tensor.Parts(e.Back(dphi, true))
	if err := p.Err(); err != nil {
		return err
	}
	r.dev.Copy(r.gx.Mem(), back.Mem())
	r.figure(figureLossStar, e.Losses)
	r.figure(figureR, reg)
	return nil
}

// pairLambda makes up for the pairs that a part of the canaries does not show: a
// canary of it meets b-1 of the m-1 others.
func (r *refiner) pairLambda() float64 {
	return r.cfg.Lambda * float64(max(r.m-1, 1)) / float64(max(r.b-1, 1))
}

// atTheta adds what belongs to θ to gx, and makes sum.
func (r *refiner) atTheta() error {
	// Where the training sees a canary as it is, one pass gives all there is.
	asItIs := r.mover == nil && r.cfg.ClipNorm == 0
	var dir map[*models.Param]*tensor.Tensor
	if asItIs {
		dir = r.dir
	}
	p := r.begin(dir, r.sum, nil)
	losses, back := p.Loss(r.theta, tensor.Const(r.x), r.labels, models.Value{})
	var direct, mixed *tensor.Tensor
	if r.terms.theta != 0 {
		direct, mixed = tensor.Parts(back(true))
	}
	if err := p.Err(); err != nil {
		return err
	}
	r.figure(figureLoss, losses)
	r.addToPixels(r.terms.theta, direct)
	if r.terms.mixed == 0 {
		return nil
	}
	if !asItIs {
		var err error
		if mixed, err = r.product(r.mover.apply(r.x), r.labels, nil, nil, true); err != nil {
			return err
		}
		if err = p.Err(); err != nil {
			return err
		}
		mixed = r.mover.back(mixed)
	}
	r.addToPixels(r.terms.mixed, mixed)
	return nil
}

func (r *refiner) addToPixels(factor float64, g *tensor.Tensor) {
	if factor != 0 {
		r.dev.Add(r.gx.Mem(), r.gx.Mem(), g.Mem(), 1, factor)
	}
}

// product runs θ's training problem on examples x as the training sees them. It
// puts the sum of their gradients, clipped if they are to be, in grad, and the
// product with v of that sum's transposed derivative by θ in hvp; nil is not
// made. With needX it returns the product by x. Without v there are no products.
func (r *refiner) product(x, labels, grad, hvp *tensor.Tensor, needX bool) (mixed *tensor.Tensor, err error) {
	var dx models.Value
	if r.cfg.ClipNorm == 0 {
		p := r.begin(r.dir, grad, hvp)
		_, back := p.Loss(r.theta, tensor.Const(x), labels, models.Value{})
		dx = back(needX)
	} else {
		p := r.begin(nil, grad, hvp)
		p.Mode = models.Record
		_, k, err := p.Clipped(r.theta, tensor.Const(x), labels, r.cfg.ClipNorm)
		if err != nil || r.dir == nil {
			return nil, err
		}
		if dx, err = p.ClippedProduct(r.theta, tensor.Const(x), labels, k, r.dir, needX); err != nil {
			return nil, err
		}
	}
	_, mixed = tensor.Parts(dx)
	return mixed, nil
}

// batchGradient puts the batch's sums in grad and hvp, and returns its size.
func (r *refiner) batchGradient() (int, error) {
	rest, canaries := r.shuffle.at(r.step)
	b := len(rest) + len(canaries)
	r.batch.take(r.rest, rest, 0)
	r.batch.take(r.canaries, canaries, len(rest))
	r.mover.draw(r.step, movesOfBatch, b)
	_, err := r.product(r.mover.apply(r.batch.x.Slice(0, b)), r.batch.labels.Slice(0, b), r.grad, r.hvp, false)
	return b, err
}

// moveModel is (4) and (5), after a batch of b examples.
func (r *refiner) moveModel(b int) {
	eta := r.cfg.Eta
	if r.v != nil {
		v := r.v.Mem()
		r.dev.Add(v, v, r.hvp.Mem(), 1, -eta/float64(b))
		r.dev.Add(v, v, r.sum.Mem(), 1, eta*float64(r.m)/float64(r.b))
	}
	theta := r.theta.Theta.Mem()
	r.dev.Add(theta, theta, r.grad.Mem(), 1, -eta/float64(b))
	r.theta.Moved()
}

// movePixels is (6).
func (r *refiner) movePixels() {
	x := r.x.Mem()
	r.dev.Add(x, x, r.gx.Mem(), 1, -r.cfg.Rho)
	if r.cfg.ClipPixels {
		r.clipPixels(x)
	}
	each := r.x.Len() / r.b
	for i, row := range r.rows { // nil if x are all canaries
		r.dev.Copy(r.canaries.X.Mem().Slice(row*each, each), x.Slice(i*each, each))
	}
}

// clipPixels is max(0, min(1, x)), exactly. gx, which has done its duty, and
// spare are overwritten.
func (r *refiner) clipPixels(x kernels.Mem) {
	y, below, ones := r.spare.Mem(), r.gx.Mem(), r.ones.Mem()
	r.dev.Keep(y, x, x)
	r.dev.Add(x, ones, y, 1, -1) // positive where y < 1
	r.dev.Keep(below, y, x)      // y there, else 0
	r.dev.Keep(y, ones, x)       // 1 there, else 0
	r.dev.Add(y, ones, y, 1, -1)
	r.dev.Add(x, below, y, 1, 1)
}
