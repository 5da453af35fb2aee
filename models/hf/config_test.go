package hf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/models"
)

// folder copies a folder of testdata and replaces old by new in one of its files, or
// writes new to it if old is empty.
func folder(t *testing.T, model, file, old, new string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", model))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil && old != "" {
		t.Fatal(err)
	}
	if old != "" && !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %s", path, old)
	}
	changed := strings.Replace(string(text), old, new, 1)
	if old == "" {
		changed = new
	}
	if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadFolder(t *testing.T) {
	f, err := ReadFolder(filepath.Join("testdata", "bert"))
	if err != nil {
		t.Fatal(err)
	}
	if f.MaxTokens != 20 || f.Pooling != models.PoolMean || !f.Normalize || f.ModelType != "bert" || f.Config.Longest() != 32 {
		t.Errorf("got %+v", f)
	}
	f, err = ReadFolder(folder(t, "mpnet", "1_Pooling/config.json", "", `{"embedding_dimension":24,"pooling_mode":"cls"}`))
	if err != nil || f.Pooling != models.PoolFirst || f.Config.Longest() != 32 || f.Config.Buckets != 32 {
		t.Errorf("got %+v, %v", f, err)
	}
	dir := folder(t, "bert", "config.json", "", "{")
	if err := os.Remove(filepath.Join(dir, "modules.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFolder(dir); err == nil {
		t.Error("half a config.json was read")
	}
}

func TestReadFolderRefuses(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"config.json", `"bert"`, `"roberta"`, `model_type "roberta" is not supported`},
		{"config.json", `"gelu"`, `"gelu_new"`, "hidden_act is gelu_new, expected gelu"},
		{"config.json", `"hidden_size": 24`, `"hidden_size": 25`, "a width of 25 for 3 heads"},
		{"config.json", `"vocab_size": 48`, `"vocab_size": -1`, "vocabulary is -1"},
		{"config.json", `"vocab_size": 48`, `"position_embedding_type": "relative_key", "vocab_size": 48`, "position_embedding_type is relative_key"},
		{"modules.json", "models.Normalize", "models.Dense", "module sentence_transformers.models.Dense is not supported"},
		{"modules.json", "models.Pooling", "models.Normalize", "modules Transformer, Normalize, Normalize"},
		{"modules.json", `"1_Pooling"`, `"../x"`, `path "../x"`},
		{"modules.json", `"1_Pooling"`, `"other"`, "is missing, which modules.json asks for"},
		{"1_Pooling/config.json", "", `{"pooling_mode":"lasttoken"}`, "pooling lasttoken is not supported"},
		{"1_Pooling/config.json", "", `{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true}`, "expected exactly one"},
		{"1_Pooling/config.json", "", `{}`, "poolings [], expected exactly one"},
		{"sentence_bert_config.json", "20", "0", "max_seq_length is 0"},
		{"sentence_bert_config.json", "false", "true", "do_lower_case"},
	} {
		_, err := ReadFolder(folder(t, "bert", c.file, c.old, c.new))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Base(c.file)) && !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s with %s: want an error with %q, got %v", c.file, c.new, c.want, err)
		}
	}
	if _, err := ReadFolder(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json is missing") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	f, err := ReadFolder(folder(t, "bert", "config.json", `"vocab_size": 48`, `"vocab_size": 47`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Load(reference(t))
	if err == nil || !strings.Contains(err.Error(), "tensor embeddings.word_embeddings.weight has shape [48 24], expected [47 24]") {
		t.Errorf("a smaller vocabulary: %v", err)
	}
	f, err = ReadFolder(folder(t, "bert", "config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 3`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Load(reference(t)); err == nil || !strings.Contains(err.Error(), "no tensor encoder.layer.2.attention.self.query.weight") {
		t.Errorf("one more layer: %v", err)
	}
}
