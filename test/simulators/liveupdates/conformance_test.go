package liveupdates

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
	"github.com/virtward/virtward/conformance"
	cases "github.com/virtward/virtward/conformance/rollouts"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/rollouts"
)

// exceptions are the recorded cases in which the simulation differs from virt-controller, with the reason.
var exceptions = map[string]string{
	"instancetype/expandall-switched-later-hostname@nil":     "the controller, not this package, finds the revision of the start",
	"instancetype/object-and-revision-deleted-cold-edit@nil": "as above: the controller fails before the steps",
	"network/absent-not-in-domain@nil":                       "the status shows an interface that only the pod has",
}

// TestRecordedAnswers compares the simulation with the answers of the real virt-controller: the condition RestartRequired
// and its message, the failure, the instance, and the conditions that announce a migration.
func TestRecordedAnswers(t *testing.T) {
	file, err := os.Open("../../../conformance/testdata/rollouts/rollout.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var restart, failure, patched, conditions conformance.Ratio
	var differing []string
	err = conformance.Lines(file, func(line []byte) error {
		c := &cases.Case{}
		if err := json.Unmarshal(line, c); err != nil {
			return err
		}
		if !c.Expect.Admission.Allowed || c.VMI == nil || c.VM.Spec.RunStrategy != nil && *c.VM.Spec.RunStrategy == kubevirtv1.RunStrategyHalted {
			return nil
		}
		result, err := simulate(c)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			return nil
		}
		count := func(ratio *conformance.Ratio, difference string) {
			ratio.Of++
			if difference == "" {
				ratio.Agree++
				return
			}
			if _, known := exceptions[c.ID]; !known {
				t.Logf("%s: %s", c.ID, difference)
			}
			differing = append(differing, c.ID)
		}
		count(&restart, cmp.Diff(recordedRestart(c), result.RestartRequired))
		count(&failure, cmp.Diff(c.Expect.Error != nil, result.Failure != nil))
		count(&patched, patchDifference(t, c, result.Instance))
		Settle(result.Instance)
		count(&conditions, cmp.Diff(announcements(append(c.Expect.VMIConditions, c.Expect.VMIConditionsLater...)), announcementsOf(result.Instance)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("restart %s failure %s instance %s conditions %s", restart, failure, patched, conditions)
	for _, ratio := range []conformance.Ratio{restart, failure, patched, conditions} {
		if ratio.Of < 300 || ratio.Share() < 0.99 {
			t.Errorf("%s is below 99 %%", ratio)
		}
	}
	slices.Sort(differing)
	var listed []string
	for id := range exceptions {
		listed = append(listed, id)
	}
	slices.Sort(listed)
	if diff := cmp.Diff(listed, slices.Compact(differing)); diff != "" {
		t.Errorf("exceptions (-listed +seen):\n%s", diff)
	}
}

func simulate(c *cases.Case) (Result, error) {
	in, err := c.Input()
	if err != nil {
		return Result{}, err
	}
	configuration := &kubevirtv1.KubeVirtConfiguration{}
	data, err := json.Marshal(c.KubeVirt)
	if err != nil {
		return Result{}, err
	}
	if err := json.Unmarshal(data, configuration); err != nil {
		return Result{}, err
	}
	input := Input{
		VM: c.VM, Instance: c.VMI, Configuration: configuration,
		Wanted: expanded(&c.VM.Spec, in.DesiredKinds),
		Synced: Synced{Labels: c.ControllerFlags["additional-launcher-labels-sync"], Annotations: c.ControllerFlags["additional-launcher-annotations-sync"]},
		Exists: func(v *kubevirtv1.Volume) bool {
			_, claim := in.Storage.Claims[claims.OfVolume(v)]
			_, filled := in.Storage.DataVolumes[claims.OfVolume(v)]
			return claim || filled && v.DataVolume != nil
		},
	}
	if c.LastStarted != nil {
		input.Started = expanded(c.LastStarted, in.StartedKinds)
	}
	return Sync(input), nil
}

// expanded is a template with its instancetype and preference; as it is written if they conflict.
func expanded(spec *kubevirtv1.VirtualMachineSpec, kinds rollouts.Kinds) *kubevirtv1.VirtualMachineInstanceTemplateSpec {
	template := spec.Template.DeepCopy()
	target := instancetypes.Target{Spec: &template.Spec, Annotations: template.ObjectMeta.Annotations, SpecPath: field.NewPath("spec"), MetadataPath: field.NewPath("metadata")}
	if _, conflicts := instancetypes.Expand(target, kinds.Instancetype, kinds.Preference, &provenance.Recorder{}); len(conflicts) > 0 {
		return spec.Template.DeepCopy()
	}
	return template
}

func recordedRestart(c *cases.Case) string {
	if c.Expect.RestartRequired == nil {
		return ""
	}
	return c.Expect.RestartRequired.Message
}

func patchDifference(t *testing.T, c *cases.Case, instance *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	recorded, err := c.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(instance)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	return strings.Join(conformance.Differences(cases.Canonical(recorded), cases.Canonical(got)), "; ")
}

func announcements(conditions []cases.Condition) []string {
	var all []string
	for _, c := range conditions {
		if c.Status == "True" && slices.Contains(announcing, kubevirtv1.VirtualMachineInstanceConditionType(c.Type)) {
			all = append(all, c.Type)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func announcementsOf(vmi *kubevirtv1.VirtualMachineInstance) []string {
	var all []cases.Condition
	for i := range vmi.Status.Conditions {
		all = append(all, cases.Condition{Type: string(vmi.Status.Conditions[i].Type), Status: vmi.Status.Conditions[i].Status})
	}
	return announcements(all)
}
