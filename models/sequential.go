package models

import (
	"fmt"
	"strconv"
	"strings"
)

// Sequential runs layers one after another.
type Sequential []Layer

// Params implements Layer.
func (s Sequential) Params() (all []*Param) {
	for _, l := range s {
		all = append(all, l.Params()...)
	}
	return all
}

// Forward implements Layer.
func (s Sequential) Forward(p *Pass, x Value) (Value, Back) {
	backs := make([]Back, len(s))
	first := len(s) // the first layer with parameters
	for i, l := range s {
		if first == len(s) && len(l.Params()) > 0 {
			first = i
		}
		x, backs[i] = l.Forward(p, x)
	}
	return x, func(dy Value, needX bool) Value {
		for i := len(s) - 1; i >= first; i-- {
			dy = backs[i](dy, needX || i > first)
		}
		if first == 0 {
			return dy
		}
		return p.Optional(needX, func() Value { // no parameters below
			for i := first - 1; i >= 0; i-- {
				dy = backs[i](dy, true)
			}
			return dy
		})
	}
}

// MLP is Flatten, Linear with ReLU, ..., Linear without: at least two sizes,
// the number of inputs first and of classes last. Parameters are called
// fc1.w, fc1.b, fc2.w, ...
func MLP(sizes ...int) Sequential {
	if len(sizes) < 2 {
		panic(fmt.Sprintf("models: MLP: sizes %v, at least two are due", sizes))
	}
	s := Sequential{Flatten{}}
	for i := 1; i < len(sizes); i++ {
		l := NewLinear("fc"+strconv.Itoa(i), sizes[i-1], sizes[i])
		l.ReLU = i < len(sizes)-1
		s = append(s, l)
	}
	return s
}

// Arch names an architecture, as in "mlp:784-256-10".
type Arch struct {
	Kind  string // "mlp"
	Sizes []int
}

// ParseArch reads the name of an architecture.
func ParseArch(name string) (Arch, error) {
	kind, list, _ := strings.Cut(name, ":")
	if kind != "mlp" {
		return Arch{}, fmt.Errorf("arch %q: unknown kind %q, expected mlp, as in mlp:784-256-10", name, kind)
	}
	a := Arch{Kind: kind}
	for _, word := range strings.Split(list, "-") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 1<<20 {
			return Arch{}, fmt.Errorf("arch %q: size %q is not a number between 1 and %d", name, word, 1<<20)
		}
		a.Sizes = append(a.Sizes, n)
	}
	if len(a.Sizes) < 2 {
		return Arch{}, fmt.Errorf("arch %q: at least two sizes are needed, inputs and classes", name)
	}
	return a, nil
}

// String is the name that ParseArch reads.
func (a Arch) String() string {
	words := make([]string, len(a.Sizes))
	for i, n := range a.Sizes {
		words[i] = strconv.Itoa(n)
	}
	return a.Kind + ":" + strings.Join(words, "-")
}

// Net is a new net of the architecture.
func (a Arch) Net() Layer { return MLP(a.Sizes...) }

// Check returns an error unless the architecture takes examples of a shape and
// tells that many classes apart.
func (a Arch) Check(shape []int, classes int) error {
	n := 1
	for _, d := range shape {
		n *= d
	}
	if in := a.Sizes[0]; in != n {
		return fmt.Errorf("arch %s takes %d inputs, but the examples have %d (%v)", a, in, n, shape)
	}
	if out := a.Sizes[len(a.Sizes)-1]; out != classes {
		return fmt.Errorf("arch %s has %d outputs, but the data have %d classes", a, out, classes)
	}
	return nil
}
