package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/hf"
)

// embedChunk is how many texts are embedded before they are written.
const embedChunk = 8192

// embedSettings are the flags of embed.
type embedSettings struct {
	in, column, encoder, out, device string
	tokens, quiet                    bool
	threads                          int
}

// embedding is what FILE.json says about the rows of FILE.
type embedding struct {
	Encoder    string `json:"encoder"`
	Neural     bool   `json:"neural"`
	Dimensions int    `json:"dimensions"`
	Rows       int    `json:"rows"`
	Weights    string `json:"weights_sha256,omitempty"`
	Pooling    string `json:"pooling,omitempty"`
	Normalised bool   `json:"normalised"`
	MaxTokens  int    `json:"max_tokens,omitempty"`
	Device     string `json:"device,omitempty"`
	Input      string `json:"input"`
	Version    string `json:"version"`
}

func embedCommand() *cobra.Command {
	s := &embedSettings{}
	cmd := &cobra.Command{
		Use:   "embed --in FILE --out FILE.npy",
		Short: "Turn texts into vectors, with a sentence encoder or by hashed n-grams",
		Long: `Turn each text of a file into a vector, and write the vectors as rows of an .npy
file; FILE.npy.json beside it says how they were made.

Texts are the lines of a .txt, or the column --text-column of a .jsonl, .json, .csv
or .tsv; each has its row, also if it is empty. An encoder is a folder as Hugging Face has it, of a BERT or MPNet
model with weights in safetensors; make data-minilm fetches one. Without --encoder
words and their pieces are hashed into 384 numbers: that is no neural encoder, it
tells spellings and topics apart and knows no meaning.

The bytes do not depend on threads.`,
		Example: `  aviary embed --in reviews.csv --text-column review --encoder data/minilm --out reviews.npy
  aviary embed --in lines.txt --out lines.npy`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEmbed(cmd, s) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.in, "in", "", "`FILE` of texts: .txt, .jsonl, .json, .csv or .tsv, also .gz")
	f.StringVar(&s.column, "text-column", "", "`NAME` of the column of texts (default: text, review, content, sentence or document)")
	f.StringVar(&s.encoder, "encoder", "", "folder (`DIR`) of a sentence encoder (none: hashed n-grams)")
	f.BoolVar(&s.tokens, "token-ids", false, "the texts are the encoder's token ids, with spaces between them")
	f.StringVar(&s.out, "out", "", "`FILE.npy` to write")
	f.StringVar(&s.device, "device", "auto", "`DEVICE` of the encoder: auto, cpu or ref")
	f.IntVar(&s.threads, "threads", 0, "threads of the encoder (`N`) (0: one per core); changes no result")
	f.BoolVar(&s.quiet, "quiet", false, "no progress on stderr")
	return cmd
}

func runEmbed(cmd *cobra.Command, s *embedSettings) error {
	switch {
	case s.in == "":
		return usageError("aviary embed --help has an example", "--in is missing, expected a file of texts")
	case filepath.Ext(s.out) != ".npy":
		return usageError("", "--out is %q, expected a name that ends in .npy", s.out)
	case s.threads < 0:
		return usageError("", "--threads is %d, expected at least 0", s.threads)
	case s.tokens && s.encoder == "":
		return usageError("", "--token-ids goes with --encoder, whose tokens they are")
	}
	texts, err := readTexts(s.in, s.column)
	if err != nil {
		return inputError(err)
	}
	about := embedding{Rows: len(texts), Input: filepath.Base(s.in), Version: programVersion()}
	embed := func(_ context.Context, texts []string, _ int) ([]float32, error) {
		return records.DefaultNGrams().Embed(texts).X, nil
	}
	if s.encoder == "" {
		about.Encoder, about.Dimensions, about.Normalised = records.NGramsName, records.DefaultNGrams().D, true
		fmt.Fprintf(cmd.ErrOrStderr(), "aviary: note: no --encoder: vectors are %s\n", records.NGramsName)
	} else {
		dev, name, err := openDevice(s.device, s.threads)
		if err != nil {
			return err
		}
		defer dev.Close()
		var free func()
		if embed, free, err = openEncoder(dev, s, &about); err != nil {
			return inputError(err)
		}
		defer free()
		about.Device = name
	}
	if err := writeEmbedding(cmd, s, texts, about, embed); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d rows of %d numbers by %s\n", s.out, about.Rows, about.Dimensions, about.Encoder)
	return err
}

// embedder gives a row for each text; first is the number of the first one.
type embedder func(ctx context.Context, texts []string, first int) ([]float32, error)

// writeEmbedding embeds a chunk of texts at a time into the file, and then writes
// the file beside it.
func writeEmbedding(cmd *cobra.Command, s *embedSettings, texts []string, about embedding, embed embedder) error {
	line := newTalk(cmd.ErrOrStderr(), s.quiet).line
	line.Start("embedding", len(texts))
	defer line.Done()
	err := atomicfile.Write(s.out, 0o644, func(w io.Writer) error {
		if err := npz.StartNpy[float32](w, about.Rows, about.Dimensions); err != nil {
			return err
		}
		for i := 0; i < len(texts); i += embedChunk {
			part := texts[i:min(i+embedChunk, len(texts))]
			x, err := embed(cmd.Context(), part, i)
			if err != nil {
				return err
			}
			if err := npz.WriteElements(w, x); err != nil {
				return err
			}
			line.Set(i + len(part))
		}
		return nil
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(s.out+".json", 0o644, append(text, '\n'))
}

// encoderName is what reports call the encoder of a folder.
func encoderName(dir string, f *hf.Folder) string {
	return fmt.Sprintf("%s (%s)", filepath.Base(filepath.Clean(dir)), f.ModelType)
}

// openEncoder opens the encoder of a folder and returns how it embeds texts, and how
// to free it.
func openEncoder(dev kernels.Device, s *embedSettings, about *embedding) (embedder, func(), error) {
	folder, err := hf.ReadFolder(s.encoder)
	if err != nil {
		return nil, nil, err
	}
	var embed embedder
	var free func()
	if s.tokens {
		e, err := folder.Load(dev)
		if err != nil {
			return nil, nil, err
		}
		free = e.Free
		embed = func(ctx context.Context, texts []string, first int) ([]float32, error) {
			ids := make([][]int32, len(texts))
			for i, t := range texts {
				var err error
				if ids[i], err = parseTokens(t, folder.Config); err != nil {
					return nil, inputError(fmt.Errorf("%s: text %d: %w", s.in, first+i+1, err))
				}
			}
			return e.Embed(ctx, ids, folder.Pooling, folder.Normalize, nil)
		}
	} else {
		e, err := hf.OpenText(s.encoder, dev)
		if err != nil {
			return nil, nil, err
		}
		free = e.Free
		embed = func(ctx context.Context, texts []string, first int) ([]float32, error) {
			ids, err := e.Tokens(texts)
			var bad *hf.BadText
			if errors.As(err, &bad) {
				return nil, inputError(fmt.Errorf("%s: text %d: %w", s.in, first+bad.Text+1, bad.Err))
			}
			if err != nil {
				return nil, err
			}
			return e.Embed(ctx, ids, folder.Pooling, folder.Normalize, nil)
		}
	}
	if about.Weights, err = folder.WeightsSum(); err != nil {
		free()
		return nil, nil, err
	}
	about.Encoder, about.Neural, about.Dimensions = encoderName(s.encoder, folder), true, folder.Config.Width
	about.Pooling, about.Normalised, about.MaxTokens = folder.Pooling.String(), folder.Normalize, folder.MaxTokens
	return embed, free, nil
}
