package layers

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRepositoryKeepsItsLayers(t *testing.T) {
	broken, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// A check that cannot fail is no check.
func TestPlantedViolationsAreFound(t *testing.T) {
	for _, c := range []struct{ file, imports, want string }{
		{"kernels/gemm.go", Module + "/tensor", "kernels may import"},
		{"kernels/ref/gemm.go", "gonum.org/v1/gonum/mat", "standard library only"},
		{"audit/audit.go", "golang.org/x/sync/errgroup", "standard library only"},
		{"audit/stats/roc.go", Module + "/audit/onerun", "audit/stats may import"},
		{"audit/pe/run.go", Module + "/audit/onerun", "audit/pe may import"},
		{"audit/onerun/game.go", Module + "/report", "audit/onerun may import"},
		{"models/train/sgd.go", Module + "/audit", "models may import"},
		{"internal/rng/rng.go", Module + "/internal/npz", "internal may import"},
		{"misc/x.go", Module + "/audit", "no rule"},
	} {
		tree := fstest.MapFS{c.file: {Data: []byte("package p\nimport _ \"" + c.imports + "\"\n")}}
		broken, err := Check(tree)
		if err != nil || len(broken) != 1 || !strings.Contains(broken[0], c.want) {
			t.Errorf("%s importing %s: got %q, %v; want one violation with %q", c.file, c.imports, broken, err, c.want)
		}
	}
}

func TestAllowedImportsPass(t *testing.T) {
	for file, imports := range map[string]string{
		"audit/ibis/craft.go":    Module + "/audit/onerun",
		"audit/onerun/game.go":   Module + "/models/train",
		"models/train/sgd.go":    Module + "/models",
		"audit/stats/roc.go":     "gonum.org/v1/gonum/stat/distuv",
		"cmd/aviary/main.go":     Module + "/report",
		"audit/pe/x_test.go":     Module + "/audit/onerun",
		"internal/journal/go.go": "encoding/json",
	} {
		tree := fstest.MapFS{
			file:          {Data: []byte("package p\nimport _ \"" + imports + "\"\n")},
			"audit/ok.go": {Data: []byte("package audit\n")},
		}
		if broken, err := Check(tree); err != nil || len(broken) > 0 {
			t.Errorf("%s importing %s: %q, %v", file, imports, broken, err)
		}
	}
}

func TestEmptyTreeIsAnError(t *testing.T) {
	if _, err := Check(fstest.MapFS{"README.md": {Data: []byte("x")}}); err == nil {
		t.Error("a tree without Go files passed")
	}
}
