package onerun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
)

// CommandTrainer trains with somebody else's program: Cmd is given to sh once
// per audit, in a work folder that holds
//
//	train.npz     arrays images [n, shape...] float32 and labels [n] int64
//	canaries.npz  the same, of all canaries; nothing tells which are in
//	test.npz      the same, if there are unseen examples
//	job.json      the paths of these files, the seed, and where to put losses
//
// The command fits a fresh model to train.npz, with all its randomness from
// the seed, and writes the loss of every canary: losses.csv with the columns
// canary,loss, or losses.npy with a vector of floats. Paths come as environment
// variables (AVIARY_JOB, AVIARY_TRAIN, AVIARY_CANARIES, AVIARY_TEST,
// AVIARY_LOSSES for losses.csv, AVIARY_SEED) and wherever Cmd says {job},
// {train}, {canaries}, {test}, {losses} or {seed}.
type CommandTrainer struct {
	Cmd    string
	Dir    string    // where work folders are made; "" for beside the job's state, or else the system's temporary folder
	Keep   bool      // leave the work folders for inspection
	Stderr io.Writer // gets what the command prints, nil for nobody

	patience time.Duration // from the polite signal to the other one, 0 for 5 seconds
}

// commandJob is job.json.
type commandJob struct {
	Schema   string `json:"schema"`
	Seed     string `json:"seed"` // decimal; as a string since JSON numbers lose digits
	Train    string `json:"train"`
	Canaries string `json:"canaries"`
	Test     string `json:"test,omitempty"`
	Losses   string `json:"losses"`
	Model    string `json:"model,omitempty"` // where to save the model, if wanted
}

// Train implements audit.Trainer. It cannot continue a training run after a
// kill; a resumed game starts the run again.
func (c CommandTrainer) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	if strings.TrimSpace(c.Cmd) == "" {
		return audit.Result{}, errors.New("trainer command: empty")
	}
	dir := c.Dir
	if dir == "" && job.State != "" && !c.Keep { // a folder that the game removes, whatever a kill leaves there
		dir = filepath.Dir(job.State)
	}
	dir, err := os.MkdirTemp(dir, "aviary-job-")
	if err != nil {
		return audit.Result{}, fmt.Errorf("trainer command: work folder: %w", err)
	}
	if !c.Keep {
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return audit.Result{}, err
	}
	paths, err := writeJob(dir, job)
	if err != nil {
		return audit.Result{}, err
	}
	if err := c.run(ctx, dir, paths); err != nil {
		return audit.Result{}, err
	}
	losses, err := readJobLosses(dir, job.Canaries.Len())
	if err != nil {
		return audit.Result{}, fmt.Errorf("trainer command: %w", err)
	}
	return audit.Result{Losses: losses, TestAccuracy: nan}, nil
}

// writeJob fills the work folder.
func writeJob(dir string, job audit.Job) (commandJob, error) {
	paths := commandJob{
		Schema: "aviary/job/1", Seed: strconv.FormatUint(job.Seed, 10),
		Train: filepath.Join(dir, "train.npz"), Canaries: filepath.Join(dir, "canaries.npz"),
		Losses: filepath.Join(dir, "losses.csv"),
	}
	if err := writeExamples(paths.Train, job.Train); err != nil {
		return paths, err
	}
	// The set is written without its history: which examples the canaries
	// displace is none of the trainer's business.
	if err := writeExamples(paths.Canaries, job.Canaries); err != nil {
		return paths, err
	}
	if job.Model != "" { // the command runs in another folder
		var err error
		if paths.Model, err = filepath.Abs(job.Model); err != nil {
			return paths, err
		}
	}
	if job.Test != nil {
		paths.Test = filepath.Join(dir, "test.npz")
		if err := writeExamples(paths.Test, job.Test); err != nil {
			return paths, err
		}
	}
	text, err := json.MarshalIndent(paths, "", "  ")
	if err != nil {
		return paths, err
	}
	return paths, atomicfile.WriteBytes(filepath.Join(dir, "job.json"), 0o644, append(text, '\n'))
}

