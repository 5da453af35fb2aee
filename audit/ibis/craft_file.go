package ibis

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/npz"
)

// traceFields are the columns of the array trace.
const traceFields = 6

// craftedArrays are a crafted set as a file of canaries, which any command that
// takes canaries reads, with more arrays. Matrices are float32: they are looked
// at, not computed with.
func craftedArrays(c *Crafted) ([]npz.Named, error) {
	m := c.Canaries.Len()
	arrays, err := scoreio.CanaryArrays(c.Canaries)
	if err != nil {
		return nil, err
	}
	if c.Chosen != nil {
		arrays = append(arrays,
			npz.Named{Name: "self_influence", Array: npz.Array{Shape: []int{m}, Data: c.Chosen.Self}},
			npz.Named{Name: "influence", Array: matrix(c.Chosen.Influence, m)})
	}
	if c.Trace != nil {
		points := make([]float64, 0, traceFields*len(c.Trace.Points))
		for _, p := range c.Trace.Points {
			points = append(points, float64(p.Step), p.Loss, p.LossStar, p.R, p.V, p.GX)
		}
		arrays = append(arrays,
			npz.Named{Name: "trace", Array: npz.Array{Shape: []int{len(c.Trace.Points), traceFields}, Data: points}},
			npz.Named{Name: "steps", Array: npz.Array{Data: []int64{int64(c.Trace.Steps)}}},
			npz.Named{Name: "cosine_before", Array: matrix(c.CosineBefore, m)},
			npz.Named{Name: "cosine_after", Array: matrix(c.CosineAfter, m)})
	}
	if c.InfluenceAfter != nil {
		arrays = append(arrays, npz.Named{Name: "influence_after", Array: matrix(c.InfluenceAfter, m)})
	}
	return arrays, nil
}

func matrix(v []float64, m int) npz.Array {
	data := make([]float32, len(v))
	for i, x := range v {
		data[i] = float32(x)
	}
	return npz.Array{Shape: []int{m, m}, Data: data}
}

// take fills in what craftedArrays wrote beside the canaries.
func (c *Crafted) take(arrays map[string]npz.Array) error {
	m := c.Canaries.Len()
	floats := func(name string, want int) ([]float64, error) {
		a := arrays[name]
		v, ok := a.Data.([]float64)
		if narrow, is := a.Data.([]float32); is {
			ok, v = true, make([]float64, len(narrow))
			for i, x := range narrow {
				v[i] = float64(x)
			}
		}
		if !ok || want >= 0 && len(v) != want || want < 0 && len(v)%traceFields != 0 {
			return nil, fmt.Errorf("array %q has %d numbers of type %s, expected %d", name, len(v), a.DType(), max(want, traceFields))
		}
		return v, nil
	}
	var err error
	if _, ok := arrays["self_influence"]; ok {
		c.Chosen = &Chosen{Indices: c.Canaries.Removed}
		if c.Chosen.Self, err = floats("self_influence", m); err != nil {
			return err
		}
		if c.Chosen.Influence, err = floats("influence", m*m); err != nil {
			return err
		}
	}
	if _, ok := arrays["influence_after"]; ok {
		if c.InfluenceAfter, err = floats("influence_after", m*m); err != nil {
			return err
		}
	}
	if _, ok := arrays["trace"]; !ok {
		return nil
	}
	points, err := floats("trace", -1)
	if err != nil {
		return err
	}
	steps, err := npz.Of[int64](arrays["steps"])
	if err != nil || len(steps) != 1 {
		return fmt.Errorf("array %q has %d numbers, expected 1 of type int64", "steps", len(steps))
	}
	c.Trace = &Trace{Steps: int(steps[0])}
	for p := points; len(p) > 0; p = p[traceFields:] {
		c.Trace.Points = append(c.Trace.Points, TracePoint{Step: int(p[0]), Loss: p[1], LossStar: p[2], R: p[3], V: p[4], GX: p[5]})
	}
	if c.CosineBefore, err = floats("cosine_before", m*m); err != nil {
		return err
	}
	c.CosineAfter, err = floats("cosine_after", m*m)
	return err
}
