package statuses_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writers may write statuses: this package, and the API of templates, which writes the approval of its caller.
var writers = []string{"controllers/statuses/memory.go", "controllers/statuses/report.go", "apiserver/cluster.go"}

// candidate matches files that can write a status, so that others are not parsed.
var candidate = regexp.MustCompile(`Status\(|"status"`)

// TestOnly walks the source: no other file writes a status. Tests, simulators and conformance cases write statuses as other components
// do.
func TestOnly(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	var found []string
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (name == "test" || name == "conformance" || name == "bin" || strings.HasPrefix(entry.Name(), ".") && name != "."):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil || !candidate.Match(source) {
			return err
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, line := range writesOf(positions, file) {
			if !slices.Contains(writers, name) {
				t.Errorf("%s:%d: it writes a status: use package statuses, for memory or for a report", name, line)
			} else if !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range writers {
		if !slices.Contains(found, name) {
			t.Errorf("%s writes no status", name)
		}
	}
}

// writesOf are the lines that write a status.
func writesOf(positions *token.FileSet, file *ast.File) (lines []int) {
	ast.Inspect(file, func(node ast.Node) bool {
		if call, isCall := node.(*ast.CallExpr); isCall && writes(call) {
			lines = append(lines, positions.Position(call.Pos()).Line)
		}
		return true
	})
	return lines
}

// writes reports whether a call is x.Status().Update, Patch, Apply or Create, x.UpdateStatus or x.ApplyStatus, or names the
// subresource status.
func writes(call *ast.CallExpr) bool {
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return false
	}
	switch method.Sel.Name {
	case "UpdateStatus", "ApplyStatus":
		return true
	case "Update", "Patch", "Apply", "Create":
		if of, isCall := method.X.(*ast.CallExpr); isCall {
			if status, isMethod := of.Fun.(*ast.SelectorExpr); isMethod && status.Sel.Name == "Status" && len(of.Args) == 0 {
				return true
			}
		}
	case "SubResource":
	default:
		return false
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		text, isLiteral := arg.(*ast.BasicLit)
		return isLiteral && text.Value == `"status"`
	})
}

// TestWrites tests what TestOnly finds.
func TestWrites(t *testing.T) {
	for line, want := range map[string]bool{
		"c.Status().Update(ctx, object)":                           true,
		"r.Client.Status().Patch(ctx, object, patch)":              true,
		"r.Options.Client.Status().Apply(ctx, object)":             true,
		"api.UpdateStatus(ctx, object, options)":                   true,
		"api.ApplyStatus(ctx, name, object, options)":              true,
		"c.SubResource(\"status\").Update(ctx, object)":            true,
		"api.Patch(ctx, name, kind, data, options, \"status\")":    true,
		"c.SubResource(\"scale\").Patch(ctx, object, patch)":       false,
		"c.Update(ctx, object)":                                    false,
		"fmt.Println(err.Status().Code)":                           false,
		"meta.SetStatusCondition(&object.Status.Conditions, \"\")": false,
	} {
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, "p.go", fmt.Sprintf("package p\n\nfunc f() {\n\t%s\n}\n", line), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, len(writesOf(positions, file)) > 0); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}
