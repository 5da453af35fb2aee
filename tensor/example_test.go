package tensor_test

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
)

// A Value carries a derivative through every operation: here that of x x.
func Example() {
	dev := kernels.Reference()
	defer dev.Close()
	x, _ := tensor.FromFloats(dev, []float64{1, 2, 3}, 3)
	dx, _ := tensor.FromFloats(dev, []float64{1, 1, -1}, 3)
	c := tensor.NewCtx(dev)
	v := tensor.Dual(x, dx)
	y, dy := tensor.Parts(c.Mul(v, v))
	numbers, _ := y.Floats(dev)
	slope, err := dy.Floats(dev)
	fmt.Println(numbers, slope, err)
	// Output: [1 4 9] [2 4 -6] <nil>
}
