package conformance

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/validators"
)

// Cause is a reason for a refusal, as far as answers are compared: its text is ours.
type Cause struct {
	Field string `json:"field"`
	Type  string `json:"type"`
}

// recordedCauses is where KubeVirt stops listing.
const recordedCauses = 10

// JudgesAdmission tells whether the case counts for the checks. What a schema refuses does not: that of the
// CRD before any webhook, or KubeVirt's own in its mutating webhook, which names neither field nor cause.
func (c *AdmissionCase) JudgesAdmission() bool {
	return c.Area != informativeArea && !slices.Contains(c.Expect.Causes, Cause{})
}

// Causes replays the case through the pipeline and the checks, and returns why it would be refused, sorted
// and without repetitions.
func (c *AdmissionCase) Causes(pipeline *effective.Pipeline, base validators.Table) ([]Cause, error) {
	verdict, err := c.evaluate(pipeline)
	if err != nil {
		return nil, err
	}
	if verdict.VM != nil && verdict.VM.DeletionTimestamp != nil {
		return nil, nil // a VM that is being deleted is let go
	}
	subject, scopes, err := c.subject(verdict)
	if err != nil {
		return nil, err
	}
	var causes []Cause
	for _, conflict := range verdict.Conflicts {
		causes = append(causes, Cause{Field: conflict.Field, Type: string(conflict.Type)})
	}
	tables := []validators.Table{base}
	if scopes&validators.OnVMI != 0 { // KubeVirt has these for VMIs only
		tables = append(tables, validators.ForArchitecture(subject.Spec.Architecture))
	}
	for _, table := range tables {
		for _, f := range table.Check(subject, scopes) {
			if f.Severity != validators.Warn {
				causes = append(causes, Cause{Field: f.Error.Field, Type: string(f.Error.Type)})
			}
		}
	}
	slices.SortFunc(causes, func(a, b Cause) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Type, b.Type)) })
	return slices.Compact(causes), nil
}

