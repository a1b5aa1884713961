package webhooks

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/leaves"
)

func TestPatch(t *testing.T) {
	for name, test := range map[string]struct {
		original string
		changes  []provenance.Change
		want     string
	}{
		"nothing to do": {`{"spec":{}}`, nil, ``},
		"a field whose parent exists": {
			`{"spec":{"domain":{"cpu":{"cores":2}}}}`,
			[]provenance.Change{{Path: "spec.domain.cpu.model", Value: "host-model"}},
			`[{"op":"add","path":"/spec/domain/cpu/model","value":"host-model"}]`,
		},
		"a missing parent": {
			`{"spec":{"domain":{}}}`,
			[]provenance.Change{{Path: "spec.domain.cpu.cores", Value: 1}, {Path: "spec.architecture", Value: "amd64"}, {Path: "spec.domain.cpu.model", Value: "host-model"}},
			`[{"op":"add","path":"/spec/domain/cpu","value":{"cores":1,"model":"host-model"}},{"op":"add","path":"/spec/architecture","value":"amd64"}]`,
		},
		"a null parent": {
			`{"spec":{"domain":{"cpu":null}}}`,
			[]provenance.Change{{Path: "spec.domain.cpu.cores", Value: 1}},
			`[{"op":"add","path":"/spec/domain/cpu","value":{"cores":1}}]`,
		},
		"elements of lists, old and new": {
			`{"spec":{"disks":[{"name":"a"},{"name":"b","disk":{}}]}}`,
			[]provenance.Change{
				{Path: "spec.disks[2].name", Value: "c"},
				{Path: "spec.disks[0].disk.bus", Value: "sata"},
				{Path: "spec.disks[1].disk.bus", Value: "sata"},
				{Path: "spec.disks[2].disk.bus", Value: "sata"},
			},
			`[{"op":"add","path":"/spec/disks/2","value":{"disk":{"bus":"sata"},"name":"c"}},{"op":"add","path":"/spec/disks/0/disk","value":{"bus":"sata"}},{"op":"add","path":"/spec/disks/1/disk/bus","value":"sata"}]`,
		},
		"a missing list": {
			`{"spec":{}}`,
			[]provenance.Change{{Path: "spec.disks[0].name", Value: "a"}, {Path: "spec.disks[1].name", Value: "b"}},
			`[{"op":"add","path":"/spec/disks","value":[{"name":"a"},{"name":"b"}]}]`,
		},
		"keys are escaped": {
			`{"metadata":{"labels":{"a~b":"1"}}}`,
			[]provenance.Change{{Path: "metadata.labels[app.kubernetes.io/name]", Value: "db"}},
			`[{"op":"add","path":"/metadata/labels/app.kubernetes.io~1name","value":"db"}]`,
		},
		"a zero value is replaced": {
			`{"spec":{"disks":[{"disk":{"bus":""}}]}}`,
			[]provenance.Change{{Path: "spec.disks[0].disk.bus", Value: "sata"}},
			`[{"op":"add","path":"/spec/disks/0/disk/bus","value":"sata"}]`,
		},
		"a change below another change": {
			`{"spec":{}}`,
			[]provenance.Change{{Path: "spec.cpu", Value: map[string]any{"cores": 1, "model": "m"}}, {Path: "spec.cpu.model", Value: "m"}},
			`[{"op":"add","path":"/spec/cpu","value":{"cores":1,"model":"m"}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Patch([]byte(test.original), test.changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if got != nil {
				apply(t, []byte(test.original), got)
			}
		})
	}
}

func TestPatchOfInvalidPath(t *testing.T) {
	_, err := Patch([]byte(`{}`), []provenance.Change{{Path: "spec.disks[0", Value: 1}})
	if err == nil || err.Error() != "computing the patch of spec.disks[0: a bracket is not closed" {
		t.Errorf("error %v", err)
	}
}

func apply(t testing.TB, original, patch []byte) []byte {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("the patch does not decode: %v\n%s", err, patch)
	}
	applied, err := decoded.Apply(original)
	if err != nil {
		t.Fatalf("the patch does not apply: %v\n%s\nto %s", err, patch, original)
	}
	return applied
}

// TestPatchCompletesObjects applies the patch of every conformance case to the written object. The result is the
// completed object, with all fields that are unknown to the types.
func TestPatchCompletesObjects(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	pipeline := effective.NewPipeline(registry)
	facts := platform.Defaults(platform.Settings{})
	preset := v1.VirtualMachineInstancePreset{}
	preset.Name = "p"
	preset.Spec.Domain = &v1.DomainSpec{CPU: &v1.CPU{Cores: 3}}
	for i, written := range writtenVMIs(t) {
		var vmi v1.VirtualMachineInstance
		if err := json.Unmarshal(written, &vmi); err != nil {
			continue
		}
		in := effective.Input{VMI: &vmi, Facts: facts}
		if i%2 == 1 {
			in.Presets = []v1.VirtualMachineInstancePreset{preset}
		}
		verdict, err := pipeline.Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := Patch(written, verdict.Persist)
		if err != nil {
			t.Fatal(err)
		}
		patched := apply(t, written, patch)
		var got v1.VirtualMachineInstance
		if err := json.Unmarshal(patched, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(encoded(t, verdict.VMI), encoded(t, &got)); diff != "" {
			t.Errorf("case %d: patched and completed differ (-completed +patched):\n%s", i, diff)
		}
		before, after := genericLeaves(t, written), genericLeaves(t, patched)
		for _, path := range leaves.Lost(before, after) {
			number, isNumber := before[path].(float64)
			belowMinimum := isNumber && number < 1 && strings.Contains(path, "Probe.") // counts as not set
			if before[path] != "" && before[path] != 0.0 && before[path] != false && !belowMinimum {
				t.Errorf("case %d: the patch changed %s", i, path)
			}
		}
	}
}

func genericLeaves(t testing.TB, object []byte) map[string]any {
	t.Helper()
	all, err := leaves.Of("", json.RawMessage(object))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func encoded(t testing.TB, vmi *v1.VirtualMachineInstance) map[string]any {
	t.Helper()
	all, err := leaves.Of("", vmi)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func writtenVMIs(t testing.TB) [][]byte {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "conformance", "testdata", "admission.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var objects [][]byte
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var c struct {
			Kind   string
			Object json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Kind == "VirtualMachineInstance" {
			objects = append(objects, c.Object)
		}
	}
	if len(objects) < 1000 {
		t.Fatalf("only %d cases: %v", len(objects), lines.Err())
	}
	return objects
}
