package conformance

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/hypervisors/kvm"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/validators"
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

// InstancetypeAnswer is the result of KubeVirt.
type InstancetypeAnswer struct {
	// Spec after applying both; null with conflicts.
	Spec json.RawMessage `json:"spec"`
	// Conflicts are field paths, in order.
	Conflicts []string `json:"conflicts"`
	// Annotations of the VMI afterwards; null with conflicts.
	Annotations map[string]string `json:"annotations"`
	// SpreadConflict is the field at which the VM is rejected because its vCPUs cannot be spread.
	SpreadConflict string `json:"spreadConflict,omitempty"`
	// RequirementConflicts are the fields of the first requirement of the preference that is not met.
	RequirementConflicts []string `json:"requirementConflicts,omitempty"`
	// InstancetypeAdmit and PreferenceAdmit are what the webhooks said that guard those objects; nil where the
	// case has none.
	InstancetypeAdmit *ObjectAnswer `json:"instancetypeAdmit,omitempty"`
	PreferenceAdmit   *ObjectAnswer `json:"preferenceAdmit,omitempty"`
}

// ObjectAnswer is what a webhook said of an object by itself.
type ObjectAnswer struct {
	Allowed bool    `json:"allowed"`
	Causes  []Cause `json:"causes"`
	// Warnings is how many there were. What is rejected has none.
	Warnings int `json:"warnings"`
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

// Check replays the case and returns what differs from KubeVirt's answer, one line each; nothing if all agrees.
func (c InstancetypeCase) Check() []string {
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: *c.VMI.DeepCopy()}}}
	vm.Spec.Template.ObjectMeta.Annotations = c.Annotations
	var in *instancetypes.Instancetype
	if c.Instancetype != nil {
		in = &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "it", Spec: *c.Instancetype}
	}
	var pref *instancetypes.Preference
	if c.Preference != nil {
		pref = &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "pf", Spec: *c.Preference}
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

// CheckObjects evaluates the instancetype and the preference by themselves, and returns what differs from KubeVirt's
// answers, one line each; nothing if all agrees.
func (c InstancetypeCase) CheckObjects(base validators.Table) []string {
	subject := validators.Subject{Facts: platform.Defaults(platform.Settings{}), Path: field.NewPath("spec")}
	subject.Instancetype, subject.Preference = c.Instancetype, c.Preference
	var found []string
	if c.Instancetype != nil {
		found = append(found, c.Expect.InstancetypeAdmit.differences("instancetypeAdmit", base.Check(&subject, validators.OnInstancetype))...)
	}
	if c.Preference != nil {
		found = append(found, c.Expect.PreferenceAdmit.differences("preferenceAdmit", base.Check(&subject, validators.OnPreference))...)
	}
	return found
}

// String is for comparisons and messages.
func (a *ObjectAnswer) String() string {
	return fmt.Sprintf("allowed %v, warnings %d, causes %v", a.Allowed, a.Warnings, a.Causes)
}

func (a *ObjectAnswer) differences(name string, findings []validators.Finding) []string {
	if a == nil {
		return []string{name + ": there is no answer of KubeVirt's"}
	}
	virtward := &ObjectAnswer{Allowed: true}
	for i := range findings {
		if f := &findings[i]; f.Severity == validators.Warn {
			virtward.Warnings++
		} else {
			virtward.Causes = append(virtward.Causes, Cause{Field: f.Error.Field, Type: string(f.Error.Type)})
		}
	}
	if len(virtward.Causes) > 0 {
		virtward.Allowed, virtward.Warnings = false, 0
	}
	if a.Allowed == virtward.Allowed && a.Warnings == virtward.Warnings && slices.Equal(setOf(a.Causes), setOf(virtward.Causes)) {
		return nil
	}
	return []string{fmt.Sprintf("%s: want %v; got %v", name, a, virtward)}
}

func (c InstancetypeCase) checkSpread(target instancetypes.Target, in *instancetypes.Instancetype, pref *instancetypes.Preference) []string {
	want, got := c.Expect.SpreadConflict, ""
	if err := instancetypes.CheckSpread(target, in, pref); err != nil {
		got = err.Field
	}
	if !samePath(want, got) {
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

// checkRequirements verifies the spec with the defaults of an amd64 cluster. KubeVirt stops at the first requirement that
// is not met, and Virtward does not. So KubeVirt's list must be the beginning of Virtward's.
func (c InstancetypeCase) checkRequirements(target instancetypes.Target, in *instancetypes.Instancetype, pref *instancetypes.Preference) []string {
	defaults, err := kvm.NewDefaults(cmp.Or(target.Spec.Architecture, architectures.AMD64))
	if err != nil {
		return []string{err.Error()}
	}
	completed := target
	completed.Spec = target.Spec.DeepCopy()
	defaults.SetDefaultTemplateSpec(platform.Defaults(platform.Settings{}), completed.Spec)
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
	if slices.EqualFunc(want, got, samePath) {
		return nil
	}
	return []string{fmt.Sprintf("%s: want [%s], got [%s]", name, strings.Join(want, " "), strings.Join(got, " "))}
}

// samePath reports whether a path of KubeVirt is that of Virtward, for causes without a type.
func samePath(kubeVirt, virtward string) bool {
	return same(Cause{Field: kubeVirt}, Cause{Field: virtward}, "")
}