// subject is what the rules look at, and which of them.
func (c *AdmissionCase) subject(verdict *effective.Verdict) (_ *validators.Subject, _ validators.Scope, err error) {
	s := &validators.Subject{Facts: c.facts(), Spec: verdict.Spec, Requester: c.User, RequesterExtra: c.UserExtra}
	if c.Kind == kindVM {
		s.VM = verdict.VM
		if s.VM.Namespace == "" {
			s.VM.Namespace = requestNamespace // as the API server does
		}
		if s.Running, err = c.running(s.VM); err != nil {
			return nil, 0, err
		}
		s.Path = field.NewPath("spec", "template", "spec")
		s.Meta, s.MetaPath = &metav1.ObjectMeta{}, field.NewPath("spec", "template", "metadata")
		if s.VM.Spec.Template != nil {
			s.Meta = &s.VM.Spec.Template.ObjectMeta
		}
		if c.Operation != "UPDATE" {
			return s, validators.OnSpec | validators.OnVM, nil
		}
		s.OldVM = &v1.VirtualMachine{}
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(c.OldObject, s.OldVM); err != nil {
			return nil, 0, fmt.Errorf("oldObject: %w", err)
		}
		return s, validators.OnSpec | validators.OnVM | validators.OnVMUpdate, nil
	}
	s.VMI = verdict.VMI
	s.Path, s.Meta, s.MetaPath = field.NewPath("spec"), &verdict.VMI.ObjectMeta, field.NewPath("metadata")
	if c.Operation != "UPDATE" {
		return s, validators.OnSpec | validators.OnVMI, nil
	}
	s.VMI, s.OldVMI = &v1.VirtualMachineInstance{}, &v1.VirtualMachineInstance{} // an update is not completed
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(c.Object, s.VMI); err != nil {
		return nil, 0, fmt.Errorf("object: %w", err)
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(c.OldObject, s.OldVMI); err != nil {
		return nil, 0, fmt.Errorf("oldObject: %w", err)
	}
	s.Spec, s.Meta = &s.VMI.Spec, &s.VMI.ObjectMeta
	return s, validators.OnVMIUpdate, nil
}

// CauseDifferences says what two sets of causes disagree about, one line each. Where KubeVirt stopped
// listing, ours must contain what it lists; where it refused without naming a field, it lists none.
func (c *AdmissionCase) CauseDifferences(ours []Cause) (found []string) {
	if allowed := len(ours) == 0; allowed != c.Expect.Allowed {
		found = append(found, fmt.Sprintf("allowed: KubeVirt %v, ours %v", c.Expect.Allowed, allowed))
	}
	for _, cause := range c.Expect.Causes {
		if !slices.ContainsFunc(ours, cause.is) {
			found = append(found, fmt.Sprintf("missing: %s %s", cause.Field, cause.Type))
		}
	}
	if len(c.Expect.Causes) >= recordedCauses || !c.Expect.Allowed && len(c.Expect.Causes) == 0 {
		return found
	}
	for _, cause := range ours {
		recorded := slices.ContainsFunc(c.Expect.Causes, func(r Cause) bool { return r.is(cause) })
		if !recorded {
			found = append(found, fmt.Sprintf("extra: %s %s", cause.Field, cause.Type))
		}
	}
	return found
}

// oddPaths are those for which KubeVirt's are odd. Ours are those of the object.
var oddPaths = map[string]string{
	"spec.GPUs":             "spec.domain.devices.gpus",
	"spec.HostDevices":      "spec.domain.devices.hostDevices",
	"spec.Sound":            "spec.domain.devices.sound",
	"spec.acpi":             "spec.domain.firmware.acpi",
	"spec.acpi.msdmNameRef": "spec.domain.firmware.acpi.msdmNameRef",
	"spec.acpi.slicNameRef": "spec.domain.firmware.acpi.slicNameRef",
	"spec.domain.features.hyperv.domain.features.hyperv.evmcs":      "spec.domain.features.hyperv.evmcs",
	"spec.domain.features.hyperv.domain.features.hyperv.ipi":        "spec.domain.features.hyperv.ipi",
	"spec.domain.features.hyperv.domain.features.hyperv.synic":      "spec.domain.features.hyperv.synic",
	"spec.domain.features.hyperv.domain.features.hyperv.synictimer": "spec.domain.features.hyperv.synictimer",
	"spec.domain.features.hyperv.domain.features.hyperv.tlbflush":   "spec.domain.features.hyperv.tlbflush",
	"spec.domain.ioThreads.count":                                   "spec.domain.ioThreads.supplementalPoolThreadCount",
	"spec.launchSecurity":                                           "spec.domain.launchSecurity",
	"spec.template.spec.GPUs":                                       "spec.template.spec.domain.devices.gpus",
	"spec.template.spec.HostDevices":                                "spec.template.spec.domain.devices.hostDevices",
	"spec.template.spec.Sound":                                      "spec.template.spec.domain.devices.sound",
	"spec.template.spec.acpi":                                       "spec.template.spec.domain.firmware.acpi",
	"spec.template.spec.acpi.msdmNameRef":                           "spec.template.spec.domain.firmware.acpi.msdmNameRef",
	"spec.template.spec.acpi.slicNameRef":                           "spec.template.spec.domain.firmware.acpi.slicNameRef",
	"spec.template.spec.domain.ioThreads.count":                     "spec.template.spec.domain.ioThreads.supplementalPoolThreadCount",
	"spec.template.spec.launchSecurity":                             "spec.template.spec.domain.launchSecurity",
	"spec.template.spec.video":                                      "spec.template.spec.domain.devices.video",
	"spec.video":                                                    "spec.domain.devices.video",
}

// RealPath is our path for one of KubeVirt's.
func RealPath(path string) string {
	if ours, ok := oddPaths[path]; ok {
		return ours
	}
	return realParts(path)
}
