package soak_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../.."

// skipped are tests that ask whether they run for long, and that `make soak` does not run.
var skipped = map[string]string{
	"TestAttack": "TestSoakAttack runs the same specs",
}

// TestMakefile holds that `make soak` runs each test that has more to do then, and that tests ask only this package.
func TestMakefile(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^LONG +:= ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if names == nil {
		t.Fatal("the Makefile has no list LONG")
	}
	listed := strings.Fields(strings.ReplaceAll(string(names[1]), "\\\n", " "))
	used := map[string]bool{}
	for folder, functions := range functionsOfTests(t) {
		long := longTests(functions)
		for _, name := range long {
			matched := skipped[name] != ""
			for _, pattern := range listed {
				if regexp.MustCompile("^(" + pattern + ")$").MatchString(name) {
					used[pattern], matched = true, true
				}
			}
			if !matched {
				t.Errorf("%s: make soak does not run %s: add it to LONG in the Makefile", folder, name)
			}
		}
		if _, reads := functions[direct]; reads {
			t.Errorf("%s reads VIRTWARD_SOAK: call soak.On or soak.Only, so that make soak finds the package", folder)
		}
	}
	for _, pattern := range listed {
		if !used[pattern] && pattern != "TestE2E" { // its specs ask, and they are no functions
			t.Errorf("LONG in the Makefile has %s, and no test of this name asks whether it runs for long", pattern)
		}
	}
}

// direct is the name of a function that stands for a read of the variable itself.
const direct = "os.Getenv"

// functionsOfTests returns what each function of the tests of a folder names: by folder and function.
func functionsOfTests(t *testing.T) map[string]map[string]map[string]bool {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			_, missing := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "node_modules" || missing == nil) {
				return filepath.SkipDir // another module cannot import this package
			}
		case strings.HasSuffix(path, "_test.go"):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]map[string]bool{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		of := all[filepath.Dir(path)]
		if of == nil {
			of = map[string]map[string]bool{}
			all[filepath.Dir(path)] = of
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
				names := namesIn(f.Body)
				maps.Copy(names, of[f.Name.Name]) // methods of several types
				of[f.Name.Name] = names
			}
		}
		if strings.Contains(string(content), `Getenv("VIRTWARD_`+`SOAK")`) {
			of[direct] = nil
		}
	}
	return all
}

// namesIn returns the names in a function, also those of other packages, such as soak.On.
func namesIn(body ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names[n.Name] = true
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				names[of.Name+"."+n.Sel.Name] = true
			}
		}
		return true
	})
	return names
}

// longTests returns the tests that ask whether they run for long, also through other functions of the package.
func longTests(functions map[string]map[string]bool) []string {
	asks := map[string]bool{"soak.On": true, "soak.Only": true}
	for again := true; again; {
		again = false
		for name, names := range functions {
			for of := range names {
				if asks[of] && !asks[name] {
					asks[name], again = true, true
				}
			}
		}
	}
	var tests []string
	for name := range functions {
		if strings.HasPrefix(name, "Test") && asks[name] {
			tests = append(tests, name)
		}
	}
	return tests
}