// writeExamples writes a data set as npz with images and labels.
func writeExamples(path string, d audit.Dataset) error {
	n, size := d.Len(), exampleLen(d)
	images, labels := make([]float32, n*size), make([]int64, n)
	for i := range n {
		labels[i] = int64(d.Example(i, images[i*size:(i+1)*size]))
	}
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		return npz.Write(w,
			npz.Named{Name: "images", Array: npz.Array{Shape: append([]int{n}, d.Shape()...), Data: images}},
			npz.Named{Name: "labels", Array: npz.Array{Shape: []int{n}, Data: labels}})
	})
}

// run runs the command and waits for it, with everything it has started.
func (c CommandTrainer) run(ctx context.Context, dir string, paths commandJob) error {
	jobFile := filepath.Join(dir, "job.json")
	text := strings.NewReplacer(
		"{job}", quote(jobFile), "{train}", quote(paths.Train), "{canaries}", quote(paths.Canaries),
		"{test}", quote(paths.Test), "{losses}", quote(paths.Losses), "{seed}", paths.Seed,
	).Replace(c.Cmd)
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"AVIARY_JOB="+jobFile, "AVIARY_TRAIN="+paths.Train, "AVIARY_CANARIES="+paths.Canaries,
		"AVIARY_TEST="+paths.Test, "AVIARY_LOSSES="+paths.Losses, "AVIARY_SEED="+paths.Seed)
	last := &lastLines{}
	out := io.Writer(last)
	if c.Stderr != nil {
		out = io.MultiWriter(last, c.Stderr)
	}
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own, so that a cancelled audit ends the children too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(c.patience, 5*time.Second)
	err := cmd.Run()
	outlived := errors.Is(err, exec.ErrWaitDelay) // its children hold its output
	if (ctx.Err() != nil || outlived) && cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // they may have turned a deaf ear, too
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if outlived {
		err = errors.New("it ended, but something that it started did not, expected it to wait for that")
	}
	if err != nil {
		return fmt.Errorf("trainer command %q: %w%s", c.Cmd, err, last.quoted())
	}
	return nil
}

// quote makes a path one word for sh.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// readJobLosses reads whichever of the two files is there.
func readJobLosses(dir string, m int) ([]float64, error) {
	csv, npy := filepath.Join(dir, "losses.csv"), filepath.Join(dir, "losses.npy")
	_, csvErr := os.Stat(csv)
	_, npyErr := os.Stat(npy)
	switch {
	case csvErr == nil && npyErr == nil:
		return nil, fmt.Errorf("it wrote both losses.csv and losses.npy in %s, expected one", dir)
	case csvErr == nil:
		return scoreio.ReadRunLosses(csv, m)
	case !errors.Is(npyErr, fs.ErrNotExist):
		return readLossVector(npy, m)
	}
	return nil, fmt.Errorf("it ended well but wrote neither losses.csv nor losses.npy in %s", dir)
}

func readLossVector(path string, m int) ([]float64, error) {
	a, err := npz.ReadNpyFile(path)
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 1 || a.Shape[0] != m {
		return nil, fmt.Errorf("%s: shape is %v, expected [%d], one loss per canary", path, a.Shape, m)
	}
	losses := make([]float64, m)
	switch data := a.Data.(type) {
	case []float64:
		copy(losses, data)
	case []float32:
		for i, v := range data {
			losses[i] = float64(v)
		}
	default:
		return nil, fmt.Errorf("%s: dtype is %s, expected float64 or float32", path, a.DType())
	}
	return losses, nil
}

// lastLines keeps the end of what is written to it.
type lastLines struct{ text []byte }

// Write implements io.Writer.
func (l *lastLines) Write(p []byte) (int, error) {
	const most = 2000
	l.text = append(l.text, p...)
	if n := len(l.text) - most; n > 0 {
		l.text = append(l.text[:0], l.text[n:]...)
	}
	return len(p), nil
}

// quoted is the last lines, for the end of an error message.
func (l *lastLines) quoted() string {
	lines := strings.Split(strings.TrimSpace(strings.Map(harmless, string(l.text))), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return "; it printed nothing"
	}
	if n := len(lines) - 5; n > 0 {
		lines = lines[n:]
	}
	return "; it printed last:\n  " + strings.Join(lines, "\n  ")
}

// harmless replaces what would do something to a terminal.
func harmless(r rune) rune {
	switch {
	case r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar:
		return r
	case r == '\t' || r == '\r':
		return ' '
	}
	return '·'
}
