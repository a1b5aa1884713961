package worstcase

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/limits/memory"
)

const root = "../../.."

func chart(t *testing.T) Chart {
	t.Helper()
	c, err := ReadChart(filepath.Join(root, "charts", "virtward", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The worst case of each process does not exceed the memory limit that the Go runtime gets from the limit of the chart.
func TestFits(t *testing.T) {
	c := chart(t)
	for _, p := range Processes() {
		values, err := c.Of(&p)
		if err != nil {
			t.Error(err)
			continue
		}
		bounds, limit := p.Bounds(values), values.Resources.Limits.Memory.Value()
		total := memory.Total(bounds)
		t.Logf("%-24s %4d MiB of %d", p.Name, total>>20, limit>>20)
		if total > limit/100*startup.MemoryPercent {
			t.Errorf("%s may use %d MiB, more than %d percent of the chart's limit of %d MiB", p.Name, total>>20, startup.MemoryPercent, limit>>20)
		}
		names := map[string]bool{}
		for _, b := range bounds {
			if b.Name == "" || b.Subject == "" || b.Reason == "" || b.Bytes <= 0 {
				t.Errorf("%s: the bound is incomplete: %+v", p.Name, b)
			}
			if names[b.Name] {
				t.Errorf("%s counts %s twice", p.Name, b.Name)
			}
			names[b.Name] = true
		}
	}
}

// Each process that does not end is registered, and no other.
func TestTableOfProcesses(t *testing.T) {
	var want, got []string
	for _, p := range processes.All() {
		if !p.Job {
			want = append(want, p.Name)
		}
	}
	for _, p := range Processes() {
		got = append(got, p.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("the bounds are those of %v, and the table of processes has %v", got, want)
	}
}

// Each process with a memory limit in the chart is registered.
func TestProcessesOfTheChart(t *testing.T) {
	registered := map[string]bool{}
	for _, p := range Processes() {
		registered[strings.Join(append(slices.Clone(p.Values), "resources"), ".")] = true
	}
	found := limited(chart(t), nil)
	if len(found) == 0 {
		t.Fatal("the chart has no memory limit")
	}
	for _, path := range found {
		if !registered[path] && !slices.Contains(ofPods, path) {
			t.Errorf("the value %s.limits.memory belongs to no registered process", path)
		}
	}
}

// ofPods are the limits of pods that processes create.
var ofPods = []string{"templates.exports.server.resources", "templates.imports.server.resources"}

// limited returns the paths of resources with a memory limit.
func limited(at map[string]any, path []string) (found []string) {
	for _, key := range slices.Sorted(maps.Keys(at)) {
		below, isMap := at[key].(map[string]any)
		if !isMap {
			continue
		}
		here := append(slices.Clone(path), key)
		if limits, ok := below["limits"].(map[string]any); ok && limits["memory"] != nil {
			found = append(found, strings.Join(here, "."))
		}
		found = append(found, limited(below, here)...)
	}
	return found
}

const prefix = "WorstCase"

// declarations are the functions of the tree whose name begins with WorstCase, as FOLDER.NAME.
func declarations(t *testing.T) []string {
	t.Helper()
	var declared []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, prefix) {
				declared = append(declared, filepath.ToSlash(folder)+"."+f.Name.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}

// Each function of the tree whose name begins with WorstCase is registered.
func TestRegistered(t *testing.T) {
	registered := registrations(t)
	for _, f := range declarations(t) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(registered)), func(bounds map[string]bool) bool { return bounds[f] }) {
			t.Errorf("no process registers %s", f)
		}
	}
}

// A page that lacks a table, or has one too many, is an error.
func TestPage(t *testing.T) {
	c := chart(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	if same, err := Page(string(page), c); err != nil || same != string(page) {
		t.Errorf("docs/memory.md is out of date: run make generate (%v)", err)
	}
	for name, wrong := range map[string]string{
		"no lines": strings.Replace(string(page), "<!-- generated: memory of virtward-apiserver -->", "", 1),
		fmt.Sprintf("for %d processes", len(Processes())): string(page) + "<!-- generated: memory of virtward-other -->\n<!-- end -->\n",
	} {
		if _, err := Page(wrong, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error is %v, without %q", err, name)
		}
	}
}
