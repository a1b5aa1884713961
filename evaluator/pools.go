package evaluator

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
)

// requesterPolicies evaluates the policies that read the request and match VMs, but not pools. KubeVirt creates the VMs
// of a pool, and the author of the pool is not known then.
func (e *evaluation) requesterPolicies(ctx context.Context, m machine, d decoded) error {
	r := e.request
	if e.kind.GroupKind != Pool || r.Operation == "" || e.facts.ByKubeVirt(r.User.Username) ||
		!e.active.Policies.ReadsRequest(policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyCreate) {
		return nil
	}
	if d.old != nil && !d.wasUnreadable {
		if was := e.kind.machine(d.old, nil); equality.Semantic.DeepEqual(was.vm, m.vm) {
			return nil
		}
	}
	raw, err := json.Marshal(m.vm)
	if err != nil {
		return err
	}
	create := *r
	create.Object, create.OldObject, create.Operation, create.Stage = raw, nil, admissionv1.Create, Written
	create.Kind = metav1.GroupVersionKind{Group: VirtualMachine.Group, Version: "v1", Kind: VirtualMachine.Kind}
	create.Resource, create.Name = metav1.GroupVersionResource(apikinds.VirtualMachines.GroupVersionResource()), m.vm.Name
	result, err := e.Evaluate(ctx, create)
	if err != nil {
		return err
	}
	for i := range result.Findings {
		f := result.Findings[i]
		p := e.active.Policies.Find(strings.TrimPrefix(f.Rule, policies.RulePrefix))
		if p == nil || !p.ReadsRequest() || slices.Contains(p.Spec().Match.Kinds, policyv1alpha1.PolicyVirtualMachinePool) {
			continue
		}
		moved := *f.Error
		moved.Field = m.container.Template.String() + "." + moved.Field
		f.Error = &moved
		e.result.Findings = append(e.result.Findings, f)
	}
	return nil
}
