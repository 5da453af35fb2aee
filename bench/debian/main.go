// Command debian makes real text of many authors for audits of Private
// Evolution: the paragraphs of Debian's package descriptions, grouped by the
// package's maintainer into pseudo-users of 32 to 63 paragraphs. Paragraphs of
// maintainers with fewer become records of no user, for a bank. Each paragraph
// is there once, in one group.
//
//	debian PACKAGES TRANSLATION FOLDER
//
// reads the index files Packages and Translation-en of a Debian release, without
// compression, and writes users.jsonl and others.jsonl (id, user, text, label).
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aviary-audit/aviary/internal/atomicfile"
)

const (
	perUser  = 32 // least number of paragraphs
	shortest = 40 // bytes of a paragraph
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: debian PACKAGES TRANSLATION FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "debian:", err)
		os.Exit(1)
	}
}

func run(packages, translation, dir string) error {
	index, err := os.Open(packages)
	if err != nil {
		return err
	}
	defer index.Close()
	texts, err := os.Open(translation)
	if err != nil {
		return err
	}
	defer texts.Close()
	users, others, err := group(index, texts)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", packages, translation, err)
	}
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "others.jsonl"), others); err != nil {
		return err
	}
	return write(filepath.Join(dir, "users.jsonl"), users)
}

// record is one line.
type record struct {
	ID    string `json:"id"`
	User  string `json:"user,omitempty"`
	Text  string `json:"text"`
	Label string `json:"label"` // section of the archive
}

// group makes the records of users and those of none.
func group(packages, translation io.Reader) (users, others []record, err error) {
	paragraphs := map[string][]string{} // by the description's MD5
	err = stanzas(translation, func(s map[string]string) {
		paragraphs[s["Description-md5"]] = split(s["Description-en"])
	})
	if err != nil {
		return nil, nil, err
	}
	by := map[string][]record{}
	seen := map[string]bool{}
	err = stanzas(packages, func(s map[string]string) {
		for i, text := range paragraphs[s["Description-md5"]] {
			if len(text) < shortest || seen[text] {
				continue
			}
			seen[text] = true
			who := s["Maintainer"]
			by[who] = append(by[who], record{ID: fmt.Sprintf("%s/%d", s["Package"], i), Text: text, Label: s["Section"]})
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if len(seen) == 0 {
		return nil, nil, errors.New("no package has a description in both files")
	}
	var names []string
	for who := range by {
		names = append(names, who)
	}
	slices.Sort(names)
	number := 0
	for _, who := range names {
		list := by[who]
		n := len(list) / perUser
		if n == 0 {
			others = append(others, list...)
			continue
		}
		for g := range n {
			for _, r := range list[g*len(list)/n : (g+1)*len(list)/n] {
				r.User = fmt.Sprintf("u%04d", number)
				users = append(users, r)
			}
			number++
		}
	}
	return users, others, nil
}

// stanzas calls f with the fields of each stanza of a Debian control file.
func stanzas(r io.Reader, f func(map[string]string)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	fields, last := map[string]string{}, ""
	end := func() {
		if len(fields) > 0 {
			f(fields)
		}
		fields, last = map[string]string{}, ""
	}
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			end()
			continue
		}
		if line[0] == ' ' {
			fields[last] += "\n" + line[1:]
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return fmt.Errorf("line %.60q is no field", line)
		}
		last = name
		fields[name] = strings.TrimSpace(value)
	}
	end()
	return lines.Err()
}

// split is the paragraphs of a long description, without its first line. Lists
// and examples, which are indented, stay with the paragraph before them.
func split(description string) []string {
	_, long, _ := strings.Cut(description, "\n")
	var list []string
	for part := range strings.SplitSeq(long, "\n.\n") {
		list = append(list, strings.Join(strings.Fields(part), " "))
	}
	return list
}

func write(path string, records []record) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, r := range records {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}
