package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

var environment = sync.OnceValues(cel.NewEnvironment)

// policyOf returns a policy with a spec in YAML, which may be invalid.
func policyOf(t testing.TB, name, spec string) *policyv1alpha1.VirtualMachinePolicy {
	t.Helper()
	policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
		t.Fatal(err)
	}
	return policy
}

// compile compiles a policy without ConfigMaps.
func compile(t testing.TB) func(*policyv1alpha1.VirtualMachinePolicy) (*policies.Policy, []diagnostics.Problem) {
	t.Helper()
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	return func(policy *policyv1alpha1.VirtualMachinePolicy) (*policies.Policy, []diagnostics.Problem) {
		return policies.Compile(env, policy, nil)
	}
}

// under makes policies active. Their names are a, b, c and so on.
func under(t testing.TB, v *Validator, specs ...string) {
	t.Helper()
	all := make([]*policies.Policy, 0, len(specs))
	for i, spec := range specs {
		policy, _ := compile(t)(policyOf(t, string(rune('a'+i)), spec))
		all = append(all, policy)
	}
	set := policies.NewSet("virtward-system", all...)
	live(v.Evaluator).GetPolicies = func() *policies.Set { return set }
}

const (
	memoryCap = `{enforcement: %s, remedy: Choose less., params: {values: {max: %s}, schema: {properties: {max: {type: string}}}}, validations: [
	  {expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity(params.max)) <= 0", messageExpression: "'at most ' + params.max", fieldPath: spec.domain.memory.guest}]}`
	// alwaysFails has an evaluation error for every object.
	alwaysFails = `{enforcement: %s, failurePolicy: %s, validations: [{expression: "vm.metadata.labels['none'] == ''", message: m, fieldPath: spec.domain}]}`
)

func large(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterInstancetype", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"cpu": map[string]any{"guest": int64(2)}, "memory": map[string]any{"guest": "16Gi"}},
	}}
}

func TestPoliciesEvaluateTheEffectiveVM(t *testing.T) {
	v := newValidator(t, large("u1.4xlarge"))
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	chosen := build.VM("db").Instancetype("u1.4xlarge").Obj()
	chosen.Spec.Template.Spec.Domain.Memory = nil
	pool := &poolv1beta1.VirtualMachinePool{Spec: poolv1beta1.VirtualMachinePoolSpec{
		Selector:               &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}, Spec: chosen.Spec},
	}}
	inPool := func(r *admissionv1.AdmissionRequest) { r.Kind.Group, r.Kind.Version = "pool.kubevirt.io", "v1beta1" }
	const kinds = `, match: {kinds: [VirtualMachinePool]}}`
	for name, tc := range map[string]struct {
		body []byte
		pool bool
		want []string
	}{
		"a field of the VM": {
			body: reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).Obj()),
			want: []string{`FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`},
		},
		"a field of the instancetype": {
			body: reviewOf(t, apikinds.VirtualMachine, chosen),
			want: []string{`FieldValueInvalid spec.instancetype.name: Invalid value: "16Gi": at most 8Gi (VirtualMachineClusterInstancetype u1.4xlarge sets domain.memory.guest by its spec.memory.guest) [virtward/policy/a] Choose less.`},
		},
		"a virtual machine instance": {
			body: reviewOf(t, apikinds.VirtualMachineInstance, completed(t, build.VMI("db").Memory("9Gi").Obj())),
			want: []string{`FieldValueInvalid spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`},
		},
		"a pool": {
			body: reviewOf(t, "VirtualMachinePool", pool, inPool), pool: true,
			want: []string{`FieldValueInvalid spec.virtualMachineTemplate.spec.instancetype.name: Invalid value: "16Gi": at most 8Gi (VirtualMachineClusterInstancetype u1.4xlarge sets domain.memory.guest by its spec.memory.guest) [virtward/policy/a] Choose less.`},
		},
		"a pool without a policy": {body: reviewOf(t, "VirtualMachinePool", pool, inPool)},
		"less":                    {body: reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("8Gi")).Obj())},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, large("u1.4xlarge"))
			spec := fmt.Sprintf(memoryCap, "Deny", "8Gi")
			if tc.pool {
				spec = strings.TrimSuffix(spec, "}") + kinds
			}
			under(t, v, spec)
			response := evaluated(t, v, tc.body)
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" || response.Allowed != (tc.want == nil) {
				t.Errorf("allowed %v (-want +got):\n%s", response.Allowed, diff)
			}
		})
	}
}

