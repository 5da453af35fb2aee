package train

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// evalBlock is how many examples an evaluation holds at once. Rows do not see
// each other, so it changes no bit.
const evalBlock = 1024

// Losses64 is the cross-entropy of each example in float64, free of ties (see
// kernels.Ops.Loss64).
func Losses64(ctx context.Context, m *models.Model, d *Data) ([]float64, error) {
	dev := m.Device()
	rows := min(evalBlock, d.Len())
	out, err := dev.Alloc(kernels.Float64, rows)
	if err != nil {
		return nil, fmt.Errorf("train: losses: %w", err)
	}
	defer dev.Free(out)
	losses := make([]float64, d.Len())
	err = evaluate(ctx, m, d, func(from, to int, z, labels kernels.Mem) error {
		part := out.Slice(0, to-from)
		dev.Loss64(part, z, labels, to-from, z.N/(to-from))
		return dev.DownloadF64(losses[from:to], part)
	})
	return losses, err
}

// Accuracy is the fraction of examples whose label has the largest logit.
func Accuracy(ctx context.Context, m *models.Model, d *Data) (float64, error) {
	dev := m.Device()
	rows := min(evalBlock, d.Len())
	out, err := tensor.AllocInts(dev, rows)
	if err != nil {
		return 0, fmt.Errorf("train: accuracy: %w", err)
	}
	defer out.Free(dev)
	guess, right := make([]int32, rows), 0
	err = evaluate(ctx, m, d, func(from, to int, z, _ kernels.Mem) error {
		part := out.Slice(0, to-from).Mem()
		dev.Argmax(part, z, to-from, z.N/(to-from))
		if err := dev.DownloadInts(guess[:to-from], part); err != nil {
			return err
		}
		for i, g := range guess[:to-from] {
			if g == d.Y[from+i] {
				right++
			}
		}
		return nil
	})
	return float64(right) / float64(d.Len()), err
}

// evaluate calls f with the logits and labels of the examples [from, to), block
// by block.
func evaluate(ctx context.Context, m *models.Model, d *Data, f func(from, to int, z, labels kernels.Mem) error) error {
	dev := m.Device()
	labels, err := tensor.AllocInts(dev, min(evalBlock, d.Len()))
	if err != nil {
		return fmt.Errorf("train: evaluation: %w", err)
	}
	defer labels.Free(dev)
	p := models.NewPass(dev)
	p.Eval = true
	defer p.Free()
	for from := 0; from < d.Len(); from += evalBlock {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("train: evaluation: %w", err)
		}
		to := min(from+evalBlock, d.Len())
		y := labels.Slice(0, to-from).Mem()
		dev.UploadInts(y, d.Y[from:to])
		p.Reset()
		z, _ := tensor.Parts(p.Logits(m, tensor.Const(d.X.Slice(from, to))))
		if err := p.Err(); err != nil {
			return fmt.Errorf("train: evaluation: %w", err)
		}
		if err := f(from, to, z.Mem(), y); err != nil {
			return fmt.Errorf("train: evaluation: %w", err)
		}
	}
	return nil
}
