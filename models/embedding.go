package models

import "fmt"

// Embedded is what LossAndEmbedding gives.
type Embedded struct {
	Losses    Value // [B], as of Loss
	Embedding Value // φ [B, D]: what the last layer with parameters sees
	// Back is the backward pass of Σ w[z] loss[z] + f(φ), given the gradient of f
	// by φ, [B, D]; the zero Value stands for f = 0. See Loss.
	Back func(dphi Value, needX bool) Value
}

// LossAndEmbedding is Loss for functions of the losses and of the embedding, in
// one forward and one backward pass. The net must be a Sequential.
func (p *Pass) LossAndEmbedding(m *Model, x Value, labels *Tensor, w Value) (Embedded, error) {
	body, head, err := split(m.Net)
	if err != nil {
		return Embedded{}, err
	}
	p.begin(m, x)
	phi, backBody := body.Forward(p, x)
	if len(phi.Shape()) != 2 {
		return Embedded{}, fmt.Errorf("models: the embedding has shape %v, expected one vector for each example", phi.Shape())
	}
	z, backHead := head.Forward(p, phi)
	prob := p.Softmax(z)
	return Embedded{
		Losses:    p.CrossEntropy(z, prob, labels),
		Embedding: phi,
		Back: func(dphi Value, needX bool) Value {
			below := needX || len(body.Params()) > 0
			d := backHead(p.Weighted(p.SubOneHot(prob, labels), w), below)
			if below && !dphi.IsNone() {
				d = p.AddScaled(d, 1, dphi)
			}
			dx := backBody(d, needX)
			if !p.KeepTaps {
				p.zeroUntouched(m)
			}
			return dx
		},
	}, nil
}

// split cuts a net in two before its last layer with parameters.
func split(net Layer) (body, head Sequential, err error) {
	s, ok := net.(Sequential)
	if !ok {
		return nil, nil, fmt.Errorf("models: a %T has no last layer to take the embedding before, expected a Sequential", net)
	}
	for i := len(s) - 1; i >= 0; i-- {
		if len(s[i].Params()) > 0 {
			return s[:i], s[i:], nil
		}
	}
	return nil, nil, fmt.Errorf("models: the net has no layer with parameters")
}
