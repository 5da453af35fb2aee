package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aviary-audit/aviary/models"
)

// Folder describes a sentence encoder in a folder.
type Folder struct {
	Dir       string // of config.json and the weights
	ModelType string // "bert" or "mpnet"
	Config    models.EncoderConfig
	MaxTokens int // longer texts are cut
	Pooling   models.Pooling
	Normalize bool // to length 1
}

// names says how a type of model names its parameters.
type names struct {
	prefix   string            // of all of them, in some files
	layer    map[string]string // what follows encoder.layer.N.
	relative string
}

var families = map[string]names{
	"bert": {
		prefix: "bert.",
		layer: map[string]string{"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
			"output": "attention.output.dense", "attention": "attention.output.LayerNorm"},
	},
	"mpnet": {
		prefix: "mpnet.",
		layer: map[string]string{"query": "attention.attn.q", "key": "attention.attn.k", "value": "attention.attn.v",
			"output": "attention.attn.o", "attention": "attention.LayerNorm"},
		relative: "encoder.relative_attention_bias.weight",
	},
}

// ReadFolder reads what a folder says about its model. Without modules.json, as
// sentence-transformers has it, texts are pooled by their mean and not normalised, as
// that package does.
func ReadFolder(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, Pooling: models.PoolMean}
	if err := f.readModules(dir); err != nil {
		return nil, err
	}
	if err := f.readConfig(); err != nil {
		return nil, err
	}
	return f, f.readLimits(dir)
}

// readJSON decodes a file; found says whether it exists.
func readJSON(path string, into any) (found bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return true, fmt.Errorf("hf: %s: %w", path, err)
	}
	return true, nil
}

func (f *Folder) readModules(dir string) error {
	path := filepath.Join(dir, "modules.json")
	var modules []struct{ Type, Path string }
	found, err := readJSON(path, &modules)
	if err != nil || !found {
		return err
	}
	var kinds []string
	for _, m := range modules {
		kind := m.Type[strings.LastIndex(m.Type, ".")+1:]
		kinds = append(kinds, kind)
		if m.Path != "" && !filepath.IsLocal(m.Path) {
			return fmt.Errorf("hf: %s: path %q of %s, expected one below the folder", path, m.Path, kind)
		}
		switch kind {
		case "Transformer":
			f.Dir = filepath.Join(dir, m.Path)
		case "Pooling":
			if err := f.readPooling(filepath.Join(dir, m.Path, "config.json")); err != nil {
				return err
			}
		case "Normalize":
			f.Normalize = true
		default:
			return fmt.Errorf("hf: %s: module %s is not supported, expected Transformer, Pooling and perhaps Normalize", path, m.Type)
		}
	}
	if got := strings.Join(kinds, ", "); got != "Transformer, Pooling" && got != "Transformer, Pooling, Normalize" {
		return fmt.Errorf("hf: %s: modules %s, expected Transformer, Pooling and perhaps Normalize", path, got)
	}
	return nil
}

// readPooling reads both forms: a switch for each way, and since
// sentence-transformers 5.2 one name.
func (f *Folder) readPooling(path string) error {
	var fields map[string]json.RawMessage
	found, err := readJSON(path, &fields)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("hf: %s is missing, which modules.json asks for", path)
	}
	ways := map[string]models.Pooling{"mean": models.PoolMean, "mean_tokens": models.PoolMean, "cls": models.PoolFirst,
		"cls_token": models.PoolFirst, "max": models.PoolMax, "max_tokens": models.PoolMax}
	var chosen []string
	for key, raw := range fields {
		way, isMode := strings.CutPrefix(key, "pooling_mode_")
		var on bool
		if isMode && json.Unmarshal(raw, &on) == nil && on {
			chosen = append(chosen, way)
		}
	}
	if raw, ok := fields["pooling_mode"]; ok {
		var one string
		var several []string
		if json.Unmarshal(raw, &one) == nil {
			chosen = append(chosen, one)
		} else if json.Unmarshal(raw, &several) == nil {
			chosen = append(chosen, several...)
		}
	}
	if len(chosen) != 1 {
		return fmt.Errorf("hf: %s: poolings %v, expected exactly one", path, chosen)
	}
	way, ok := ways[chosen[0]]
	if !ok {
		return fmt.Errorf("hf: %s: pooling %s is not supported, expected mean, cls or max", path, chosen[0])
	}
	f.Pooling = way
	return nil
}

