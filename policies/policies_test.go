package policies_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// noon is when the tests happen.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var environment = sync.OnceValues(cel.NewEnvironment)

func env(t testing.TB) *cel.Environment {
	t.Helper()
	e, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var pipeline = sync.OnceValues(func() (*effective.Pipeline, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	return effective.NewPipeline(registry), err
})

// read reads a policy whose spec is given, as it would be written.
func read(t testing.TB, name, spec string) *policyv1alpha1.VirtualMachinePolicy {
	t.Helper()
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	policy.Name = name
	if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
		t.Fatalf("%v in\n%s", err, spec)
	}
	return policy
}

// compile compiles a policy that has no problems but warnings.
func compile(t testing.TB, name, spec string) *policies.Policy {
	t.Helper()
	p, problems := policies.Compile(env(t), read(t, name, spec), nil)
	if diagnostics.Broken(problems) {
		t.Fatalf("problems %v", problems)
	}
	return p
}

// documents are those of an object that alice creates.
func documents(t testing.TB, in effective.Input) *cel.Documents {
	t.Helper()
	if in.Facts == nil {
		in.Facts = platform.Defaults(platform.Settings{})
	}
	p, err := pipeline()
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := p.Complete(in)
	if err != nil {
		t.Fatal(err)
	}
	d := &cel.Documents{Facts: in.Facts, Requester: "alice", Provenance: verdict.Changes}
	d.Request = cel.Request{Operation: "CREATE", UserInfo: authenticationv1.UserInfo{Username: "alice", Groups: []string{"tenants", "system:authenticated"}}}
	if in.VM != nil {
		d.Kind, d.Object = "VirtualMachine", in.VM
		d.Request.Name, d.Request.Namespace = in.VM.Name, in.VM.Namespace
		d.VM = &v1.VirtualMachineInstance{ObjectMeta: in.VM.Spec.Template.ObjectMeta, Spec: *verdict.Spec}
		d.VM.Name, d.VM.Namespace = in.VM.Name, in.VM.Namespace
	} else {
		d.Kind, d.Object, d.VM = "VirtualMachineInstance", in.VMI, verdict.VMI
		d.Request.Name, d.Request.Namespace = in.VMI.Name, in.VMI.Namespace
	}
	return d
}

func vm(t testing.TB, template *build.VMIBuilder) *cel.Documents {
	t.Helper()
	return documents(t, effective.Input{VM: build.VMOf(template).Obj()})
}

// said returns findings as text: severity, field, message and rule.
func said(findings []validators.Finding) []string {
	var all []string
	for i := range findings {
		all = append(all, fmt.Sprintf("%s %s: %s", findings[i].Severity, findings[i].Error.Field, findings[i].Message()))
	}
	return all
}