func TestEnforcementOfPolicies(t *testing.T) {
	vm := build.VMOf(build.VMI("db").Memory("9Gi")).Obj()
	for name, tc := range map[string]struct {
		policies    []string
		want        []string
		annotations map[string]string
		counted     map[string]string // severity of a rule
		errors      float64
	}{
		"Deny": {
			policies:    []string{fmt.Sprintf(memoryCap, "Deny", "8Gi")},
			want:        []string{`FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`},
			annotations: map[string]string{"findings": "policy/a"}, counted: map[string]string{"policy/a": "Deny"},
		},
		"Warn": {
			policies:    []string{fmt.Sprintf(memoryCap, "Warn", "8Gi")},
			want:        []string{`warning: spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`},
			annotations: map[string]string{"findings": "policy/a"}, counted: map[string]string{"policy/a": "Warn"},
		},
		"Audit": {
			policies:    []string{fmt.Sprintf(memoryCap, "Audit", "8Gi"), fmt.Sprintf(memoryCap, "Audit", "4Gi")},
			annotations: map[string]string{"policies-audit": "policy/a,policy/b"}, counted: map[string]string{"policy/a": "Audit", "policy/b": "Audit"},
		},
		"all of them": {
			policies: []string{fmt.Sprintf(memoryCap, "Deny", "8Gi"), fmt.Sprintf(memoryCap, "Warn", "4Gi"), fmt.Sprintf(memoryCap, "Audit", "2Gi")},
			want: []string{
				`FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`,
				`warning: spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 4Gi [virtward/policy/b] Choose less.`,
			},
			annotations: map[string]string{"findings": "policy/a,policy/b", "policies-audit": "policy/c"},
			counted:     map[string]string{"policy/a": "Deny", "policy/b": "Warn", "policy/c": "Audit"},
		},
		"an evaluation error, and so a violation": {
			policies: []string{fmt.Sprintf(alwaysFails, "Deny", "Fail")}, errors: 1,
			want:        []string{`InternalError spec: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:12: no such key: labels [virtward/policy/a] Ask an admin of the cluster to fix the policy.`},
			annotations: map[string]string{"findings": "policy/a"}, counted: map[string]string{"policy/a": "Deny"},
		},
		"an evaluation error, and so a warning": {
			policies: []string{fmt.Sprintf(alwaysFails, "Deny", "Ignore"), fmt.Sprintf(memoryCap, "Warn", "16Gi")}, errors: 1,
			want:        []string{`warning: spec: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:12: no such key: labels [virtward/policy/a] Ask an admin of the cluster to fix the policy.`},
			annotations: map[string]string{"findings": "policy/a"}, counted: map[string]string{"policy/a": "Warn"},
		},
		"broken, beside one that is not": {
			policies: []string{`{enforcement: Deny, validations: [{expression: "vm.spec.domain.memroy == ''", message: m, fieldPath: spec.domain}]}`, fmt.Sprintf(memoryCap, "Deny", "8Gi")}, errors: 1,
			want: []string{
				`InternalError spec: Internal error: the policy is invalid: spec.validations[0].expression:1:15: undefined field 'memroy'; did you mean 'memory'? [virtward/policy/a] Ask an admin of the cluster to fix the policy.`,
				`FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/b] Choose less.`,
			},
			annotations: map[string]string{"findings": "policy/a,policy/b"}, counted: map[string]string{"policy/a": "Deny", "policy/b": "Deny"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			under(t, v, tc.policies...)
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm, func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "alice" }))
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.annotations, response.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			if rejected := strings.Contains(fmt.Sprint(tc.counted), "Deny"); response.Allowed == rejected {
				t.Errorf("allowed %v", response.Allowed)
			}
			for rule, severity := range tc.counted {
				if n := testutil.ToFloat64(v.Metrics.findings.WithLabelValues(rule, apikinds.VirtualMachine, severity)); n != 1 {
					t.Errorf("%s counted %v times as %s", rule, n, severity)
				}
			}
			if n := testutil.ToFloat64(v.Metrics.evaluationErrors.WithLabelValues("a", policies.ReasonFailed)) + testutil.ToFloat64(v.Metrics.evaluationErrors.WithLabelValues("a", policies.ReasonBroken)); n != tc.errors {
				t.Errorf("policy a counted %v evaluation errors", n)
			}
			measured := &dto.Metric{}
			if err := v.Metrics.evaluated.Write(measured); err != nil || measured.GetHistogram().GetSampleCount() != 1 {
				t.Errorf("the policies were measured %d times: %v", measured.GetHistogram().GetSampleCount(), err)
			}
		})
	}
}

