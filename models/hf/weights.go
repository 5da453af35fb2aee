package hf

import (
	"fmt"
	"strings"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
)

// Load puts the folder's model on a device.
func (f *Folder) Load(dev kernels.Device) (*models.Encoder, error) {
	tensors, err := OpenTensors(f.Dir)
	if err != nil {
		return nil, err
	}
	defer tensors.Close()
	family := families[f.ModelType]
	prefix := ""
	if tensors.Has(family.prefix + "embeddings.word_embeddings.weight") {
		prefix = family.prefix
	}
	return models.NewEncoder(dev, f.Config, func(name string, shape ...int) ([]float32, error) {
		theirs := prefix + family.tensor(name)
		if old := legacy(theirs); !tensors.Has(theirs) && tensors.Has(old) {
			theirs = old
		}
		return tensors.Read(theirs, shape...)
	})
}

// WeightsSum tells weights apart: see Tensors.Sum.
func (f *Folder) WeightsSum() (string, error) {
	tensors, err := OpenTensors(f.Dir)
	if err != nil {
		return "", err
	}
	defer tensors.Close()
	return tensors.Sum()
}

// tensor is the name of a parameter in files of this family, without prefix.
func (n names) tensor(name string) string {
	var layer int
	var rest string
	if _, err := fmt.Sscanf(name, "layer.%d.%s", &layer, &rest); err == nil {
		part, kind, _ := strings.Cut(rest, ".")
		module, ok := n.layer[part]
		switch {
		case ok:
		case part == "inner":
			module = "intermediate.dense"
		case kind == "gain" || kind == "shift": // of outer
			module = "output.LayerNorm"
		default:
			module = "output.dense"
		}
		return fmt.Sprintf("encoder.layer.%d.%s.%s", layer, module, weightOrBias(kind))
	}
	switch name {
	case "words":
		return "embeddings.word_embeddings.weight"
	case "positions":
		return "embeddings.position_embeddings.weight"
	case "types":
		return "embeddings.token_type_embeddings.weight"
	case "relative":
		return n.relative
	}
	return "embeddings.LayerNorm." + weightOrBias(strings.TrimPrefix(name, "norm."))
}

func weightOrBias(kind string) string {
	switch kind {
	case "gain":
		return "weight"
	case "shift":
		return "bias"
	}
	return kind
}

// legacy is what files converted from TensorFlow call the parameters of a norm.
func legacy(name string) string {
	if base, ok := strings.CutSuffix(name, "LayerNorm.weight"); ok {
		return base + "LayerNorm.gamma"
	}
	if base, ok := strings.CutSuffix(name, "LayerNorm.bias"); ok {
		return base + "LayerNorm.beta"
	}
	return name
}
