package labels_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/nodelabels"
)

const folder = "../../examples/nodes/"

func row(text, key string) string {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == key {
			return strings.Join(fields[1:], " ")
		}
	}
	return ""
}

func documents(more ...string) []string {
	return append([]string{"nodelabels", "-f", folder + "domcapabilities.xml", "-f", folder + "baseline.xml", "-f", folder + "capabilities.xml"}, more...)
}

func TestLabels(t *testing.T) {
	kubeVirt := filepath.Join(t.TempDir(), "kubevirt.yaml")
	if err := os.WriteFile(kubeVirt, []byte("minCPUModel: Penryn\nobsoleteCPUModels: {EPYC-Rome: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cpuInfo := filepath.Join(t.TempDir(), "cpuinfo")
	if err := os.WriteFile(cpuInfo, []byte("flags : svm\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := clitest.Call(t, "", documents("--kubevirt", kubeVirt, "--cpuinfo", cpuInfo, "--hyperv-feature", "vpindex", "--sched-rt-runtime", "-1")...)
	for key, want := range map[string]string{
		"cpu-model.node.kubevirt.io/EPYC":      "true KubeVirt",
		"cpu-model.node.kubevirt.io/EPYC-Rome": "",
		"cpu-feature.node.kubevirt.io/svm":     "true KubeVirt",
		"machine-type.node.kubevirt.io/q35":    "true KubeVirt",
		"hyperv.node.kubevirt.io/vpindex":      "true KubeVirt",
		"kubevirt.io/realtime":                 "true KubeVirt",
		"machine-type.node.kubevirt.io/virt":   "true KubeVirt the machine type is of another architecture: the node runs no virtual machine of amd64 with it",
		"spec.configuration.minCPUModel":       "none the field has no effect: list models in obsoleteCPUModels",
		"hypervisor.node.virtward.io/kvm":      "ready Virtward",
		"hypervisor.node.virtward.io/mshv":     "no-device Virtward",
		"kvm.node.virtward.io/secure-boot":     "true Virtward",
		"cpu.node.virtward.io/virtualization":  "svm Virtward",
	} {
		if found := row(got.Out, key); found != want {
			t.Errorf("%s: %q, want %q", key, found, want)
		}
	}
	if got.Code != clitest.ExitOK || got.ErrOut != "" {
		t.Errorf("code %d, errors %q\n%s", got.Code, got.ErrOut, got.Out)
	}
}

// TestPage holds that docs/nodes.md has every capability of every hypervisor.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, architecture := range architectures.Names() {
		labellers, err := registry.Labellers(architecture)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range labellers {
			for _, row := range l.Labeller.(*nodelabels.BaseLabeller).Table() {
				if !strings.Contains(string(page), "`"+row.Name+"`") {
					t.Errorf("docs/nodes.md does not have the capability %s of %s", row.Name, l.Hypervisor)
				}
			}
		}
	}
	for _, state := range []nodelabels.State{nodelabels.NoDevice, nodelabels.NoDriver, nodelabels.NoResource, nodelabels.NoDomains, nodelabels.Ready} {
		if !strings.Contains(string(page), "| `"+string(state)+"` |") {
			t.Errorf("docs/nodes.md does not have the state %s", state)
		}
	}
}

func TestJSON(t *testing.T) {
	got := clitest.Call(t, "", documents("-o", "json")...)
	if got.Code != clitest.ExitOK || !strings.Contains(got.Out, `"key": "kvm.node.virtward.io/efi"`) {
		t.Errorf("code %d, errors %q\n%s", got.Code, got.ErrOut, got.Out)
	}
}

func TestWrongCalls(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"nodelabels"}, clitest.ExitUsage, "add libvirt's documents with -f: see kubectl virtward nodelabels --help"},
		{[]string{"nodelabels", "-f", folder + "domcapabilities.xml"}, clitest.ExitFailed, "no capabilities of the host: KubeVirt's virt-handler does not start without them: add the document as --help shows"},
		{[]string{"nodelabels", "-f", folder + "domcapabilities.xml", "-f", folder + "domcapabilities.xml"}, clitest.ExitFailed, folder + "domcapabilities.xml: two documents have the element <domainCapabilities>"},
		{[]string{"nodelabels", "-f", "../../examples/vm-arm64.yaml"}, clitest.ExitFailed, "the document has no element"},
		{documents("--arch", "riscv64"), clitest.ExitUsage, "riscv64"},
	} {
		got := clitest.Call(t, "", tc.args...)
		if got.Code != tc.code || !strings.Contains(got.ErrOut, tc.want) || got.Out != "" {
			t.Errorf("%v: code %d, errors %q, want %q\n%s", tc.args, got.Code, got.ErrOut, tc.want, got.Out)
		}
	}
}
