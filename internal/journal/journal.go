// Package journal keeps the finished units of a long job in an append-only
// file, so that a job that was killed goes on where it stopped.
//
// The file is lines of JSON, {"sum":…,"data":…}. A line's sum covers its data
// and the sum before it, so that a line that was changed, lost, moved or put
// in is found. The first line holds the hash of the job's configuration.
package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const format = "aviary/journal/1"

// header is the data of the first line.
type header struct {
	Format string `json:"format"`
	Config string `json:"config"`
}

// encode is the line, without its end, of data with this sum. check undoes it.
func encode(sum string, data []byte) []byte {
	return fmt.Appendf(nil, `{"sum":"%s","data":%s}`, sum, data)
}

// Journal is an open journal of records of type T, which must survive
// encoding/json (NaN and Inf do not). It is not for use by several goroutines
// at once.
type Journal[T any] struct {
	path    string
	file    *os.File
	out     io.Writer // file, but for tests
	size    int64     // of the good lines, in bytes
	sum     string    // of the last good line
	records []T
	dropped string
}

// Open opens the journal at path, or makes it, and reads its records. config
// names the job's configuration, for instance by its SHA-256; a journal that
// was begun with another config is an error that names both.
//
// If the last line is damaged, as a kill or a power cut leaves it, it is
// dropped from the file, and Dropped says so. Damage before the last line is
// an error that names the line. A journal that another process has open is an
// error too.
func Open[T any](path, config string) (*Journal[T], error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, withoutPath(err))
	}
	j := &Journal[T]{path: path, file: file, out: file}
	if err := j.open(config); err != nil {
		file.Close()
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

func (j *Journal[T]) open(config string) error {
	if err := lock(j.file); err != nil {
		return err
	}
	content, err := io.ReadAll(j.file)
	if err != nil {
		return withoutPath(err)
	}
	if err := j.replay(content, config); err != nil {
		return err
	}
	if j.size < int64(len(content)) {
		if err := j.cut(); err != nil {
			return err
		}
	}
	if j.size > 0 {
		return nil
	}
	if err := j.append(header{format, config}); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(j.path))
}

// Free is an error if another process has the journal at path open, and nil if
// it has not or there is none.
func Free(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer file.Close()
		err = lock(file)
	}
	if err != nil {
		return fmt.Errorf("journal %s: %w", path, withoutPath(err))
	}
	return nil
}

// Records are the good records that Open found, in order.
func (j *Journal[T]) Records() []T { return j.records }

// Dropped tells of the damaged last line that Open dropped; "" if there was
// none.
func (j *Journal[T]) Dropped() string { return j.dropped }

// Append adds a record, and returns once it is on the disk. After an error the
// file is as it was.
func (j *Journal[T]) Append(record T) error {
	if err := j.append(record); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

// Close closes the file. Records are safe without it.
func (j *Journal[T]) Close() error { return j.file.Close() }

// replay reads the lines of content. It sets size to where the good ones end.
func (j *Journal[T]) replay(content []byte, config string) error {
	head, err := firstLine(config)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(head, content) && len(content) > 0 {
		j.drop(1, fmt.Errorf("cut after %d bytes", len(content)))
		return nil
	}
	for number := 1; len(content) > 0; number++ {
		text, rest, whole := bytes.Cut(content, []byte("\n"))
		data, sum, err := check(text, j.sum)
		if !whole {
			err = fmt.Errorf("cut after %d bytes", len(text))
		}
		if err != nil {
			if number == 1 {
				return fmt.Errorf("line 1 is damaged (%w) or the file is no journal: restore it, or begin anew in another folder", err)
			}
			if len(rest) > 0 {
				return fmt.Errorf("line %d is damaged (%w), and not the last: restore the file, or begin anew in another folder", number, err)
			}
			j.drop(number, err)
			return nil
		}
		if number == 1 {
			err = checkHeader(data, config)
		} else {
			var record T
			if err = json.Unmarshal(data, &record); err == nil {
				j.records = append(j.records, record)
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		j.sum = sum
		j.size += int64(len(text)) + 1
		content = rest
	}
	return nil
}

func (j *Journal[T]) drop(line int, why error) {
	j.dropped = fmt.Sprintf("line %d of %s was damaged (%v) and has been dropped", line, j.path, why)
}

// firstLine is the line, without its end, of a journal that begins now.
func firstLine(config string) ([]byte, error) {
	data, err := json.Marshal(header{format, config})
	return encode(checksum("", data), data), err
}

// check returns the data and the sum of one line, given the sum before it.
func check(text []byte, before string) (data []byte, sum string, err error) {
	blank := encode(strings.Repeat(" ", sumLength), nil)
	const at = len(`{"sum":"`)
	if len(text) < len(blank) {
		return nil, "", fmt.Errorf("%d bytes are too short", len(text))
	}
	sum = string(text[at : at+sumLength])
	data = text[len(blank)-1 : len(text)-1]
	if !bytes.Equal(text, encode(sum, data)) {
		return nil, "", fmt.Errorf("%.20q is not the start of a record", text)
	}
	if want := checksum(before, data); sum != want {
		return nil, "", fmt.Errorf("checksum %q, expected %q", sum, want)
	}
	return data, sum, nil
}

func checkHeader(data []byte, config string) error {
	var h header
	if err := json.Unmarshal(data, &h); err != nil || h.Format != format {
		return fmt.Errorf("format %q, expected %q", h.Format, format)
	}
	if h.Config != config {
		return fmt.Errorf("begun with the configuration %s, not with the present %s: use the old settings or another folder", h.Config, config)
	}
	return nil
}

// sumLength is the length of a checksum in the file.
const sumLength = 16

// checksum is the first 64 bits of SHA-256, in hex.
func checksum(before string, data []byte) string {
	h := sha256.New()
	io.WriteString(h, before)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))[:sumLength]
}

func (j *Journal[T]) append(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	sum := checksum(j.sum, data)
	text := append(encode(sum, data), '\n')
	_, err = j.out.Write(text)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(withoutPath(err), j.cut())
	}
	j.size += int64(len(text))
	j.sum = sum
	return nil
}

// cut drops what is behind the good lines.
func (j *Journal[T]) cut() error {
	if err := j.file.Truncate(j.size); err != nil {
		return withoutPath(err)
	}
	return j.file.Sync()
}

// withoutPath drops the path from an error of os: ours carry it already.
func withoutPath(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