func TestPreExistingViolationsOfPolicies(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"), fmt.Sprintf(memoryCap, "Audit", "4Gi"))
	before := build.VMOf(build.VMI("db").Memory("9Gi")).Obj()
	for name, tc := range map[string]struct {
		vm   *v1.VirtualMachine
		want []string
	}{
		"something else changes": {
			vm:   build.VMOf(build.VMI("db").Memory("9Gi")).RunStrategy(v1.RunStrategyHalted).Obj(),
			want: []string{`warning: spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi (pre-existing: tolerated on update, denied on create) [virtward/policy/a] Choose less.`},
		},
		"the violation grows": {
			vm:   build.VMOf(build.VMI("db").Memory("10Gi")).Obj(),
			want: []string{`FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "10Gi": at most 8Gi [virtward/policy/a] Choose less.`},
		},
		"the violation is corrected": {vm: build.VMOf(build.VMI("db").Memory("5Gi")).Obj()},
	} {
		t.Run(name, func(t *testing.T) {
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, tc.vm, update(t, before)))
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectsOfKubeVirtAreEvaluated(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	as := func(r *admissionv1.AdmissionRequest) {
		r.UserInfo.Username = "system:serviceaccount:kubevirt:kubevirt-controller"
	}
	yes := true
	vmi := completed(t, build.VMI("db").Memory("9Gi").Obj())
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: apikinds.VirtualMachine, Name: "db", UID: "7", Controller: &yes}}
	want := []string{`FieldValueInvalid spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`}
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, vmi, as))
	if diff := cmp.Diff(want, complaints(response)); diff != "" || response.Allowed {
		t.Errorf("a VMI of virt-controller: allowed %v (-want +got):\n%s", response.Allowed, diff)
	}
	labelled := vmi.DeepCopy()
	labelled.Labels = map[string]string{"kubevirt.io/nodeName": "node01"}
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, labelled, as, update(t, vmi))); !response.Allowed || response.Warnings != nil {
		t.Errorf("an update by virt-controller: allowed %v, %q", response.Allowed, complaints(response))
	}
	vm := build.VMOf(build.VMI("db").Memory("9Gi")).Obj()
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm, as)); response.Allowed {
		t.Error("a VM that virt-controller restores, clones or creates for a pool is admitted")
	}
	response = evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm, as, update(t, build.VM("db").Obj())))
	if !response.Allowed || response.Warnings != nil || response.AuditAnnotations["policies-audit"] != "policy/a" {
		t.Errorf("a VM that virt-controller restores in place: allowed %v, %q, %v", response.Allowed, complaints(response), response.AuditAnnotations)
	}
}

