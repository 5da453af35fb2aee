package ibis

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

func partOf(v models.Value) *tensor.Tensor {
	x, _ := tensor.Parts(v)
	return x
}

func mustFloats(t *testing.T, dev kernels.Device, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Floats(dev)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// numbers is a train.Source of given numbers.
type numbers struct {
	shape   []int
	classes int
	x       []float64
	y       []int
}

func (s *numbers) Len() int     { return len(s.y) }
func (s *numbers) Shape() []int { return s.shape }
func (s *numbers) Classes() int { return s.classes }

func (s *numbers) Example(i int, x []float32) int {
	for j := range x {
		x[j] = float32(s.x[i*len(x)+j])
	}
	return s.y[i]
}

// randomNumbers are n examples, exact in float32: images in [0, 1] or not.
func randomNumbers(r *rand.Rand, n, classes int, image bool, shape ...int) *numbers {
	each := 1
	for _, d := range shape {
		each *= d
	}
	s := &numbers{shape: shape, classes: classes, x: make([]float64, n*each)}
	for i := range s.x {
		s.x[i] = float64(float32(r.NormFloat64()))
		if image {
			s.x[i] = float64(r.Float32())
		}
	}
	for range n {
		s.y = append(s.y, r.IntN(classes))
	}
	return s
}

func mustUpload(t *testing.T, dev kernels.Device, s train.Source) *train.Data {
	t.Helper()
	d, err := train.Upload(dev, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// toy is the inner problem of Proposition 4.2, small enough to be solved to the
// last digit: G(θ) = (1/n) Σ clip(∇ℓ(θ, T_z x_z)) + μ θ = 0 over D ∪ C, for a
// tanh net 5-4-3 in float64. Without clipping G is the gradient of the mean loss
// with an L2 term.
type toy struct {
	t              *testing.T
	dev            kernels.Device
	rest, canaries *numbers
	m              *models.Model
	clip           float64 // 0: none
	moves          []int32 // of all n examples, 3 for each; nil: none
	near           *mat.LU // of (∂G/∂θ)ᵀ near the solution, in place of that at each step

	pass    *models.Pass
	x, y    *tensor.Tensor // of all n examples, as training sees them
	moved   *tensor.Tensor
	move    *tensor.Tensor
	dir     *tensor.Tensor
	split   map[*models.Param]*tensor.Tensor
	grad    *tensor.Tensor
	product *tensor.Tensor
}

const toyL2 = 0.05

func newToy(t *testing.T, dev kernels.Device) *toy {
	r := rand.New(rand.NewPCG(11, 5))
	q := &toy{
		t: t, dev: dev, m: toyModel(t, dev), pass: models.NewPass(dev),
		rest: randomNumbers(r, 30, 3, false, 1, 5, 1), canaries: randomNumbers(r, 4, 3, false, 1, 5, 1),
	}
	alloc := func(shape ...int) *tensor.Tensor {
		x, err := tensor.Alloc(dev, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	n := q.n()
	q.x, q.moved, q.dir, q.grad, q.product = alloc(n, 1, 5, 1), alloc(n, 1, 5, 1), alloc(q.m.Len()), alloc(q.m.Len()), alloc(q.m.Len())
	q.split = q.m.Split(q.dir)
	var err error
	if q.move, err = tensor.AllocInts(dev, n, 3); err != nil {
		t.Fatal(err)
	}
	var labels []int32
	for _, y := range slices.Concat(q.rest.y, q.canaries.y) {
		labels = append(labels, int32(y))
	}
	if q.y, err = tensor.FromInts(dev, labels, n); err != nil {
		t.Fatal(err)
	}
	return q
}

func toyModel(t *testing.T, dev kernels.Device) *models.Model {
	t.Helper()
	m, err := models.New(dev, models.Sequential{models.Flatten{}, models.NewLinear("a", 5, 4), models.Tanh{}, models.NewLinear("b", 4, 3)})
	if err == nil {
		err = m.Init(3, models.He)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (q *toy) n() int { return q.rest.Len() + q.canaries.Len() }

// set puts parameters and the canaries' pixels in place, and returns the first b
// examples as training sees them: n, or those of D.
func (q *toy) set(theta, canaries []float64, b int) (models.Value, *tensor.Tensor) {
	q.dev.UploadF64(q.m.Theta.Mem(), theta)
	q.m.Moved()
	q.dev.UploadF64(q.x.Mem(), slices.Concat(q.rest.x, canaries))
	x := q.x
	if q.moves != nil {
		q.dev.UploadInts(q.move.Mem(), q.moves)
		q.dev.CropFlip(q.moved.Mem(), q.x.Mem(), q.move.Mem(), imageOf(q.x))
		x = q.moved
	}
	q.pass.Reset()
	q.pass.Mode, q.pass.Dir, q.pass.HVP, q.pass.Grad = models.Plain, nil, nil, q.grad
	return tensor.Const(x.Slice(0, b)), q.y.Slice(0, b)
}

// field is G(θ).
func (q *toy) field(theta, canaries []float64, b int) []float64 {
	x, y := q.set(theta, canaries, b)
	if q.clip > 0 {
		if _, _, err := q.pass.Clipped(q.m, x, y, q.clip); err != nil {
			q.t.Fatal(err)
		}
	} else {
		_, back := q.pass.Loss(q.m, x, y, models.Value{})
		back(false)
	}
	g := mustFloats(q.t, q.dev, q.grad)
	for i := range g {
		g[i] = g[i]/float64(b) + toyL2*theta[i]
	}
	return g
}

// transposed is the matrix (∂G/∂θ)ᵀ.
func (q *toy) transposed(theta, canaries []float64, b int) *mat.Dense {
	n := len(theta)
	j := mat.NewDense(n, n, nil)
	unit := make([]float64, n)
	for i := range n {
		x, y := q.set(theta, canaries, b)
		unit[i] = 1
		q.dev.UploadF64(q.dir.Mem(), unit)
		unit[i] = 0
		q.pass.HVP = q.product
		if q.clip > 0 {
			_, k, err := q.pass.Clipped(q.m, x, y, q.clip)
			if err == nil {
				_, err = q.pass.ClippedProduct(q.m, x, y, k, q.split, false)
			}
			if err != nil {
				q.t.Fatal(err)
			}
		} else {
			q.pass.Dir = q.split
			_, back := q.pass.Loss(q.m, x, y, models.Value{})
			back(false)
		}
		col := mustFloats(q.t, q.dev, q.product)
		for r, c := range col {
			c /= float64(b)
			if r == i {
				c += toyL2
			}
			j.Set(r, i, c)
		}
	}
	return j
}

// solve is θ with G(θ) = 0, to the last digits, from a start.
func (q *toy) solve(start, canaries []float64, b int) []float64 {
	q.t.Helper()
	theta := slices.Clone(start)
	for range 20000 { // towards the minimum, until Newton takes over
		g := q.field(theta, canaries, b)
		if mat.Norm(mat.NewVecDense(len(g), g), 2) < 1e-6 {
			break
		}
		for i := range theta {
			theta[i] -= g[i]
		}
	}
	for range 30 {
		g := q.field(theta, canaries, b)
		if math.Sqrt(gradcheck.Dot(g, g)) < 3e-16*float64(len(g)) {
			return theta
		}
		lu := q.near
		if lu == nil {
			lu = new(mat.LU)
			lu.Factorize(q.transposed(theta, canaries, b))
		}
		var step mat.VecDense
		if err := lu.SolveVecTo(&step, true, mat.NewVecDense(len(g), g)); err != nil {
			q.t.Fatal(err)
		}
		for i := range theta {
			theta[i] -= step.AtVec(i)
		}
	}
	if g := q.field(theta, canaries, b); !(math.Sqrt(gradcheck.Dot(g, g)) < 1e-13) {
		q.t.Fatalf("the inner problem is not solved: |G| = %v", math.Sqrt(gradcheck.Dot(g, g)))
	}
	return theta
}

// atCanaries is the losses of the canaries as they are, the sum of their
// gradients, and their embeddings.
func (q *toy) atCanaries(theta, canaries []float64) (losses, sum, phi []float64) {
	q.set(theta, canaries, q.n())
	x := tensor.Const(q.x.Slice(q.rest.Len(), q.n()))
	e, err := q.pass.LossAndEmbedding(q.m, x, q.y.Slice(q.rest.Len(), q.n()), models.Value{})
	if err != nil {
		q.t.Fatal(err)
	}
	e.Back(models.Value{}, false)
	return mustFloats(q.t, q.dev, partOf(e.Losses)), mustFloats(q.t, q.dev, q.grad), mustFloats(q.t, q.dev, partOf(e.Embedding))
}

// phi is Φ: Σ_C ℓ(θ_C, z) - ℓ(θ*, z), plus R at θ*, with θ_C solved for.
func (q *toy) phi(star, start, canaries []float64, lambda float64) float64 {
	at, _, _ := q.atCanaries(q.solve(start, canaries, q.n()), canaries)
	atStar, _, embeddings := q.atCanaries(star, canaries)
	sum := pairwise(embeddings, q.canaries.Len(), lambda)
	for i := range at {
		sum += at[i] - atStar[i]
	}
	return sum
}

// norms are the norms of the n gradients, before clipping.
func (q *toy) norms(theta, canaries []float64) []float64 {
	x, y := q.set(theta, canaries, q.n())
	_, k, err := q.pass.Clipped(q.m, x, y, 1)
	if err != nil {
		q.t.Fatal(err)
	}
	norms := mustFloats(q.t, q.dev, k.SqNorm)
	for i, s := range norms {
		norms[i] = math.Sqrt(s)
	}
	return norms
}
