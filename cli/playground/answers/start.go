package answers

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/cli/playground/lessons"
	"github.com/virtward/virtward/examples"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/schemas"
)

// The names of the files that the page begins with.
const (
	machinesFile = "vm.yaml"
	objectsFile  = "objects.yaml"
	policyFile   = library.PolicyFile
	suiteFile    = library.SuiteFile
)

// Start is what the page shows first.
type Start struct {
	// Files are the files to begin with.
	Files []File `json:"files"`
	// Notes say what of the cluster is not in the files.
	Notes            []string  `json:"notes,omitempty"`
	Hypervisors      []string  `json:"hypervisors"`
	Architectures    []string  `json:"architectures"`
	KubeVirtVersions []string  `json:"kubeVirtVersions"`
	MaxPlatforms     int       `json:"maxPlatforms"`
	MaxFiles         int       `json:"maxFiles"`
	MaxFile          int       `json:"maxFile"`
	MaxBytes         int       `json:"maxBytes"`
	Examples         []Example `json:"examples"`
	// Lessons are the lessons, in their order.
	Lessons []lessons.Lesson `json:"lessons"`
	// Lesson is the name of the lesson to begin with; empty for none.
	Lesson string `json:"lesson,omitempty"`
}

// Example is one that the page offers.
type Example struct {
	// Group is a heading of several examples.
	Group string `json:"group"`
	Title string `json:"title"`
	Files []File `json:"files"`
}

// NewStart returns the start with the first example.
func NewStart() Start {
	all := append(tour(), libraryExamples()...)
	return Start{
		Files: all[0].Files, Hypervisors: platform.HypervisorNames(), Architectures: architectures.Names(), KubeVirtVersions: schemas.Minors(),
		MaxPlatforms: MaxPlatforms, MaxFiles: MaxFiles, MaxFile: MaxFile, MaxBytes: MaxBytes, Examples: all, Lessons: lessons.All(),
	}
}

// joined appends documents to a text.
func joined(before, text string) string {
	if before == "" {
		return text
	}
	return strings.TrimSuffix(before, "\n") + "\n---\n" + text
}

// tour are the examples of the tour, from the folder examples.
func tour() (all []Example) {
	example := func(title string, files ...File) {
		all = append(all, Example{Group: "The tour", Title: title, Files: files})
	}
	of := func(name string, parts ...string) File {
		f := File{Name: name}
		for _, part := range parts {
			f.Text = joined(f.Text, textOf(examples.Files(), part))
		}
		return f
	}
	sizes := of(objectsFile, "instancetype-m1-large.yaml", "instancetype-u1-medium.yaml")
	fedora := of(objectsFile, "instancetype-u1-medium.yaml", "preference-fedora.yaml")
	suite := of(suiteFile, "policy/memory-limit/suite.yaml")
	suite.Text = strings.NewReplacer(
		"../../instancetype-m1-large.yaml, ../../instancetype-u1-medium.yaml", objectsFile, "../../vm-analytics.yaml", machinesFile,
	).Replace(suite.Text)
	example("A policy denies a VM because of its instancetype", of(machinesFile, "vm-analytics.yaml"), sizes, of(policyFile, "policy/memory-limit/policy.yaml"), suite)
	example("An instancetype and a preference", of(machinesFile, "vm-fedora.yaml"), fedora)
	example("A VM for arm64", of(machinesFile, "vm-arm64.yaml"))
	example("A BIOS and a SATA disk on arm64", of(machinesFile, "rejected/vm-arm64.yaml"))
	example("A preference that arm64 does not support", of(machinesFile, "rejected/vm-arm64-by-preference.yaml"), of(objectsFile, "preference-old-pc.yaml"))
	example("A cluster on Microsoft's hypervisor", of(machinesFile, "vm-fedora.yaml"), fedora, of("kubevirt.yaml", "kubevirt/mshv.yaml"))
	example("A VM with a volume of its own", of(machinesFile, "templates/database.yaml"))
	return all
}

// libraryExamples are the policies of the library with their suites and the files of these, beside a VM.
func libraryExamples() (all []Example) {
	for _, entry := range library.All() {
		files, err := fs.ReadDir(library.Files(), entry.Name)
		if err != nil {
			panic(err) // the folders are embedded
		}
		e := Example{Group: "The policy library", Title: entry.Name + ": " + entry.Title}
		for _, file := range files {
			e.Files = append(e.Files, File{Name: file.Name(), Text: textOf(library.Files(), path.Join(entry.Name, file.Name()))})
		}
		if !slices.ContainsFunc(e.Files, func(f File) bool { return f.Name == machinesFile }) {
			objects := File{Name: "fedora.yaml", Text: joined(textOf(examples.Files(), "instancetype-u1-medium.yaml"), textOf(examples.Files(), "preference-fedora.yaml"))}
			e.Files = append(e.Files, File{Name: machinesFile, Text: textOf(examples.Files(), "vm-fedora.yaml")}, objects)
		}
		slices.SortStableFunc(e.Files, func(a, b File) int { return place(a.Name) - place(b.Name) })
		all = append(all, e)
	}
	return all
}

// place is the place of a file on the page: the virtual machine, the policy, its suite, and then the others.
func place(name string) int {
	return slices.Index([]string{suiteFile, policyFile, machinesFile}, name) * -1
}

// textOf returns an embedded file, whose name is a constant.
func textOf(files fs.FS, name string) string {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		panic(fmt.Sprintf("virtward: %v", err)) // a test covers all examples
	}
	return string(data)
}
