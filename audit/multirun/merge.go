package multirun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/journal"
)

// Read is the design of the finished job in dir and the losses of its watched
// canaries, [trials][watched].
func Read(dir string) (Design, [][]float64, error) {
	job, losses, err := read(dir)
	if err == nil {
		err = complete(losses)
	}
	if err != nil {
		return Design{}, nil, err
	}
	return job.Design, losses, nil
}

// Merge puts the shards of one job, done in dirs, together in the folder out,
// which must not be there or be empty. Its journal has the bytes of that of a
// job that was done in one place. Shards of different jobs, a trial in two of
// them and missing trials are errors, and out is then not made.
func Merge(out string, dirs ...string) (Design, [][]float64, error) {
	none := func(err error) (Design, [][]float64, error) { return Design{}, nil, err }
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return none(fmt.Errorf("%s is there already and not empty", out))
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return none(err)
	}
	if len(dirs) == 0 {
		return none(fmt.Errorf("no shards to merge"))
	}
	var job jobRecord
	var losses [][]float64
	from := map[int]string{}
	for i, dir := range dirs {
		j, l, err := read(dir)
		if err != nil {
			return none(err)
		}
		if i == 0 {
			job, losses = j, make([][]float64, len(l))
		} else if err := job.differs(j); err != nil {
			return none(fmt.Errorf("%s and %s are shards of different jobs: %w", dirs[0], dir, err))
		}
		for t, values := range l {
			if values == nil {
				continue
			}
			if before, twice := from[t]; twice {
				return none(fmt.Errorf("trial %d is in %s and in %s, expected in one", t, before, dir))
			}
			losses[t], from[t] = values, dir
		}
	}
	if err := complete(losses); err != nil {
		return none(err)
	}
	if err := write(out, job, losses); err != nil {
		return none(err)
	}
	return job.Design, losses, nil
}

// read reads the journal in dir, which may lack trials.
func read(dir string) (jobRecord, [][]float64, error) {
	path := filepath.Join(dir, journalName)
	if _, err := os.Stat(path); err != nil {
		return jobRecord{}, nil, fmt.Errorf("%s holds no job: %w", dir, err)
	}
	log, err := journal.Open[record](path, journalFormat)
	if err != nil {
		return jobRecord{}, nil, err
	}
	defer log.Close()
	return replay(path, log.Records())
}

// complete names the trials that are missing.
func complete(losses [][]float64) error {
	const most = 10
	var missing []string
	n := 0
	for t, l := range losses {
		if l == nil {
			if n++; n <= most {
				missing = append(missing, fmt.Sprint(t))
			}
		}
	}
	switch {
	case n == 0:
		return nil
	case n > most:
		missing = append(missing, "…")
	}
	return fmt.Errorf("%d of %d trials are missing: %s", n, len(losses), strings.Join(missing, ", "))
}

// write makes the folder of a finished job. The journal is written under another
// name first: what a kill leaves is no job.
func write(out string, job jobRecord, losses [][]float64) error {
	if err := atomicfile.MkdirAll(out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(out, journalName)
	part := path + ".part"
	err := func() error {
		log, err := journal.Open[record](part, journalFormat)
		if err != nil {
			return err
		}
		defer log.Close()
		records := []record{{Job: &job}}
		for t, l := range losses {
			records = append(records, record{Trial: &trialRecord{t, l}})
		}
		for r := range slices.Values(records) {
			if err := log.Append(r); err != nil {
				return err
			}
		}
		return nil
	}()
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
		os.Remove(out) // fails if something else is there
	}
	return err
}