func wantSaid(t *testing.T, findings []validators.Finding, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, said(findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

const (
	memoryCap = `
title: Memory is at most 8Gi
remedy: Choose a smaller instancetype.
enforcement: Deny
params: {values: {max: 8Gi}, schema: {type: object, properties: {max: {type: string}}}}
validations:
- expression: quantity(vm.spec.domain.memory.guest).compareTo(quantity(params.max)) <= 0
  message: too much memory
  messageExpression: "'a VM may have ' + params.max + ' of memory'"
  fieldPath: spec.domain.memory.guest
`
	never = `
enforcement: Deny
validations: [{expression: "false", message: never, fieldPath: spec.domain}]
`
)

func TestEveryViolationOfEveryPolicyIsReported(t *testing.T) {
	set := policies.NewSet("virtward-system",
		compile(t, "memory", memoryCap),
		compile(t, "labels", `
enforcement: Warn
variables: [{name: labels, expression: "vm.metadata.?labels.orValue({})"}]
validations:
- {expression: "'owner' in variables.labels", message: name an owner, fieldPath: "vm.metadata.labels[owner]"}
- {expression: "'tier' in variables.labels", message: name a tier}
`),
		compile(t, "quiet", never+"match: {kinds: [VirtualMachineInstance]}"),
		compile(t, "report", `
enforcement: Audit
validations:
- {expression: "object.spec.runStrategy == 'Always'", message: it should run, fieldPath: spec.runStrategy, reason: Forbidden}
match: {kinds: [VirtualMachine]}
`),
	)
	wantSaid(t, set.Evaluate(vm(t, build.VMI("db").Memory("16Gi")), noon),
		"Warn spec: Forbidden: name a tier [virtward/policy/labels]",
		"Audit spec.runStrategy: Forbidden: it should run [virtward/policy/report]",
		"Warn spec.template.metadata.labels[owner]: Required value: name an owner [virtward/policy/labels]",
		`Deny spec.template.spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi of memory [virtward/policy/memory] Choose a smaller instancetype.`,
	)
	wantSaid(t, set.Evaluate(documents(t, effective.Input{VMI: build.VMI("db").Label("owner", "ann").Label("tier", "1").Obj()}), noon),
		`Deny spec.domain: Invalid value: never [virtward/policy/quiet]`)
}

// TestMatch has one case for and one against each field of match.
func TestMatch(t *testing.T) {
	mshv, err := platform.HypervisorByName("hyperv-direct")
	if err != nil {
		t.Fatal(err)
	}
	ns := func(labels map[string]string) func(*cel.Documents) {
		return func(d *cel.Documents) {
			d.Namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: labels}}
		}
	}
	labelled := func(key, value string) func(*cel.Documents) {
		return func(d *cel.Documents) {
			d.Object.(*v1.VirtualMachine).Labels = map[string]string{key: value}
		}
	}
	user := func(name string, groups ...string) func(*cel.Documents) {
		return func(d *cel.Documents) {
			d.Request.UserInfo, d.Requester = authenticationv1.UserInfo{Username: name, Groups: groups}, name
		}
	}
	update := func(d *cel.Documents) {
		d.Request.Operation, d.OldObject = "UPDATE", d.Object.(*v1.VirtualMachine).DeepCopy()
	}
	for name, tc := range map[string]struct {
		match  string
		change func(*cel.Documents)
		asked  bool
	}{
		"an empty match":                   {"{}", nil, true},
		"its kind":                         {"{kinds: [VirtualMachine]}", nil, true},
		"another kind":                     {"{kinds: [VirtualMachineInstance, VirtualMachinePool]}", nil, false},
		"its operation":                    {"{operations: [UPDATE]}", update, true},
		"another operation":                {"{operations: [UPDATE]}", nil, false},
		"no operation, an object before":   {"{operations: [UPDATE]}", func(d *cel.Documents) { update(d); d.Request.Operation = "" }, true},
		"no operation, none before":        {"{operations: [UPDATE]}", func(d *cel.Documents) { d.Request.Operation = "" }, false},
		"a deletion":                       {"{}", func(d *cel.Documents) { d.Request.Operation = "DELETE" }, false},
		"its namespace":                    {"{namespaceSelector: {matchLabels: {tier: prod}}}", ns(map[string]string{"tier": "prod"}), true},
		"another namespace":                {"{namespaceSelector: {matchLabels: {tier: prod}}}", ns(map[string]string{"tier": "lab"}), false},
		"an expression of namespaces":      {"{namespaceSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [lab]}]}}", ns(map[string]string{"tier": "prod"}), true},
		"the name of an unknown namespace": {"{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}", nil, true},
		"an empty selector":                {"{namespaceSelector: {}, objectSelector: {}}", nil, true},
		"its labels":                       {"{objectSelector: {matchLabels: {a: b}}}", labelled("a", "b"), true},
		"other labels":                     {"{objectSelector: {matchLabels: {a: b}}}", labelled("a", "c"), false},
		"its labels before": {"{objectSelector: {matchLabels: {a: b}}}", func(d *cel.Documents) {
			labelled("a", "b")(d)
			update(d)
			labelled("a", "c")(d)
		}, true},
		"other labels before": {"{objectSelector: {matchLabels: {a: b}}}", update, false},
		"an excluded user":    {"{excludedUsers: [bob, alice]}", nil, false},
		"another user":        {"{excludedUsers: [bob]}", nil, true},
		"an excluded group":   {"{excludedGroups: [admins, tenants]}", nil, false},
		"other groups":        {"{excludedGroups: [admins]}", nil, true},
		"an account of Virtward for an excluded user": {"{excludedUsers: [alice]}", func(d *cel.Documents) {
			d.Request.UserInfo = authenticationv1.UserInfo{Username: "system:serviceaccount:virtward-system:virtward", Groups: []string{"system:serviceaccounts"}}
		}, false},
		"an account of Virtward whose group is excluded": {"{excludedGroups: ['system:serviceaccounts']}", func(d *cel.Documents) {
			d.Request.UserInfo = authenticationv1.UserInfo{Username: "system:serviceaccount:virtward-system:virtward", Groups: []string{"system:serviceaccounts"}}
		}, true},
		"KubeVirt's account, which creates a VM":            {"{}", user("system:serviceaccount:kubevirt:kubevirt-controller"), true},
		"KubeVirt's account, by a condition on the request": {"{matchConditions: [{name: a, expression: 'request.userInfo.username != \"root\"'}]}", user("system:serviceaccount:kubevirt:kubevirt-controller"), false},
		"its hypervisor":     {"{hypervisors: [kvm]}", nil, true},
		"another hypervisor": {"{hypervisors: [mshv]}", nil, false},
		"a hypervisor by the name that it is configured under": {"{hypervisors: [hyperv-direct]}", func(d *cel.Documents) { d.Facts = d.Facts.WithHypervisor(mshv) }, true},
		"a hypervisor by its own name":                         {"{hypervisors: [mshv]}", func(d *cel.Documents) { d.Facts = d.Facts.WithHypervisor(mshv) }, true},
		"its architecture, which it does not say":              {"{architectures: [amd64]}", nil, true},
		"another architecture":                                 {"{architectures: [arm64, s390x]}", nil, false},
		"conditions that hold":                                 {"{matchConditions: [{name: a, expression: 'true'}, {name: b, expression: 'vm.metadata.name == \"db\"'}]}", nil, true},
		"a condition that does not":                            {"{matchConditions: [{name: a, expression: 'true'}, {name: b, expression: 'vm.metadata.name == \"web\"'}]}", nil, false},
		"Virtward's namespace":                                 {"{}", func(d *cel.Documents) { d.Request.Namespace = "virtward-system" }, false},
		"kube-system":                                          {"{}", func(d *cel.Documents) { d.Request.Namespace = "kube-system" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.NewSet("virtward-system", compile(t, "p", never+"match: "+tc.match))
			d := vm(t, build.VMI("db"))
			if tc.change != nil {
				tc.change(d)
			}
			var want []string
			if tc.asked {
				want = []string{"Deny spec.template.spec.domain: Invalid value: never [virtward/policy/p]"}
			}
			wantSaid(t, set.Evaluate(d, noon), want...)
		})
	}
}

