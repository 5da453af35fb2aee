// Package layers holds the import rules of the repository: which folder may
// import which. Data flows one way, from files to tensors to models to scores
// to bounds to reports, and this is what keeps it so.
package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path that the rules speak of.
const Module = "github.com/aviary-audit/aviary"

// Rule says what the packages of a folder may import of ours.
type Rule struct {
	Folder string   // "models" covers models and all below it, unless a longer folder has a rule
	May    []string // folders, each with all below it; "*" is anything, "." the folder itself
	// StdOnly forbids packages of others as well.
	StdOnly bool
}

// Rules is the table of ARCHITECTURE.md, most general folders first.
var Rules = []Rule{
	{Folder: "kernels", May: []string{"kernels/ref", "internal"}},
	{Folder: "kernels/ref", May: nil, StdOnly: true},
	{Folder: "kernels/kerneltest", May: []string{"kernels", "kernels/ref"}},
	{Folder: "tensor", May: []string{".", "kernels", "internal"}},
	{Folder: "models", May: []string{".", "tensor", "kernels", "internal"}},
	{Folder: "audit", May: nil, StdOnly: true},
	{Folder: "audit/accounting", May: nil},
	{Folder: "audit/stats", May: []string{"=audit", "audit/accounting"}},
	{Folder: "audit/scoreio", May: []string{"=audit", "internal"}},
	{Folder: "audit/records", May: []string{"=audit", "internal"}},
	{Folder: "audit/mechanism", May: []string{"=audit", "audit/accounting", "tensor", "kernels", "models", "internal"}},
	{Folder: "audit/onerun", May: game},
	{Folder: "audit/ibis", May: append([]string{"audit/onerun"}, game...)},
	{Folder: "audit/multirun", May: append([]string{"audit/onerun"}, game...)},
	{Folder: "audit/pe", May: append([]string{"audit/records"}, game...)},
	{Folder: "audit/release", May: append([]string{"audit/records"}, game...)},
	{Folder: "report", May: []string{"=audit", "audit/stats", "audit/accounting", "internal"}},
	{Folder: "internal", May: nil},
	{Folder: "bench", May: []string{"*"}},
	{Folder: "cmd", May: []string{"*"}},
	{Folder: "interop", May: []string{"*"}},
}

// game is what the audits stand on; they never import each other.
var game = []string{"=audit", "audit/stats", "audit/accounting", "audit/scoreio", "audit/mechanism",
	"models", "tensor", "kernels", "internal"}

// Check reads the imports of every Go file in the tree, parsing rather than
// asking the go command, whose cache can be stale. It returns one line for
// each broken rule, and an error for a tree it cannot read or that has no Go
// file at all. Test files may import anything.
func Check(tree fs.FS) (broken []string, err error) {
	files := 0
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
			}
			if why := forbidden(path.Dir(name), target); why != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", name, target, why))
			}
		}
		return nil
	})
	if err == nil && files == 0 {
		err = fmt.Errorf("layers: no Go file found")
	}
	return broken, err
}

// forbidden says why a package in folder may not import target, or "".
func forbidden(folder, target string) string {
	rule := ruleFor(folder)
	if rule == nil {
		return fmt.Sprintf("folder %s has no rule in internal/layers", folder)
	}
	ours, isOurs := strings.CutPrefix(target, Module+"/")
	if !isOurs {
		if rule.StdOnly && strings.Contains(strings.Split(target, "/")[0], ".") {
			return fmt.Sprintf("%s uses the standard library only", rule.Folder)
		}
		return ""
	}
	allowed := slices.ContainsFunc(rule.May, func(may string) bool {
		switch {
		case may == "*":
			return true
		case may == ".":
			return within(ours, rule.Folder)
		case strings.HasPrefix(may, "="): // this package, not what lies below it
			return ours == may[1:]
		}
		return within(ours, may)
	})
	if allowed {
		return ""
	}
	return fmt.Sprintf("%s may import %v", rule.Folder, rule.May)
}

// ruleFor is the rule of the longest folder that contains name.
func ruleFor(name string) (best *Rule) {
	for i := range Rules {
		r := &Rules[i]
		if within(name, r.Folder) && (best == nil || len(r.Folder) > len(best.Folder)) {
			best = r
		}
	}
	return best
}

func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}
