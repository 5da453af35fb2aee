// Package fetch takes files from package registries and holds them to their sums.
package fetch

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"time"
)

// most is the largest file that is taken, in bytes.
const most = 1 << 27

// Get returns the file at url, whose SHA-256 must be sum.
func Get(url, sum string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Minute}
	answer, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	file, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(file)); got != sum {
		return nil, fmt.Errorf("%s: SHA-256 is %s, expected %s", url, got, sum)
	}
	return file, nil
}
