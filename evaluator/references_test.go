package evaluator

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

// withoutClaims returns one error for all objects.
type withoutClaims struct {
	references.Objects

	err error
}

func (f withoutClaims) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if f.err != nil && kind.Kind == "PersistentVolumeClaim" {
		return nil, f.err
	}
	return f.Objects.Get(ctx, kind, namespace, name)
}

const sharedByCEL = `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [
  {expression: "references.persistentVolumeClaims.all(c, c.found && 'ReadWriteMany' in c.accessModes)", message: it is not shared, fieldPath: spec.volumes}]}`

const sharedByRego = `
enforcement: Deny
match: {kinds: [VirtualMachine]}
rego:
  module: |
    package shared

    deny contains {"msg": "it is not shared", "field": "spec.volumes"} if {
      some c in input.references.persistentVolumeClaims
      not shared(c)
    }

    shared(c) if {
      c.found
      "ReadWriteMany" in c.accessModes
    }
`

// Both languages see the claims of a VM. What cannot be read makes the policy fail; what is unknown without a cluster warns.
func TestPolicyReferences(t *testing.T) {
	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "shared", "namespace": "default"},
		"spec": map[string]any{"accessModes": []any{"ReadWriteMany"}},
	}}
	using := func(name string) *v1.VirtualMachine {
		return build.VMOf(build.VMI("db").With(func(spec *v1.VirtualMachineInstanceSpec) {
			spec.Volumes = append(spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}})
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: "data", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}})
		})).Obj()
	}
	const at = "spec.template.spec.volumes"
	for name, c := range map[string]struct {
		vm      *v1.VirtualMachine
		err     error
		want    []string
		unknown bool
	}{
		"a shared claim":                      {vm: using("shared")},
		"a claim that does not exist":         {vm: using("other"), want: []string{"Deny policy/shared " + at}},
		"a claim that cannot be read":         {vm: using("shared"), err: context.DeadlineExceeded, want: []string{"Deny policy/shared spec"}},
		"a claim that is not among the files": {vm: using("shared"), err: references.ErrNotGiven, want: []string{"Warn policy/shared spec"}, unknown: true},
		"no claim":                            {vm: build.VMOf(build.VMI("db")).Obj(), err: context.DeadlineExceeded},
	} {
		for language, policy := range map[string]string{"CEL": sharedByCEL, "Rego": sharedByRego} {
			t.Run(name+" in "+language, func(t *testing.T) {
				f := newFixture(t, claim)
				f.Evaluator.References = withoutClaims{f.Evaluator.References, c.err}
				f.policy(t, "shared", policy)
				result := f.evaluate(t, of(t, VirtualMachine, c.vm, by(admissionv1.Create)))
				if diff := cmp.Diff(c.want, rules(result)); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
				if c.err != nil && len(c.want) > 0 && result.Findings[0].EvaluationError != policies.ReasonReferences {
					t.Errorf("the reason is %q", result.Findings[0].EvaluationError)
				}
				unknown := len(result.References) == 1 && result.References[0] == effective.Reference{Field: "spec.volumes[0].persistentVolumeClaim.claimName", State: effective.Unknown}
				if unknown != c.unknown {
					t.Errorf("the references are %v", result.References)
				}
			})
		}
	}
}

// Nothing is read for policies that read no references.
func TestPolicyReferencesUnused(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "other", `{enforcement: Deny, match: {kinds: [VirtualMachineInstance]}, validations: [{expression: "references.configMaps.size() == 0", message: none}]}`)
	vm := build.VMOf(build.VMI("db").With(func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "a", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}})
	})).Obj()
	f.evaluate(t, of(t, VirtualMachine, vm, by(admissionv1.Create)))
	if f.objects.reads["ConfigMap"] > 0 {
		t.Errorf("reads: %v", f.objects.reads)
	}
}
