package hypervisors_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

func registry(t *testing.T) *hypervisors.Registry {
	t.Helper()
	r, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKeys(t *testing.T) {
	want := []string{"kvm/amd64", "kvm/arm64", "kvm/s390x", "mshv/amd64", "mshv/arm64", "mshv/s390x"}
	if diff := cmp.Diff(want, registry(t).Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestANameGivenTwice(t *testing.T) {
	_, err := hypervisors.NewRegistry(append(hypervisors.BuiltIn(), hypervisors.BuiltIn()[0])...)
	if err == nil || err.Error() != "two hypervisors are registered under kvm/amd64" {
		t.Errorf("error %v", err)
	}
}

// TestTuners holds that no hypervisor has a tuner whose processes KubeVirt tunes.
func TestTuners(t *testing.T) {
	for name, want := range map[string]string{
		"kvm": "KubeVirt's virt-handler tunes the processes of kvm itself", "hyperv-direct": "KubeVirt's virt-handler tunes the processes of hyperv-direct itself", "mshv": "",
	} {
		form, err := platform.HypervisorByName(name)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := registry(t).Tuner(form, "amd64"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: error %q, want %q", name, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	r := registry(t)
	_, err := r.Defaults("xen", "amd64")
	if err == nil || !strings.HasPrefix(err.Error(), "no hypervisor is registered under xen/amd64") {
		t.Errorf("error %v", err)
	}
	unknown, err := r.Defaults("kvm", "riscv64")
	if err != nil {
		t.Fatal(err)
	}
	if amd64, _ := r.Defaults("kvm", "amd64"); unknown != amd64 {
		t.Error("an unknown architecture is not completed as amd64")
	}
}

// TestEveryHypervisorRunsTheSuite: each folder of a hypervisor runs the conformance suite.
func TestEveryHypervisorRunsTheSuite(t *testing.T) {
	for _, h := range hypervisors.BuiltIn() {
		text, err := os.ReadFile(filepath.Join(h.Name, h.Name+"_test.go"))
		if err != nil || !strings.Contains(string(text), "hypervisor.Run(t, ") {
			t.Errorf("the folder %s does not run conformance/hypervisor in %s_test.go: %v", h.Name, h.Name, err)
		}
	}
}

func TestSupport(t *testing.T) {
	r := registry(t)
	named := func(hypervisor, architecture string) map[string]validators.Level {
		levels := map[string]validators.Level{}
		for _, line := range r.Support(hypervisor, architecture) {
			levels[line.Capability.Name] = line.Level
		}
		return levels
	}
	for _, tc := range []struct {
		hypervisor, architecture, capability string
		want                                 validators.Level
	}{
		{"kvm", "amd64", "vsock", validators.Experimental},
		{"mshv", "s390x", "vsock", validators.Experimental},
		{"kvm", "amd64", "sound", ""},
		{"kvm", "arm64", "sound", validators.Unsupported},
		{"mshv", "arm64", "sound", validators.Unsupported},
		{"kvm", "amd64", "sev", validators.Experimental},
		{"kvm", "s390x", "sev", ""},
		{"kvm", "amd64", "mshv", ""},
		{"mshv", "arm64", "mshv", validators.Experimental},
		{"mshv", "amd64", "other-cpu-model", validators.Unsupported},
		{"mshv", "arm64", "other-cpu-model", ""},
		{"kvm", "amd64", "other-cpu-model", ""},
	} {
		if got := named(tc.hypervisor, tc.architecture)[tc.capability]; got != tc.want {
			t.Errorf("%s of %s/%s is %q, want %q", tc.capability, tc.hypervisor, tc.architecture, got, tc.want)
		}
	}
}

func TestSupportThatIsRejected(t *testing.T) {
	line := validators.Support{
		Hypervisor: "kvm", Capability: validators.Capability{Name: "tpm", Title: "A TPM"}, Level: validators.Unsupported,
		Rule: "device-vsock-gate", Detail: "there is none", Source: "a test",
	}
	for _, tc := range []struct {
		name   string
		change func(*validators.Support)
		want   string
	}{
		{"a rule that is checked", func(*validators.Support) {}, ""},
		{
			"a rule that does not exist", func(s *validators.Support) { s.Rule = "kvm-tpm" },
			"the capability \"tpm\" of kvm/any has the rule kvm-tpm, which kvm/amd64 does not check",
		},
		{
			"another hypervisor", func(s *validators.Support) { s.Hypervisor = "mshv" },
			"the hypervisor kvm says of mshv/any whether it has the capability \"tpm\"",
		},
		{
			"every hypervisor", func(s *validators.Support) { s.Hypervisor = "" },
			"the hypervisor kvm says of any/any whether it has the capability \"tpm\"",
		},
		{
			"a line that is not whole", func(s *validators.Support) { s.Source = "" },
			"the capability table: capability \"tpm\" of kvm/any has no source",
		},
	} {
		kvm := hypervisors.BuiltIn()[0]
		changed := line
		tc.change(&changed)
		kvm.Support = validators.SupportTable{changed}
		got := ""
		if _, err := hypervisors.NewRegistry(kvm); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", tc.name, got, tc.want)
		}
	}
}