func TestPoliciesReadTheRequestAndTheNamespace(t *testing.T) {
	reads := 0
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"tier": "prod"}, Annotations: map[string]string{"owner": "blue"}}}
	var unread error
	newOne := func(t *testing.T, specs ...string) *Validator {
		v := newValidator(t)
		under(t, v, specs...)
		reads = 0
		live(v.Evaluator).GetNamespace = func(_ context.Context, name string) (*corev1.Namespace, error) {
			if reads++; name != "default" {
				t.Errorf("namespace %q is read", name)
			}
			return namespace, unread
		}
		return v
	}
	const message = `{enforcement: Warn, %s validations: [{expression: "false", messageExpression: "%s"}]}`
	for name, tc := range map[string]struct {
		spec  string
		want  string
		reads int
	}{
		"the request": {
			spec: fmt.Sprintf(message, "", "[request.operation, request.kind.kind, request.resource.resource, request.name, request.namespace, request.userInfo.username, request.userInfo.groups[0], requester, string(request.dryRun)].join(' ')"),
			want: "CREATE VirtualMachine virtualmachines db default alice devs alice true",
		},
		"the namespace":                 {spec: fmt.Sprintf(message, "", "namespaceObject.metadata.annotations.owner"), want: "blue", reads: 1},
		"a module reads the namespace":  {spec: `{enforcement: Warn, rego: {module: "package p\nwarn contains input.namespaceObject.metadata.annotations.owner"}}`, want: "blue", reads: 1},
		"namespaces that are selected":  {spec: fmt.Sprintf(message, "match: {namespaceSelector: {matchLabels: {tier: prod}}},", "'prod'"), want: "prod", reads: 1},
		"namespaces that are not":       {spec: fmt.Sprintf(message, "match: {namespaceSelector: {matchLabels: {tier: lab}}},", "'lab'"), reads: 1},
		"conditions read the namespace": {spec: fmt.Sprintf(message, `match: {matchConditions: [{name: c, expression: "namespaceObject.metadata.labels.tier == 'lab'"}]},`, "'lab'"), reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := newOne(t, tc.spec)
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) {
				yes := true
				r.DryRun, r.Resource = &yes, metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
				r.UserInfo.Username, r.UserInfo.Groups = "alice", []string{"devs"}
			}))
			got := strings.Join(complaints(response), "\n")
			if want := "warning: spec: Forbidden: " + tc.want + " [virtward/policy/a]"; got != want && (tc.want != "" || got != "") || reads != tc.reads {
				t.Errorf("%q, want %q; the namespace was read %d times", got, want, reads)
			}
		})
	}
	unread = errors.New("no connection")
	v := newOne(t, fmt.Sprintf(message, "match: {namespaceSelector: {matchLabels: {tier: prod}}},", "'prod'"))
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj()))
	if response.Allowed || response.Result.Code != 503 || !strings.HasSuffix(response.Result.Message, "reading namespace default: no connection") {
		t.Errorf("with a namespace that cannot be read: %+v", response)
	}
}