// TestWhatKubeVirtSends: what KubeVirt's accounts create is evaluated, and they cannot be excluded.
// What they change in a VM appears in reports, and what they change in an instance nowhere.
func TestWhatKubeVirtSends(t *testing.T) {
	sent := func(d *cel.Documents) *cel.Documents {
		d.Requester = "system:serviceaccount:kubevirt:kubevirt-controller"
		d.Request.UserInfo = authenticationv1.UserInfo{Username: d.Requester, Groups: []string{"system:serviceaccounts"}}
		return d
	}
	for _, match := range []string{
		"{}", "{excludedUsers: ['system:serviceaccount:kubevirt:kubevirt-controller']}", "{excludedGroups: ['system:serviceaccounts']}",
	} {
		set := policies.NewSet("", compile(t, "p", never+"match: "+match))
		instance := sent(documents(t, effective.Input{VMI: build.VMI("db").Obj()}))
		wantSaid(t, set.Evaluate(instance, noon), "Deny spec.domain: Invalid value: never [virtward/policy/p]")
		machine := sent(vm(t, build.VMI("db")))
		wantSaid(t, set.Evaluate(machine, noon), "Deny spec.template.spec.domain: Invalid value: never [virtward/policy/p]")
		instance.Request.Operation, instance.OldObject = "UPDATE", instance.Object
		wantSaid(t, set.Evaluate(instance, noon))
		machine.Request.Operation, machine.OldObject = "UPDATE", machine.Object
		wantSaid(t, set.Evaluate(machine, noon), "Audit spec.template.spec.domain: Invalid value: never [virtward/policy/p]")
	}
	// The requester of a VM is checked when the pool or the restore is created; for an instance there is no other request.
	asks := policies.NewSet("", compile(t, "p", "enforcement: Deny\nvalidations: [{expression: \"requester == 'root'\", message: only root}]"))
	wantSaid(t, asks.Evaluate(sent(vm(t, build.VMI("db"))), noon))
	wantSaid(t, asks.Evaluate(sent(documents(t, effective.Input{VMI: build.VMI("db").Obj()})), noon), "Deny spec: Forbidden: only root [virtward/policy/p]")
	for operation, want := range map[policyv1alpha1.PolicyOperation]bool{"CREATE": true, "UPDATE": true, "DELETE": false} {
		if got := asks.ReadsRequest(policyv1alpha1.PolicyVirtualMachine, operation); got != want {
			t.Errorf("%s reads the request: %v", operation, got)
		}
	}
}