func (f *Folder) readConfig() error {
	path := filepath.Join(f.Dir, "config.json")
	var c struct {
		Type         string  `json:"model_type"`
		Vocabulary   int     `json:"vocab_size"`
		Width        int     `json:"hidden_size"`
		Layers       int     `json:"num_hidden_layers"`
		Heads        int     `json:"num_attention_heads"`
		Inner        int     `json:"intermediate_size"`
		Activation   string  `json:"hidden_act"`
		Positions    int     `json:"max_position_embeddings"`
		Types        int     `json:"type_vocab_size"`
		Stabilizer   float64 `json:"layer_norm_eps"`
		PositionType string  `json:"position_embedding_type"`
		Buckets      int     `json:"relative_attention_num_buckets"`
		Decoder      bool    `json:"is_decoder"`
	}
	c.Activation, c.PositionType, c.Stabilizer = "gelu", "absolute", 1e-12
	found, err := readJSON(path, &c)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("hf: %s is missing: not the folder of a model", path)
	}
	if _, ok := families[c.Type]; !ok {
		return fmt.Errorf("hf: %s: model_type %q is not supported, expected bert or mpnet", path, c.Type)
	}
	for _, bad := range []struct {
		is               bool
		name, got, wants string
	}{
		{c.Activation != "gelu", "hidden_act", c.Activation, "gelu"},
		{c.PositionType != "absolute", "position_embedding_type", c.PositionType, "absolute"},
		{c.Decoder, "is_decoder", "true", "false"},
	} {
		if bad.is {
			return fmt.Errorf("hf: %s: %s is %s, expected %s", path, bad.name, bad.got, bad.wants)
		}
	}
	f.ModelType = c.Type
	f.Config = models.EncoderConfig{Vocabulary: c.Vocabulary, Positions: c.Positions, Types: c.Types, Width: c.Width, Heads: c.Heads,
		Layers: c.Layers, Inner: c.Inner, Stabilizer: c.Stabilizer}
	if c.Type == "mpnet" {
		f.Config.Types, f.Config.Counted, f.Config.Padding = 0, true, 1
		f.Config.Buckets = c.Buckets
		if c.Buckets == 0 {
			f.Config.Buckets = 32
		}
	}
	if err := f.Config.Check(); err != nil {
		return fmt.Errorf("hf: %s: %w", path, err)
	}
	return nil
}

// readLimits reads how long texts may be, and refuses what would change them.
func (f *Folder) readLimits(dir string) error {
	path := filepath.Join(f.Dir, "sentence_bert_config.json")
	limits := struct {
		Max   int  `json:"max_seq_length"`
		Lower bool `json:"do_lower_case"`
	}{Max: f.Config.Longest()}
	if _, err := readJSON(path, &limits); err != nil {
		return err
	}
	if limits.Max < 1 {
		return fmt.Errorf("hf: %s: max_seq_length is %d, expected at least 1", path, limits.Max)
	}
	if limits.Lower {
		return fmt.Errorf("hf: %s: do_lower_case is not supported here, expected the tokenizer to do it", path)
	}
	f.MaxTokens = min(limits.Max, f.Config.Longest())

	path = filepath.Join(dir, "config_sentence_transformers.json")
	var prompts struct {
		Default string            `json:"default_prompt_name"`
		Prompts map[string]string `json:"prompts"`
	}
	if _, err := readJSON(path, &prompts); err != nil {
		return err
	}
	if prompts.Prompts[prompts.Default] != "" {
		return fmt.Errorf("hf: %s: texts would need the prompt %q before them, which is not supported", path, prompts.Default)
	}
	return nil
}