func TestInvalidPoliciesAreRejected(t *testing.T) {
	v := newValidator(t)
	v.CompilePolicy = compile(t)
	request := func(r *admissionv1.AdmissionRequest) {
		r.Kind = metav1.GroupVersionKind{Group: "policy.virtward.io", Version: "v1alpha1", Kind: "VirtualMachinePolicy"}
		r.Namespace, r.Name = "", "caps"
	}
	const (
		remedy = " [virtward/policy-compiles] Correct the field. kubectl virtward policy lint validates files."
		typo   = `{enforcement: Deny, validations: [{expression: "true &&\n  vm.spec.domain.memroy == ''", message: m, fieldPath: spec.domain}]}`
		typed  = `: spec.validations[0].expression: Invalid value: 2:17: undefined field 'memroy'; did you mean 'memory'?`
	)
	problem := func(field, message string) string {
		return "FieldValueInvalid " + field + ": Invalid value: " + message + remedy
	}
	for name, tc := range map[string]struct {
		old, spec string
		want      []string
	}{
		"valid": {spec: fmt.Sprintf(memoryCap, "Deny", "8Gi")},
		"several problems": {
			spec: `{enforcement: Deny, validations: [{expression: "vm.spec.domain.memroy == ''", message: m, fieldPath: spec.domain}, {expression: "1 + 1", message: m, fieldPath: spec.domain}]}`,
			want: []string{
				problem("spec.validations[0].expression", "1:15: undefined field 'memroy'; did you mean 'memory'?"),
				problem("spec.validations[1].expression", "1:1: must result in a bool, not in a int"),
			},
		},
		"a line and a column": {
			spec: typo,
			want: []string{problem("spec.validations[0].expression", "2:17: undefined field 'memroy'; did you mean 'memory'?")},
		},
		"a warning": {
			spec: `{enforcement: Deny, validations: [{expression: "true", message: m}]}`,
			want: []string{"warning: spec.validations[0]: Invalid value: without a fieldPath and a messageExpression, an update that makes a violation worse is admitted with a warning: it cannot be distinguished from one that does not change it" + remedy},
		},
		"parameters that are missing": {
			spec: `{enforcement: Deny, params: {configMap: {namespace: params, name: caps}}, validations: [{expression: "params.max == ''", message: m, fieldPath: spec.domain}]}`,
			want: []string{"warning: spec.params.configMap: Invalid value: there is no ConfigMap params/caps" + remedy},
		},
		"one that was valid is broken": {
			old: fmt.Sprintf(memoryCap, "Deny", "8Gi"), spec: typo,
			want: []string{problem("spec.validations[0].expression", "2:17: undefined field 'memroy'; did you mean 'memory'?")},
		},
		"one that was broken is disabled": {
			old: typo, spec: strings.Replace(typo, "Deny", "Warn", 1),
			want: []string{"warning" + typed + " (pre-existing: tolerated on update, denied on create)" + remedy},
		},
		"one that was broken gets another fault": {
			old: typo, spec: strings.Replace(typo, "memroy", "memori", 1),
			want: []string{problem("spec.validations[0].expression", "2:17: undefined field 'memori'; did you mean 'memory'?")},
		},
		"one that was broken stays as it is": {old: typo, spec: typo, want: []string{"warning" + typed + " (pre-existing: tolerated on update, denied on create)" + remedy}},
		"one that was broken is corrected":   {old: typo, spec: fmt.Sprintf(memoryCap, "Deny", "8Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []func(*admissionv1.AdmissionRequest){request}
			if tc.old != "" {
				changes = append(changes, update(t, policyOf(t, "caps", tc.old)))
			}
			response := evaluated(t, v, reviewOf(t, "VirtualMachinePolicy", policyOf(t, "caps", tc.spec), changes...))
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if rejected := strings.Contains(fmt.Sprint(tc.want), "FieldValueInvalid"); response.Allowed == rejected {
				t.Errorf("allowed %v", response.Allowed)
			}
		})
	}
	response := evaluated(t, v, reviewOf(t, "VirtualMachinePolicy", map[string]any{"spec": map[string]any{"enforcement": 7}}, request))
	if got := complaints(response); response.Allowed || len(got) != 1 || !strings.Contains(got[0], "[virtward/object-readable]") {
		t.Errorf("one that cannot be read: allowed %v, %q", response.Allowed, got)
	}
}

// A denied update is evaluated twice, by the policies of one snapshot.
func TestOneRequestUsesOneSnapshotOfPolicies(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	first, reads := live(v.Evaluator).GetPolicies(), 0
	live(v.Evaluator).GetPolicies = func() *policies.Set {
		if reads++; reads > 1 {
			return nil
		}
		return first
	}
	before := build.VMOf(build.VMI("db").Memory("9Gi")).Obj()
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).RunStrategy(v1.RunStrategyHalted).Obj(), update(t, before)))
	if !response.Allowed || len(response.Warnings) != 1 || reads != 1 {
		t.Errorf("allowed %v, %q, the policies were read %d times", response.Allowed, complaints(response), reads)
	}
}

func TestExceptionsExpire(t *testing.T) {
	v := newValidator(t)
	spec := strings.TrimSuffix(fmt.Sprintf(memoryCap, "Deny", "8Gi"), "}")
	under(t, v, spec+fmt.Sprintf(`, exceptions: [{names: [db], reason: r, expires: %q}]}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	body := reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).Obj())
	if response := evaluated(t, v, body); !response.Allowed {
		t.Errorf("denied before the exception expires: %q", complaints(response))
	}
	under(t, v, spec+`, exceptions: [{names: [db], reason: r, expires: "2020-01-01T00:00:00Z"}]}`)
	if response := evaluated(t, v, body); response.Allowed {
		t.Error("allowed after the exception has expired")
	}
}