func TestExceptions(t *testing.T) {
	for name, tc := range map[string]struct {
		exceptions string
		exempt     bool
	}{
		"its namespace":                 {"[{namespaces: [other, default], reason: r}]", true},
		"another namespace":             {"[{namespaces: [other], reason: r}]", false},
		"its name":                      {"[{names: [db], reason: r}]", true},
		"its name and namespace":        {"[{names: [db], namespaces: [default], reason: r}]", true},
		"its name in another namespace": {"[{names: [db], namespaces: [other], reason: r}]", false},
		"how its name begins":           {"[{names: [d*], reason: r}]", true},
		"how another name begins":       {"[{names: [dx*], reason: r}]", false},
		"any name":                      {"[{names: ['*'], namespaces: [default], reason: r}]", true},
		"the second one":                {"[{names: [web], reason: r}, {names: [db], reason: r}]", true},
		"a second later":                {"[{names: [db], reason: r, expires: '2026-11-21T12:00:01Z'}]", true},
		"expired this moment":           {"[{names: [db], reason: r, expires: '2026-11-21T12:00:00Z'}]", false},
		"expired long ago":              {"[{names: [db], reason: r, expires: '2020-01-01T00:00:00Z'}]", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "p", never+"exceptions: "+tc.exceptions)
			findings := policies.NewSet("", p).Evaluate(vm(t, build.VMI("db")), noon)
			if exempt := len(findings) == 0; exempt != tc.exempt {
				t.Errorf("exempt %v, want %v", exempt, tc.exempt)
			}
		})
	}
	p := compile(t, "p", never+"exceptions: [{names: [a], reason: r}, {names: [b], reason: r, expires: '2026-11-21T11:00:00Z'}]")
	if diff := cmp.Diff([]int{1}, p.Expired(noon)); diff != "" {
		t.Errorf("expired (-want +got):\n%s", diff)
	}
	generated := documents(t, effective.Input{VMI: build.VMI("db").Obj()})
	generated.Request.Name, generated.Object.(*v1.VirtualMachineInstance).Name, generated.Object.(*v1.VirtualMachineInstance).GenerateName = "", "", "rs-"
	wantSaid(t, policies.NewSet("", compile(t, "p", never+"exceptions: [{names: ['rs-*'], reason: r}]")).Evaluate(generated, noon))
}

