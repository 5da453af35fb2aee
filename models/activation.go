package models

// ReLU is max(x, 0); its derivative at 0 is 0. Linear has it built in.
type ReLU struct{}

// Params implements Layer.
func (ReLU) Params() []*Param { return nil }

// Forward implements Layer.
func (l ReLU) Forward(p *Pass, x Value) (Value, Back) {
	p.observe(l, x)
	return p.Keep(x, x), func(dy Value, needX bool) Value {
		return p.Optional(needX, func() Value { return p.Keep(dy, x) })
	}
}

// Tanh is the hyperbolic tangent.
type Tanh struct{}

// Params implements Layer.
func (Tanh) Params() []*Param { return nil }

// Forward implements Layer.
func (Tanh) Forward(p *Pass, x Value) (Value, Back) {
	y := p.Tanh(x)
	return y, func(dy Value, needX bool) Value {
		return p.Optional(needX, func() Value { // dy (1 - y²); y moves, too
			return p.AddScaled(dy, -1, p.Mul(dy, p.Mul(y, y)))
		})
	}
}

// Flatten turns [B, ...] into [B, n].
type Flatten struct{}

// Params implements Layer.
func (Flatten) Params() []*Param { return nil }

// Forward implements Layer.
func (Flatten) Forward(_ *Pass, x Value) (Value, Back) {
	shape, n := x.Shape(), 1
	for _, d := range shape[1:] {
		n *= d
	}
	return x.View(shape[0], n), func(dy Value, needX bool) Value {
		if !needX {
			return Value{}
		}
		return dy.View(shape...)
	}
}
