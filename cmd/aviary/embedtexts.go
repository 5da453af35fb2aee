package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/models"
)

// readTexts reads the texts of a file, each of which has its row, also if it is empty.
func readTexts(path, column string) ([]string, error) {
	t, err := records.Read(path, records.Columns{Text: column, Empty: true})
	if err != nil {
		return nil, err
	}
	if t.Text == nil {
		return nil, fmt.Errorf("%s has no column of texts: --text-column names it", path)
	}
	return t.Text, nil
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
