package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// InstancetypeCase is one recorded expansion: a line of instancetype.jsonl.
type InstancetypeCase struct {
	ID   string `json:"id"`
	Area string `json:"area"`
	// Instancetype and Preference are specs; nil where the VM has none.
	Instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec `json:"instancetype"`
	Preference   *instancetypev1beta1.VirtualMachinePreferenceSpec   `json:"preference"`
	// VMI is the spec of the VM's template as written.
	VMI v1.VirtualMachineInstanceSpec `json:"vmi"`
	// Annotations of the VM's template as written.
	Annotations map[string]string  `json:"annotations,omitempty"`
	Expect      InstancetypeAnswer `json:"expect"`
}

// InstancetypeAnswer is what KubeVirt made of it. What it says of the instancetype and the preference by
// themselves (instancetypeAdmit, preferenceAdmit) is about other webhooks and not read.
type InstancetypeAnswer struct {
	// Spec after applying both; null with conflicts.
	Spec json.RawMessage `json:"spec"`
	// Conflicts are field paths, in order.
	Conflicts []string `json:"conflicts"`
	// Annotations of the VMI afterwards; null with conflicts.
	Annotations map[string]string `json:"annotations"`
	// SpreadConflict is the field at which the VM is refused because its vCPUs cannot be spread.
	SpreadConflict string `json:"spreadConflict,omitempty"`
	// RequirementConflicts are the fields of the first requirement of the preference that is not met.
	RequirementConflicts []string `json:"requirementConflicts,omitempty"`
}

// ReadInstancetypeCases reads a file of cases, one a line.
func ReadInstancetypeCases(r io.Reader) ([]InstancetypeCase, error) {
	var cases []InstancetypeCase
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for line := 1; scanner.Scan(); line++ {
		if len(strings.TrimSpace(scanner.Text())) == 0 {
			continue
		}
		var c InstancetypeCase
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		cases = append(cases, c)
	}
	return cases, scanner.Err()
}

// aliases are KubeVirt's names of fields whose real path is another one.
func aliases() map[string]string {
	return map[string]string{
		"spec.template.spec.domain.cpu.dedicatedCPUPlacement": "spec.template.spec.domain.cpu.dedicatedCpuPlacement",
		"instancetype.spec.cpu.guest":                         "spec.instancetype",
	}
}

// realPath is the path in the VM of a field as KubeVirt names it.
func realPath(path string) string {
	if alias, ok := aliases()[path]; ok {
		return alias
	}
	if key, ok := strings.CutPrefix(path, "annotations."); ok {
		return field.NewPath("spec", "template", "metadata", "annotations").Key(key).String()
	}
	return path
}

// Check replays the case and returns what differs from KubeVirt's answer, one line each; nothing if all agrees.
func (c InstancetypeCase) Check() []string {
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: *c.VMI.DeepCopy()}}}
	vm.Spec.Template.ObjectMeta.Annotations = c.Annotations
	var in *instancetypes.Instancetype
	if c.Instancetype != nil {
		in = &instancetypes.Instancetype{Kind: instancetypes.KindClusterInstancetype, Name: "it", Spec: *c.Instancetype}
	}
	var pref *instancetypes.Preference
	if c.Preference != nil {
		pref = &instancetypes.Preference{Kind: instancetypes.KindClusterPreference, Name: "pf", Spec: *c.Preference}
	}
	target := instancetypes.TemplateOf(vm)

	added, conflicts := instancetypes.Expand(target, in, pref, provenance.NewRecorder("spec.template.spec"))
	found := listDifferences("conflicts", c.Expect.Conflicts, pathsOf(conflicts))
	found = append(found, c.checkSpread(target, in, pref)...)
	if len(conflicts) > 0 || len(c.Expect.Conflicts) > 0 {
		return found
	}
	found = append(found, c.checkSpec(target.Spec)...)
	found = append(found, c.checkAnnotations(added)...)
	return append(found, c.checkRequirements(target, in, pref)...)
}

func (c InstancetypeCase) checkSpread(target instancetypes.Target, in *instancetypes.Instancetype, pref *instancetypes.Preference) []string {
	want, got := realPath(c.Expect.SpreadConflict), ""
	if err := instancetypes.CheckSpread(target, in, pref); err != nil {
		got = err.Field
	}
	if want != got {
		return []string{fmt.Sprintf("spreadConflict: want %q, got %q", want, got)}
	}
	return nil
}

func (c InstancetypeCase) checkSpec(spec *v1.VirtualMachineInstanceSpec) []string {
	want, err := FromJSON(c.Expect.Spec)
	if err != nil {
		return []string{fmt.Sprintf("expect.spec: %v", err)}
	}
	got, err := ToJSON(spec)
	if err != nil {
		return []string{fmt.Sprintf("spec: %v", err)}
	}
	var all []string
	for _, d := range Differences(Normalize(want), Normalize(got)) {
		all = append(all, "spec."+d)
	}
	return all
}

func (c InstancetypeCase) checkAnnotations(added map[string]string) []string {
	got := map[string]any{}
	for _, annotations := range []map[string]string{added, c.Annotations} {
		for key, value := range annotations {
			got[key] = value
		}
	}
	want := map[string]any{}
	for key, value := range c.Expect.Annotations {
		want[key] = value
	}
	return Differences(map[string]any{"annotations": want}, map[string]any{"annotations": got})
}

// checkRequirements looks at the spec with the defaults of an amd64 cluster. KubeVirt stops at the first
// requirement that is not met and we do not, so its list has to be the beginning of ours.
func (c InstancetypeCase) checkRequirements(target instancetypes.Target, in *instancetypes.Instancetype, pref *instancetypes.Preference) []string {
	completed := target
	completed.Spec = target.Spec.DeepCopy()
	if completed.Spec.Architecture == "" {
		completed.Spec.Architecture = platform.AMD64
	}
	cpu := provenance.Ensure(&completed.Spec.Domain.CPU)
	if cpu.Sockets == 0 && cpu.Cores == 0 && cpu.Threads == 0 {
		cpu.Sockets, cpu.Cores, cpu.Threads = 1, 1, 1
	}
	want, got := c.Expect.RequirementConflicts, pathsOf(instancetypes.Requirements(completed, in, pref))
	if len(want) > 0 && len(got) > len(want) {
		got = got[:len(want)]
	}
	return listDifferences("requirementConflicts", want, got)
}

func pathsOf(errs field.ErrorList) []string {
	paths := make([]string, len(errs))
	for i, err := range errs {
		paths[i] = err.Field
	}
	return paths
}

func listDifferences(name string, want, got []string) []string {
	real := make([]string, len(want))
	for i, path := range want {
		real[i] = realPath(path)
	}
	if slices.Equal(real, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s: want [%s], got [%s]", name, strings.Join(real, " "), strings.Join(got, " "))}
}
