package extension

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtward/virtward/test/soak"
)

// mostFilesOfArchitecture bounds the files that are edited by hand to add an architecture.
const mostFilesOfArchitecture = 6

// riscv64 are the edits that add an architecture.
var riscv64 = []edit{
	{"api/architectures/architectures.go", "\tS390X = \"s390x\"\n", "\tRISCV64 = \"riscv64\"\n"},
	{"api/architectures/architectures.go", "\t\t{\n\t\t\tName: S390X,", "\t\t{Name: RISCV64, MachineType: \"virt\", EmulatedMachines: []string{\"virt*\"}},\n"},
	{"mutators/architectures.go", "s390x()} }", "riscv64(), "},
	{"mutators/architectures.go", "// diskBus is the bus", `func riscv64() Layer {
	return Layer{
		Name: architectures.RISCV64,
		Steps: []Step{
			{Name: "machine-type", Writes: []string{"domain.machine.type"}, OnVM: true, BeforeStart: true, Fill: machineType(architectures.RISCV64)},
			{Name: "disk-bus", Writes: diskBuses, Fill: diskBus(v1.DiskBusVirtio)},
		},
		Finalize: []Step{{Name: "max-guest"}},
	}
}

`},
	{"validators/capabilities.go", "s390xSupport())", "riscv64Support(), "},
	{"validators/architectures.go", "func s390xSupport()", "func riscv64Support() SupportTable { return growing(architectures.RISCV64) }\n\n"},
}

// TestArchitecture holds that the edits apply, and how many files they need.
func TestArchitecture(t *testing.T) {
	applied(t, root, riscv64)
	if n := files(riscv64); n > mostFilesOfArchitecture {
		t.Errorf("an architecture needs edits of %d files, want at most %d", n, mostFilesOfArchitecture)
	}
}

// TestSearch holds that the command of CONTRIBUTING.md finds the places that ask for one architecture, and no others.
func TestSearch(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^    git grep -nE '(architectures.*)' -- `).FindSubmatch(page)
	if command == nil {
		t.Fatal("CONTRIBUTING.md has no command")
	}
	search := regexp.MustCompile(string(command[1]))
	for line, want := range map[string]bool{"if s.architecture() != architectures.AMD64 {": true, "architectures.Names()": false, "api/architectures/architectures.go": false} {
		if search.MatchString(line) != want {
			t.Errorf("%s finds %q: %t", search, line, !want)
		}
	}
}

// riscv64Node is a test of the plan of golden images in the copy.
const riscv64Node = `package goldenimages

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

func TestRISCV64(t *testing.T) {
	node := corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{Architecture: "riscv64"}}}
	found := Survey([]corev1.Node{node}, nil)
	if len(found.WorkloadArchitectures) != 1 || found.WorkloadArchitectures[0] != (v1alpha1.ArchitectureCount{Architecture: "riscv64", Nodes: 1}) || found.DefaultArchitecture != "riscv64" {
		t.Errorf("%+v", found)
	}
}
`

// TestSoakArchitecture evaluates a virtual machine of the new architecture, and surveys a node of it. It is a soak test, because
// the copy is compiled.
func TestSoakArchitecture(t *testing.T) {
	soak.Only(t)
	c := copyTree(t, riscv64)
	c.run("go", "generate", "./api/architectures", "./api/policy/v1alpha1")
	for _, file := range []string{
		"charts/virtward-common-templates/values.schema.json", "charts/virtward/definitions/policy.virtward.io_virtualmachinedefaults.yaml",
		"charts/virtward/definitions/policy.virtward.io_virtualmachinepolicies.yaml",
	} {
		if !strings.Contains(c.read(file), "riscv64") {
			t.Errorf("%s lacks riscv64", file)
		}
	}
	c.run("go", "build", "-ldflags", "-s -w", "-o", "kubectl-virtward", "./cmd/kubectl-virtward")
	output := c.run("./kubectl-virtward", "explain", "-f", "examples/vmi.yaml", "--arch", "riscv64", "--output", "table")
	for _, line := range []string{`spec\.architecture +riscv64 `, `spec\.domain\.machine\.type +virt +riscv64`, `spec\.domain\.devices\.disks\[0\]\.disk\.bus +virtio +riscv64`} {
		if !regexp.MustCompile(line).MatchString(output) {
			t.Errorf("the effective instance lacks %s:\n%s", line, output)
		}
	}
	c.write("goldenimages/riscv64_test.go", []byte(riscv64Node))
	c.goTest("^TestRISCV64$", "./goldenimages")
	c.goTest("^(TestTable|TestGenerated|TestLayersOfArchitectures)$", "./api/architectures/...", "./mutators")
}
