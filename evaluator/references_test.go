package evaluator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

const (
	networksByCEL  = `{enforcement: %s, match: {kinds: [VirtualMachine]}, validations: [{expression: "references.networkAttachmentDefinitions.all(n, n.found)", message: a network is missing}]}`
	networksByRego = `
enforcement: %s
match: {kinds: [VirtualMachine]}
rego:
  module: |
    package networks

    deny contains {"msg": "a network is missing"} if {
      some n in input.references.networkAttachmentDefinitions
      not n.found
    }
`
)

// stuck are objects of which networks are never answered. It records the kinds of reads in their order.
type stuck struct {
	references.Objects

	blocked bool
	kinds   []string
}

func (s *stuck) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if !strings.HasPrefix(kind.Kind, "VirtualMachine") {
		s.kinds = append(s.kinds, kind.Kind)
	}
	if s.blocked && kind.Kind == "NetworkAttachmentDefinition" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Objects.Get(ctx, kind, namespace, name)
}

// pointing is a VM with a claim that is not found, and networks.
func pointing(networks int) *v1.VirtualMachine {
	return build.VMOf(build.VMI("db").With(func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "gone"},
		}}})
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, v1.Disk{Name: "data", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}})
		for i := range networks {
			name := fmt.Sprintf("n-%d", i)
			spec.Networks = append(spec.Networks, v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}})
			spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, v1.Interface{Name: name, InterfaceBindingMethod: v1.InterfaceBindingMethod{Bridge: &v1.InterfaceBridge{}}})
		}
	})).Obj()
}

// findingsOf returns the findings of a policy, with their messages.
func findingsOf(result *Result, policy string) []string {
	var all []string
	for i := range result.Findings {
		if f := &result.Findings[i]; f.Rule == "policy/"+policy {
			all = append(all, fmt.Sprintf("%s %s: %s", f.Severity, f.Error.Field, f.Error.Detail))
		}
	}
	return all
}

// What a policy reads changes nothing for a policy that reads another list. What only policies read that do not deny is read
// after all policies that deny are evaluated, and not at all without time.
func TestPolicyReferencesApart(t *testing.T) {
	const (
		claim    = "Deny spec.template.spec.volumes: it is not shared"
		networks = "references.networkAttachmentDefinitions: unknown: spec.networks[64].multus.networkName: the virtual machine points at more than 64 objects for this list"
		blocked  = "references.networkAttachmentDefinitions: unknown: spec.networks[0].multus.networkName: the object cannot be read now"
		skipped  = "Audit spec: the policy was skipped: the cost budget shared by non-denying policies is exhausted"
		first    = "PersistentVolumeClaim"
	)
	for name, c := range map[string]struct {
		enforcement string
		vm          *v1.VirtualMachine
		blocked     bool
		hurry       bool
		// the findings of the policy that reads networks, and the kind that is read first
		want, first string
		took        time.Duration
	}{
		"an audit":                              {enforcement: "Audit", vm: pointing(3), want: "Audit spec: a network is missing", first: first},
		"an audit of too many networks":         {enforcement: "Audit", vm: pointing(65), want: networks, first: first},
		"a warning about too many networks":     {enforcement: "Warn", vm: pointing(65), want: networks, first: first},
		"an audit of networks without answer":   {enforcement: "Audit", vm: pointing(3), blocked: true, want: blocked, first: first, took: references.ApartTimeout},
		"an audit without time":                 {enforcement: "Audit", vm: pointing(3), hurry: true, want: skipped, first: first},
		"an audit without time and answer":      {enforcement: "Audit", vm: pointing(65), hurry: true, blocked: true, want: skipped, first: first},
		"a denial":                              {enforcement: "Deny", vm: pointing(3), want: "Deny spec: a network is missing", first: "NetworkAttachmentDefinition"},
		"a denial because of too many networks": {enforcement: "Deny", vm: pointing(65), want: networks, first: "NetworkAttachmentDefinition"},
		"a denial of networks without answer":   {enforcement: "Deny", vm: pointing(3), blocked: true, want: blocked, first: "NetworkAttachmentDefinition", took: references.GatherTimeout / 2},
	} {
		for language, specs := range map[string][2]string{"CEL": {sharedByCEL, networksByCEL}, "Rego": {sharedByRego, networksByRego}} {
			t.Run(name+" in "+language, func(t *testing.T) {
				f := newFixture(t)
				f.policies(t, map[string]string{"shared": specs[0], "networks": fmt.Sprintf(specs[1], c.enforcement)})
				request := of(t, VirtualMachine, c.vm, by(admissionv1.Create))
				request.Observer.Hurry = func() bool { return c.hurry }
				synctest.Test(t, func(t *testing.T) {
					objects := &stuck{Objects: f.objects, blocked: c.blocked}
					f.References = objects
					began := time.Now()
					result := f.evaluate(t, request)
					if took := time.Since(began); took != c.took {
						t.Errorf("it took %v, not %v", took, c.took)
					}
					if diff := cmp.Diff([]string{claim}, findingsOf(result, "shared")); diff != "" {
						t.Errorf("findings about claims (-want +got):\n%s", diff)
					}
					if got := findingsOf(result, "networks"); len(got) != 1 || !strings.HasSuffix(got[0], c.want) || !strings.HasPrefix(got[0], c.enforcement) {
						t.Errorf("findings about networks are %q, not %q", got, c.want)
					}
					if len(objects.kinds) == 0 || objects.kinds[0] != c.first || c.hurry && len(objects.kinds) > 1 {
						t.Errorf("reads: %q", objects.kinds)
					}
				})
			})
		}
	}
}

// The object before an update does not add to the time for policies that do not deny.
func TestPolicyReferencesApartOnce(t *testing.T) {
	f := newFixture(t)
	f.policies(t, map[string]string{"shared": sharedByCEL, "networks": fmt.Sprintf(networksByCEL, "Audit")})
	before, after := pointing(3), pointing(3)
	after.Spec.Template.Spec.Hostname = "db"
	request := of(t, VirtualMachine, after, by(admissionv1.Update))
	request.OldObject = encoded(t, before)
	synctest.Test(t, func(t *testing.T) {
		f.References = &stuck{Objects: f.objects, blocked: true}
		began := time.Now()
		result := f.evaluate(t, request)
		if took := time.Since(began); took != references.ApartTimeout {
			t.Errorf("it took %v", took)
		}
		if diff := cmp.Diff([]string{"Warn spec.template.spec.volumes: it is not shared"}, findingsOf(result, "shared")); diff != "" {
			t.Errorf("findings about claims (-want +got):\n%s", diff)
		}
	})
}

// An audit has time for all policies.
func TestPolicyReferencesApartInAnAudit(t *testing.T) {
	f := newFixture(t)
	f.policies(t, map[string]string{"shared": sharedByCEL, "networks": fmt.Sprintf(networksByCEL, "Audit")})
	request := of(t, VirtualMachine, pointing(3), at(Stored))
	synctest.Test(t, func(t *testing.T) {
		f.References = &stuck{Objects: f.objects, blocked: true}
		began := time.Now()
		f.evaluate(t, request)
		if took := time.Since(began); took != references.GatherTimeout {
			t.Errorf("it took %v", took)
		}
	})
}
