package models_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// ends are the files that hold the ends of a pass, where Values are opened.
// Everything else in this package is layers.
var ends = map[string]bool{"pass.go": true, "clip.go": true}

// opensValues lists the places where a file opens a Value: a call of
// tensor.Parts, under whatever name the package is imported.
func opensValues(name string, src any) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		return nil, err
	}
	imported := ""
	for _, spec := range file.Imports {
		if strings.HasSuffix(spec.Path.Value, `/aviary/tensor"`) {
			imported = "tensor"
			if spec.Name != nil {
				imported = spec.Name.Name
			}
		}
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && id.Name == imported && n.Sel.Name == "Parts" {
				found = append(found, fmt.Sprint(fset.Position(n.Pos())))
			}
		case *ast.Ident:
			if imported == "." && n.Name == "Parts" {
				found = append(found, fmt.Sprint(fset.Position(n.Pos())))
			}
		}
		return true
	})
	return found, nil
}

// TestLayersDoNotOpenValues: a layer that reads the tensor where the Value was
// meant loses a derivative.
func TestLayersDoNotOpenValues(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	layers, opened := 0, 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		found, err := opensValues(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ends[filepath.Base(name)] {
			opened += len(found)
			continue
		}
		layers++
		for _, at := range found {
			t.Errorf("%s: a layer opens a Value with tensor.Parts; use operations, or Detach if it is meant", at)
		}
	}
	if layers == 0 || opened == 0 {
		t.Errorf("%d layer files and %d uses in pass.go and clip.go were seen; the test looks at the wrong place", layers, opened)
	}
	for _, planted := range []string{
		`package m; import "github.com/aviary-audit/aviary/tensor"; var x, _ = tensor.Parts(v)`,
		`package m; import tt "github.com/aviary-audit/aviary/tensor"; var f = tt.Parts`,
		`package m; import . "github.com/aviary-audit/aviary/tensor"; var x, _ = Parts(v)`,
	} {
		if found, err := opensValues("planted.go", planted); err != nil || len(found) != 1 {
			t.Errorf("planted violation: found %v, %v", found, err)
		}
	}
}
