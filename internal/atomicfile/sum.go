package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// Sum is the SHA-256 of a file's contents, in hexadecimal: what manifests and
// journals remember of a finished file.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
