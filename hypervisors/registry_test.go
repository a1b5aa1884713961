package hypervisors_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/leaves"
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

// writers is what every provider built on mutators.BaseDefaults can tell.
type writers interface{ Writers() []mutators.Writer }

// TestEveryFieldHasOneWriter is contract 2: for one hypervisor and architecture no two steps write one field,
// nor one a field below the other's.
func TestEveryFieldHasOneWriter(t *testing.T) {
	r := registry(t)
	for _, key := range r.Keys() {
		hypervisor, architecture, _ := strings.Cut(key, "/")
		provider, err := r.Defaults(hypervisor, architecture)
		if err != nil {
			t.Fatal(err)
		}
		writerOf := map[string]string{}
		for _, w := range provider.(writers).Writers() {
			if len(w.Fields) == 0 {
				t.Errorf("%s: step %s of layer %s does not say what it writes", key, w.Step, w.Layer)
			}
			for _, f := range w.Fields {
				for other, step := range writerOf {
					if leaves.Covers(f, other) || leaves.Covers(other, f) {
						t.Errorf("%s: %s of %s and %s of %s write the same field", key, f, w.Step, other, step)
					}
				}
				writerOf[f] = w.Step
			}
		}
	}
}

// TestStepsWriteWhatTheySay completes every object of the conformance cases, and holds each change against
// what the steps of its layer say they write.
func TestStepsWriteWhatTheySay(t *testing.T) {
	r, facts := registry(t), platform.Defaults(platform.Settings{})
	index := regexp.MustCompile(`\[\d+\]`)
	for _, key := range r.Keys() {
		hypervisor, architecture, _ := strings.Cut(key, "/")
		provider, err := r.Defaults(hypervisor, architecture)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range specs(t) {
			spec.Architecture = architecture
			vmi := &v1.VirtualMachineInstance{Spec: *spec.DeepCopy()}
			rec := provenance.NewRecorder("spec")
			provider.SetDefaultVirtualMachineInstance(facts, vmi, rec)
			for _, c := range rec.Changes() {
				path := index.ReplaceAllString(strings.TrimPrefix(c.Path, "spec."), "[*]")
				if !writtenBy(provider.(writers).Writers(), c.Layer, path) {
					t.Fatalf("%s: layer %s wrote %s, which none of its steps says", key, c.Layer, c.Path)
				}
			}
		}
	}
}

func writtenBy(all []mutators.Writer, layer, path string) bool {
	for _, w := range all {
		for _, f := range w.Fields {
			if w.Layer == layer && leaves.Covers(f, path) {
				return true
			}
		}
	}
	return false
}

func specs(t *testing.T) []v1.VirtualMachineInstanceSpec {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "test", "conformance", "testdata", "admission.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []v1.VirtualMachineInstanceSpec
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var c struct {
			Object struct{ Spec json.RawMessage }
		}
		var spec v1.VirtualMachineInstanceSpec
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(c.Object.Spec, &spec) == nil {
			all = append(all, spec)
		}
	}
	if len(all) < 1000 {
		t.Fatalf("only %d specs: %v", len(all), lines.Err())
	}
	return all
}
