package templates

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Every text of a VirtualMachine has a form. A text that a version of KubeVirt adds is missing in the file: find out what
// reads it before you add it.
func TestFormOfEachText(t *testing.T) {
	const golden = "testdata/texts.txt"
	var paths []string
	eachLeaf(virtualMachineShape(), nil, nil, func(path []step) { paths = append(paths, patternOf(path)+" "+formOf(path).String()) })
	slices.Sort(paths)
	got := strings.Join(slices.Compact(paths), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("texts (-want +got): decide the form of each in textForms, then run the test with -update:\n%s", diff)
	}
	known := map[string]bool{}
	for _, line := range paths {
		path, _, _ := strings.Cut(line, " ")
		known[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(textForms())) {
		if !known[path] {
			t.Errorf("textForms has %s, which is no text of a VirtualMachine", path)
		}
	}
}

// eachLeaf calls do for the path of each text. above are the shapes above, as a type can contain itself.
func eachLeaf(s *shape, path []step, above []*shape, do func([]step)) {
	if slices.Contains(above, s) {
		return
	}
	above = append(slices.Clip(above), s)
	switch s.kind {
	case textKind, anything:
		do(path)
	case object:
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			if len(path) > 0 || name != "status" {
				eachLeaf(s.fields[name], append(slices.Clip(path), step{name: name}), above, do)
			}
		}
	case dictionary:
		eachLeaf(s.element, append(slices.Clip(path), step{kind: keyStep}), above, do)
	case list:
		eachLeaf(s.element, append(slices.Clip(path), step{kind: indexStep}), above, do)
	}
}