// TestEnforcementAndFailure has every pair of the two, for a violation and for what cannot be evaluated.
func TestEnforcementAndFailure(t *testing.T) {
	const policy = `
enforcement: %s
failurePolicy: %s
validations:
- {expression: "vm.metadata.labels['no'] == ''", message: m}
- {expression: "false", message: violated, fieldPath: spec.domain.cpu.cores, reason: Forbidden}
`
	for _, tc := range []struct {
		enforcement, failure string
		violated, failed     validators.Severity
	}{
		{"Deny", "Fail", "Deny", "Deny"},
		{"Deny", "Ignore", "Deny", "Warn"},
		{"Warn", "Fail", "Warn", "Warn"},
		{"Warn", "Ignore", "Warn", "Warn"},
		{"Audit", "Fail", "Audit", "Audit"},
		{"Audit", "Ignore", "Audit", "Audit"},
	} {
		set := policies.NewSet("", compile(t, "p", fmt.Sprintf(policy, tc.enforcement, tc.failure)))
		wantSaid(t, set.Evaluate(vm(t, build.VMI("db").Label("a", "b")), noon),
			string(tc.failed)+" spec: Internal error: the policy cannot be evaluated: spec.validations[0].expression: 1:19: no such key: no [virtward/policy/p] Ask an admin of the cluster to fix the policy.",
			string(tc.violated)+" spec.template.spec.domain.cpu.cores: Forbidden: violated [virtward/policy/p]",
		)
	}
}

func TestConditionsThatCannotBeDecided(t *testing.T) {
	const fails = `{name: fails, expression: "vm.metadata.labels['no'] == ''"}`
	for name, tc := range map[string]struct {
		conditions, failure string
		want                []string
	}{
		"fail":                   {"[" + fails + "]", "Fail", []string{"Deny spec: Internal error: the policy cannot be evaluated: spec.match.matchConditions[0].expression: 1:19: no such key: no [virtward/policy/p] Ask an admin of the cluster to fix the policy."}},
		"ignored":                {"[" + fails + "]", "Ignore", []string{"Warn spec: Internal error: the policy cannot be evaluated: spec.match.matchConditions[0].expression: 1:19: no such key: no [virtward/policy/p] Ask an admin of the cluster to fix the policy."}},
		"another one is not met": {"[" + fails + ", {name: b, expression: 'false'}]", "Fail", nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.NewSet("", compile(t, "p", never+"failurePolicy: "+tc.failure+"\nmatch: {matchConditions: "+tc.conditions+"}"))
			wantSaid(t, set.Evaluate(vm(t, build.VMI("db").Label("a", "b")), noon), tc.want...)
		})
	}
}

func TestMessages(t *testing.T) {
	for name, tc := range map[string]struct{ validation, want string }{
		"an expression":                     {`{message: m, messageExpression: "'is ' + vm.metadata.name"}`, "Forbidden: is db"},
		"one that makes nothing":            {`{message: m, messageExpression: "' '"}`, "Forbidden: m (messageExpression is empty)"},
		"one that fails":                    {`{message: m, messageExpression: "vm.metadata.labels['no']"}`, "Forbidden: m (messageExpression failed: 1:19: no such key: no)"},
		"one that fails, without a message": {`{messageExpression: "vm.metadata.labels['no']"}`, "Forbidden: this expression is false: false (messageExpression failed: 1:19: no such key: no)"},
		"lines":                             {`{message: "two\n  lines"}`, "Forbidden: two lines"},
		"reason Unauthorized":               {`{message: m, fieldPath: spec.domain.cpu.cores, reason: Unauthorized}`, "Forbidden: m"},
		"reason Forbidden":                  {`{message: m, fieldPath: spec.domain.cpu.cores, reason: Forbidden}`, "Forbidden: m"},
		"reason Invalid":                    {`{message: m, fieldPath: spec.domain.cpu.cores, reason: Invalid}`, "Invalid value: 1: m"},
		"reason RequestEntityTooLarge":      {`{message: m, fieldPath: spec.domain.cpu.cores, reason: RequestEntityTooLarge}`, "Too long: m"},
		"a value":                           {`{message: m, fieldPath: spec.domain.cpu.cores}`, "Invalid value: 1: m"},
		"a value that fields are below":     {`{message: m, fieldPath: spec.domain.cpu}`, "Invalid value: m"},
		"no value":                          {`{message: m, fieldPath: spec.hostname}`, "Required value: m"},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.NewSet("", compile(t, "p", "enforcement: Deny\nvalidations:\n- expression: 'false'\n  <<: "+tc.validation))
			found := set.Evaluate(vm(t, build.VMI("db").Label("a", "b")), noon)
			if len(found) != 1 || found[0].Text() != tc.want {
				t.Errorf("findings %q, want %q", said(found), tc.want)
			}
		})
	}
}
