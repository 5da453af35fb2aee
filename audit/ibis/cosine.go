package ibis

import (
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// cosines is ⟨φᵢ, φⱼ⟩/(|φᵢ| |φⱼ|) between the embeddings of d's examples at m,
// [n, n] row by row; 0 with an embedding that is 0.
func cosines(m *models.Model, d *train.Data) ([]float64, error) {
	labels, err := tensor.FromInts(m.Device(), d.Y, d.Len())
	if err != nil {
		return nil, err
	}
	defer labels.Free(m.Device())
	p := models.NewPass(m.Device())
	defer p.Free()
	e, err := p.LossAndEmbedding(m, tensor.Const(d.X), labels, models.Value{})
	if err != nil {
		return nil, err
	}
	u := p.ScaleBy(e.Embedding, inverseNorms(p.Ctx, e.Embedding), tensor.PerExample(e.Embedding.Shape()))
	g, _ := tensor.Parts(p.MatMul(u, u, false, true))
	if err := p.Err(); err != nil {
		return nil, err
	}
	return g.Floats(m.Device())
}
