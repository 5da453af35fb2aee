package train

import (
	"fmt"
	"io"
	"slices"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// SaveModel writes a model's parameters to an .npz file, one array for each
// parameter, under its name. The same parameters give the same bytes.
func SaveModel(path string, m *models.Model) error {
	parts := m.Split(m.Theta)
	arrays := make([]npz.Named, len(m.Params))
	for i, q := range m.Params {
		a, err := download(m.Device(), parts[q], q.Shape)
		if err != nil {
			return fmt.Errorf("train: model %s: %w", path, err)
		}
		arrays[i] = npz.Named{Name: q.Name, Array: a}
	}
	return writeArrays(path, arrays, atomicfile.Options{})
}

// LoadModel reads parameters that SaveModel wrote. The file must hold every
// parameter of m, in its shape; the error names the one that is missing or
// different.
func LoadModel(path string, m *models.Model) error {
	arrays, err := npz.ReadFile(path)
	if err != nil {
		return err
	}
	parts := m.Split(m.Theta)
	for _, q := range m.Params { // all is checked before anything changes
		a, ok := arrays[q.Name]
		switch {
		case !ok:
			return fmt.Errorf("%s: no array %q, which the model needs", path, q.Name)
		case !slices.Equal(a.Shape, q.Shape):
			return fmt.Errorf("%s: array %q has shape %v, expected %v", path, q.Name, a.Shape, q.Shape)
		case a.DType() != "float32" && a.DType() != "float64":
			return fmt.Errorf("%s: array %q holds %s, expected float32 or float64", path, q.Name, a.DType())
		}
	}
	for _, q := range m.Params {
		upload(m.Device(), parts[q].Mem(), arrays[q.Name])
	}
	m.Moved()
	return nil
}

func writeArrays(path string, arrays []npz.Named, o atomicfile.Options) error {
	return o.Write(path, 0o666, func(w io.Writer) error { return npz.Write(w, arrays...) })
}

// download is t's numbers in the device's own precision.
func download(dev kernels.Device, t *tensor.Tensor, shape []int) (npz.Array, error) {
	if dev.ElemBits() == 64 {
		data := make([]float64, t.Len())
		return npz.Array{Shape: shape, Data: data}, dev.DownloadF64(data, t.Mem())
	}
	data := make([]float32, t.Len())
	return npz.Array{Shape: shape, Data: data}, dev.DownloadF32(data, t.Mem())
}

// upload is the inverse of download; a holds floats.
func upload(dev kernels.Device, dst kernels.Mem, a npz.Array) {
	switch data := a.Data.(type) {
	case []float64:
		dev.UploadF64(dst, data)
	case []float32:
		dev.UploadF32(dst, data)
	}
}
