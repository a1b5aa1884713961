package architectures

import (
	"path"
	"slices"
	"testing"

	v1 "kubevirt.io/api/core/v1"
)

// TestTable holds what each row needs: a name of its own, a section of its own, and a machine type that is allowed.
func TestTable(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("the names %v are not sorted, or not unique", names)
	}
	if !Known(Default) {
		t.Errorf("the default %s has no row", Default)
	}
	configuration := &v1.ArchConfiguration{}
	for _, a := range All() {
		if !slices.ContainsFunc(a.EmulatedMachines, func(glob string) bool { matches, err := path.Match(glob, a.MachineType); return matches && err == nil }) {
			t.Errorf("%s: the machine type %q is not in %v", a.Name, a.MachineType, a.EmulatedMachines)
		}
		for _, variant := range a.Imported {
			if !slices.Contains(a.Baselines, variant) {
				t.Errorf("%s: CDI imports %s, which does not mean the architecture itself", a.Name, variant)
			}
		}
		if a.Section == nil {
			continue
		}
		section := a.Section(configuration)
		if *section != nil {
			t.Errorf("%s has the section of another architecture", a.Name)
		}
		*section = &v1.ArchSpecificConfiguration{}
	}
}

func TestFind(t *testing.T) {
	if found, known := Find(ARM64); !known || found.MachineType != "virt" {
		t.Errorf("%+v, %v", found, known)
	}
	if Known("sparc64") || Known("") {
		t.Error("an unknown architecture is known")
	}
}

func TestSentence(t *testing.T) {
	if got, want := Sentence("or"), "amd64, arm64 or s390x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
