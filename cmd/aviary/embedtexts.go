package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/aviary-audit/aviary/models"
)

// maxLine is the longest line of a file of texts, in bytes.
const maxLine = 64 << 20

// readTexts reads the texts of a file: the lines of a .txt, or a column of a .csv
// with a header or of a .jsonl with an object on each line.
func readTexts(path, column string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var texts []string
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".txt":
		texts, err = readLines(f, func(line string) (string, error) { return line, nil })
	case ".jsonl":
		texts, err = readLines(f, func(line string) (string, error) { return jsonText(line, column) })
	case ".csv":
		texts, err = readCSVColumn(f, column)
	default:
		return nil, fmt.Errorf("%s ends in %q, expected .txt, .jsonl or .csv", path, ext)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s holds no text", path)
	}
	return texts, nil
}

func readLines(r io.Reader, text func(line string) (string, error)) ([]string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var texts []string
	for lines.Scan() {
		t, err := text(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(texts)+1, err)
		}
		texts = append(texts, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(texts)+1, err)
	}
	return texts, nil
}

func jsonText(line, column string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		return "", fmt.Errorf("%w, expected an object", err)
	}
	raw, ok := object[column]
	if !ok {
		return "", fmt.Errorf("no %q, which --text-column asks for", column)
	}
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil || text == nil {
		return "", fmt.Errorf("%q is %.40s, expected a string", column, raw)
	}
	return *text, nil
}

func readCSVColumn(r io.Reader, column string) ([]string, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	at := slices.Index(head, column)
	if at < 0 {
		return nil, fmt.Errorf("columns %q, expected one named %q, which --text-column asks for", head, column)
	}
	var texts []string
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, err // it names the line
		}
		texts = append(texts, strings.Clone(row[at]))
	}
}

// parseTokens reads token ids with spaces between them.
func parseTokens(text string, c models.EncoderConfig) ([]int32, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > c.Longest() {
		return nil, fmt.Errorf("%d token ids, expected 1 to %d", len(words), c.Longest())
	}
	ids := make([]int32, len(words))
	for i, w := range words {
		id, err := strconv.ParseInt(w, 10, 32)
		if err != nil || id < 0 || id >= int64(c.Vocabulary) {
			return nil, fmt.Errorf("%q, expected a token id below %d", w, c.Vocabulary)
		}
		ids[i] = int32(id)
	}
	return ids, nil
}
