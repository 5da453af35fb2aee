package gorgonia

import (
	"testing"

	G "gorgonia.org/gorgonia"
)

// TestSecondDerivativesAreWrong says why Gorgonia is a first-order oracle only.
// It takes the gradient of a gradient without an error, but a node that has been
// differentiated once keeps its old derivative: for x³ at 2 the first derivative
// is 12, as it should be, and the second, also 12, comes out as something else.
// If this test fails, Gorgonia has been mended, and may serve for Hessians too.
func TestSecondDerivativesAreWrong(t *testing.T) {
	g := G.NewGraph()
	x := G.NewScalar(g, G.Float64, G.WithName("x"), G.WithValue(2.0))
	cube := G.Must(G.Mul(G.Must(G.Mul(x, x)), x))
	first, err := G.Grad(cube, x)
	if err != nil {
		t.Fatal(err)
	}
	second, err := G.Grad(first[0], x)
	if err != nil {
		t.Fatal(err)
	}
	var d1, d2 G.Value
	G.Read(first[0], &d1)
	G.Read(second[0], &d2)
	vm := G.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	const exact = 12.0 // of both: 3x² and 6x at 2; small integers, no rounding
	if got := d1.Data().(float64); got != exact {
		t.Errorf("d(x³)/dx at 2 is %v, expected %v", got, exact)
	}
	if got := d2.Data().(float64); got == exact {
		t.Errorf("d²(x³)/dx² at 2 is %v, which is right: see this test's comment", got)
	}
}
