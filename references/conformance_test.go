package references_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/references"
)

// admissionCase is as much of a line of admission.jsonl as lookups have to do with.
type admissionCase struct {
	ID, Area, Kind, Operation string
	DefaultArchitecture       string
	Object, OldObject         *v1.VirtualMachine
	Cluster                   []map[string]any
	Expect                    struct {
		Mutated *v1.VirtualMachineSpec
		Causes  []struct{ Field, Type string }
		Extra   struct{ Stage string }
	}
}

// TestConformance replays what KubeVirt made of the matchers, the memory and the architecture of a VM, and
// which VMs it rejected before it came to validating them.
func TestConformance(t *testing.T) {
	ran := 0
	for _, c := range readCases(t, "admission.jsonl", "vm-instancetype", "vm-dvt") {
		t.Run(c.ID, func(t *testing.T) { replay(t, c) })
		ran++
	}
	if ran < 60 {
		t.Errorf("only %d cases ran", ran)
	}
}

// TestPanics replays those VMs on which KubeVirt's expansion crashes: here they get an error.
func TestPanics(t *testing.T) {
	want := map[string]string{
		"panics-pref-cpufeatures-no-cpu": `spec.template.spec.domain.cpu: Required value: preference "pf" adds CPU features, which KubeVirt can do only to a VM that has domain.cpu or an instancetype`,
		"panics-spread-ratio-0":          `spec.preference: Invalid value: "pf": its spec.cpu.spreadOptions.ratio is 0, but vCPUs are divided by it: it must be 1 or more`,
	}
	got := map[string]string{}
	for _, c := range readCases(t, "panics.jsonl", "panics") {
		if want[c.ID] == "" {
			continue // not about instancetypes
		}
		found, _, err := references.References(t.Context(), memoryOf(t, c), c.Object)
		if err != nil {
			t.Fatal(err)
		}
		_, errs := instancetypes.Expand(instancetypes.TemplateOf(c.Object), found.Instancetype, found.Preference, provenance.NewRecorder(""))
		if len(errs) == 1 {
			got[c.ID] = errs[0].Error()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func memoryOf(t *testing.T, c admissionCase) *references.Memory {
	t.Helper()
	var cluster []*unstructured.Unstructured
	for _, obj := range c.Cluster {
		cluster = append(cluster, &unstructured.Unstructured{Object: obj})
	}
	objects, err := references.NewMemory("default", cluster...)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func readCases(t *testing.T, name string, areas ...string) []admissionCase {
	t.Helper()
	file, err := os.Open("../conformance/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var cases []admissionCase
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var head struct{ Area, Kind string }
		if err := json.Unmarshal(scanner.Bytes(), &head); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(areas, head.Area) || head.Kind != "VirtualMachine" {
			continue
		}
		var c admissionCase
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

func replay(t *testing.T, c admissionCase) {
	objects := memoryOf(t, c)
	vm := c.Object
	var errs field.ErrorList
	if c.Operation == "UPDATE" {
		errs = instancetypes.CheckMatcherUpdate(vm, c.OldObject)
	}
	found, _, err := references.References(t.Context(), objects, vm)
	if err != nil {
		t.Fatal(err)
	}
	errs = append(errs, found.Conflicts...)
	if c.Expect.Extra.Stage == "mutate" {
		checkRejection(t, c, errs)
		return
	}
	if len(errs) > 0 {
		t.Fatalf("KubeVirt rejects nothing here, we say %v", errs)
	}
	want := c.Expect.Mutated
	if want == nil {
		return
	}
	found.ApplyTo(vm)
	instancetypes.ApplyToVM(vm, found.Preference, provenance.NewRecorder(""))
	got := &vm.Spec
	if diff := cmp.Diff(want.Instancetype, got.Instancetype); diff != "" {
		t.Errorf("instancetype (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Preference, got.Preference); diff != "" {
		t.Errorf("preference (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.DataVolumeTemplates, got.DataVolumeTemplates); diff != "" {
		t.Errorf("dataVolumeTemplates (-want +got):\n%s", diff)
	}
	if (want.Template.Spec.Domain.Memory == nil) != (got.Template.Spec.Domain.Memory == nil) {
		t.Errorf("memory: want %v, got %v", want.Template.Spec.Domain.Memory, got.Template.Spec.Domain.Memory)
	}
	if want := want.Template.Spec.Architecture; want != architectureOf(t, c, objects, vm) {
		t.Errorf("architecture: want %s, got %s", want, architectureOf(t, c, objects, vm))
	}
}

func architectureOf(t *testing.T, c admissionCase, objects references.Objects, vm *v1.VirtualMachine) string {
	t.Helper()
	if architecture := vm.Spec.Template.Spec.Architecture; architecture != "" {
		return architecture
	}
	source, _, err := references.DataSourceArchitecture(t.Context(), objects, vm)
	switch {
	case err != nil:
		t.Fatal(err)
	case source != nil:
		return source.Architecture
	case c.DefaultArchitecture != "":
		return c.DefaultArchitecture
	}
	return architectures.AMD64
}

// checkRejection compares field and type where KubeVirt gives them; it rejects a failed inference without.
func checkRejection(t *testing.T, c admissionCase, errs field.ErrorList) {
	t.Helper()
	if len(errs) == 0 {
		t.Fatal("KubeVirt rejects this, we do not")
	}
	if len(c.Expect.Causes) == 0 {
		for _, err := range errs {
			if !strings.HasSuffix(err.Field, ".inferFromVolume") {
				t.Errorf("want an error at inferFromVolume, got %v", err)
			}
		}
		return
	}
	var want, got []string
	for _, cause := range c.Expect.Causes {
		want = append(want, cause.Field+" "+cause.Type)
	}
	for _, err := range errs {
		got = append(got, err.Field+" "+string(err.Type))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}
