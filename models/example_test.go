package models_test

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// One pass gives the gradient, a Hessian-vector product and the mixed
// derivative d/dx (gradient · v).
func Example() {
	dev := kernels.Reference()
	defer dev.Close()
	m, err := models.New(dev, models.MLP(2, 3, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := m.Init(1, models.He); err != nil {
		fmt.Println(err)
		return
	}
	x, _ := tensor.FromFloats(dev, []float64{1, -2, 0.5, 1}, 2, 2)
	labels, _ := tensor.FromInts(dev, []int32{0, 1}, 2)
	v, _ := tensor.FromFloats(dev, make([]float64, m.Len()), m.Len())
	dev.Fill(v.Mem(), 1)

	p := models.NewPass(dev)
	p.Dir = m.Split(v)
	p.Grad, _ = tensor.Alloc(dev, m.Len())
	p.HVP, _ = tensor.Alloc(dev, m.Len())
	losses, back := p.Loss(m, tensor.Const(x), labels, models.Value{})
	dx := back(true)
	if err := p.Err(); err != nil {
		fmt.Println(err)
		return
	}

	loss, alongV := tensor.Parts(losses)
	input, mixed := tensor.Parts(dx)
	fmt.Println("losses", loss.Shape(), "and their derivative along v", alongV.Shape())
	fmt.Println("gradient", p.Grad.Shape(), "and Hv", p.HVP.Shape())
	fmt.Println("input gradient", input.Shape(), "and mixed derivative", mixed.Shape())
	// Output:
	// losses [2] and their derivative along v [2]
	// gradient [17] and Hv [17]
	// input gradient [2 2] and mixed derivative [2 2]
}
