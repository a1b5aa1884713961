package policies_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

const memoryInRego = `
enforcement: Deny
remedy: Choose a smaller instancetype.
params: {values: {max: 8Gi}}
rego:
  module: |
    package memory
    deny contains {"msg": msg, "field": "spec.domain.memory.guest"} if {
      guest := input.vm.spec.domain.memory.guest
      units.parse_bytes(guest) > units.parse_bytes(input.params.max)
      msg := sprintf("a VM may have %s of memory", [input.params.max])
    }
    warn contains "name an owner" if not input.vm.metadata.labels.owner
`

func TestRego(t *testing.T) {
	for name, tc := range map[string]struct {
		extra, warned string
	}{
		"it denies":  {"", "Warn"},
		"it reports": {"enforcement: Audit", "Audit"},
		"it warns":   {"enforcement: Warn", "Warn"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, severity := memoryInRego, "Deny"
			if tc.extra != "" {
				spec, severity = strings.Replace(spec, "enforcement: Deny", tc.extra, 1), strings.TrimPrefix(tc.extra, "enforcement: ")
			}
			wantSaid(t, policies.NewSet("", compile(t, "p", spec)).Evaluate(vm(t, build.VMI("db").Memory("16Gi")), noon),
				tc.warned+" spec: Forbidden: name an owner [virtward/policy/p] Choose a smaller instancetype.",
				severity+` spec.template.spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi of memory [virtward/policy/p] Choose a smaller instancetype.`,
			)
		})
	}
	endless := compile(t, "endless", `
enforcement: Deny
rego:
  module: |
    package endless
    deny contains "never" if { some a in numbers.range(1, 1000); some b in numbers.range(1, 1000); some c in numbers.range(1, 1000); a * b * c == -1 }
`)
	found := policies.NewSet("", endless, compile(t, "good", never)).Evaluate(vm(t, build.VMI("db")), noon)
	if len(found) != 2 || !strings.HasPrefix(found[0].Text(), "Internal error: the policy cannot be evaluated: spec.rego.module: the Rego of endless was stopped: it takes more than ") || found[1].Rule != "policy/good" {
		t.Errorf("findings %q", said(found))
	}
}

func instancetype(name, memory string) *instancetypes.Instancetype {
	spec := instancetypev1beta1.VirtualMachineInstancetypeSpec{CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}}
	spec.Memory.Guest = *build.VMI("x").Memory(memory).Obj().Spec.Domain.Memory.Guest
	return &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: name, Spec: spec}
}

// TestTheEffectiveVMIsEvaluated: what the instancetype says counts, and of an update only what grew is rejected.
func TestTheEffectiveVMIsEvaluated(t *testing.T) {
	set := policies.NewSet("", compile(t, "memory", memoryCap))
	d := documents(t, effective.Input{
		VM:         build.VM("db").Instancetype("big").Obj(),
		References: effective.References{Instancetype: instancetype("big", "16Gi")},
	})
	wantSaid(t, set.Evaluate(d, noon),
		`Deny spec.template.spec.domain.memory.guest: Invalid value: "16Gi": a VM may have 8Gi of memory [virtward/policy/memory] Choose a smaller instancetype.`)
}

func TestTheRatchetDetectsAWorseViolation(t *testing.T) {
	for name, tc := range map[string]struct {
		validation    string
		before, after *build.VMIBuilder
		known         bool
	}{
		"the same value":     {"fieldPath: spec.domain.memory.guest", build.VMI("db"), build.VMI("db").Label("a", "b"), true},
		"another value":      {"fieldPath: spec.domain.memory.guest", build.VMI("db"), build.VMI("db").Memory("2Gi"), false},
		"the same list":      {"fieldPath: spec.domain.devices.disks", build.VMI("db").Disk("a", "virtio"), build.VMI("db").Disk("a", "virtio").Memory("2Gi"), true},
		"a longer list":      {"fieldPath: spec.domain.devices.disks", build.VMI("db").Disk("a", "virtio"), build.VMI("db").Disk("a", "virtio").Disk("b", "virtio"), false},
		"an error, the same": {"expression: \"vm.metadata.labels['no'] == ''\"", build.VMI("db").Label("a", "b"), build.VMI("db").Label("a", "b"), true},
		"an error, a change": {"expression: \"vm.metadata.labels['no'] == ''\"", build.VMI("db").Label("a", "b"), build.VMI("db").Label("a", "b").Memory("2Gi"), false},
	} {
		t.Run(name, func(t *testing.T) {
			validation := "expression: 'false', " + tc.validation
			if strings.HasPrefix(tc.validation, "expression") {
				validation = tc.validation
			}
			set := policies.NewSet("", compile(t, "p", "enforcement: Deny\nvalidations: [{message: m, "+validation+"}]"))
			before := verdict(t, set, tc.before)
			after := verdict(t, set, tc.after)
			if after.Ratchet(before); after.Findings[0].PreExisting != tc.known {
				t.Errorf("known %v, want %v: %q", after.Findings[0].PreExisting, tc.known, said(after.Findings))
			}
		})
	}
}

func verdict(t *testing.T, set *policies.Set, template *build.VMIBuilder) *effective.Verdict {
	t.Helper()
	machine := build.VMOf(template).Obj()
	d := documents(t, effective.Input{VM: machine})
	return &effective.Verdict{VM: machine, Spec: &d.VM.Spec, Findings: set.Evaluate(d, noon)}
}

func TestManyViolationsAreCut(t *testing.T) {
	validations := strings.Repeat(`{expression: "false", message: m, fieldPath: "spec.domain.devices.disks[0]"}, `, 30)
	found := policies.NewSet("", compile(t, "cel", "enforcement: Deny\nvalidations: ["+validations+"]")).Evaluate(vm(t, build.VMI("db").Disk("a", "")), noon)
	if len(found) != 20 || found[19].Error.Detail != "m (and 10 more violations of this policy)" || found[18].Error.Detail != "m" {
		t.Errorf("%d findings, the last %q", len(found), said(found[len(found)-1:]))
	}
	found = policies.NewSet("", compile(t, "rego", `
enforcement: Deny
rego:
  module: |
    package many
    warn contains {"msg": "w", "field": "spec.affinity"} if true
    deny contains {"msg": sprintf("m%d", [i]), "field": sprintf("spec.volumes[%d]", [i])} if some i in numbers.range(1, 1000)
`)).Evaluate(vm(t, build.VMI("db")), noon)
	last := found[len(found)-1]
	if len(found) != 20 || !strings.HasSuffix(last.Error.Detail, "(and 981 more violations of this policy)") || slices.ContainsFunc(found, func(f validators.Finding) bool { return f.Severity != "Deny" }) {
		t.Errorf("%d findings: %q", len(found), said(found))
	}
}

// TestAPolicyThatIsTooExpensive cannot be evaluated, and takes no time from the others.
func TestAPolicyThatIsTooExpensive(t *testing.T) {
	const costly = "vm.spec.volumes.all(a, vm.spec.volumes.all(b, vm.spec.volumes.all(c, vm.spec.volumes.all(d, vm.spec.volumes.all(e, a.name != 'x' && b.name != 'x' && c.name != 'x' && d.name != 'x' && e.name != 'x')))))"
	template := build.VMI("db")
	for i := range 100 {
		template.Volume(fmt.Sprintf("v%d", i), "image")
	}
	expensive := compile(t, "expensive", "enforcement: Deny\nvalidations: ["+strings.Repeat("{expression: \""+costly+"\", message: m, fieldPath: spec.volumes}, ", 40)+"]")
	started := time.Now()
	found := policies.NewSet("", expensive, compile(t, "good", never)).Evaluate(vm(t, template), noon)
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(found) < 3 || found[len(found)-1].Rule != "policy/good" {
		t.Fatalf("findings %q", said(found))
	}
	for _, want := range []string{"the expression is too expensive", "the policy is too expensive"} {
		if !slices.ContainsFunc(found, func(f validators.Finding) bool { return strings.Contains(f.Error.Detail, want) }) {
			t.Errorf("no finding says %q: %q", want, said(found))
		}
	}
}

// TestPoliciesThatDoNotDenyShareABudget holds that however many there are, a request is answered in time, and the policies
// that deny are evaluated.
func TestPoliciesThatDoNotDenyShareABudget(t *testing.T) {
	const thousand = "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, "
	const costly = thousand + "[0,1,2,3,4,5,6,7,8,9].all(d, (string(a) + string(b) + string(c) + string(d)).upperAscii() != 'x'))))"
	endless := "rego:\n  module: |\n    package p\n    deny contains \"m\" if { some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i * j < 0 }"
	all := []*policies.Policy{compile(t, "z-denies", never)}
	for i := range 10 {
		all = append(all,
			compile(t, fmt.Sprintf("cel-%d", i), "enforcement: Audit\nvalidations: ["+strings.Repeat("{expression: \""+costly+"\", message: m}, ", 30)+"]"),
			compile(t, fmt.Sprintf("conditions-%d", i), "enforcement: Warn\nvalidations: [{expression: 'true', message: m}]\nmatch: {matchConditions: [{name: a, expression: \""+costly+"\"}, {name: b, expression: \""+costly+"\"}]}"),
			compile(t, fmt.Sprintf("rego-%d", i), "enforcement: Warn\n"+endless))
	}
	set := policies.NewSet("", all...)
	for name, ask := range map[string]func(*cel.Documents, time.Time) []validators.Finding{"a request": set.Evaluate, "an audit": set.Audit} {
		found := ask(vm(t, build.VMI("db")), noon)
		var denied, skipped int
		for i := range found {
			switch {
			case found[i].Severity == validators.Deny && found[i].Rule == "policy/z-denies":
				denied++
			case found[i].Severity == validators.Deny:
				t.Errorf("%s: a policy that does not deny does: %q", name, said(found[i:i+1]))
			case policies.IsSkipped(&found[i]) && found[i].Error.Detail == "the policy was skipped: the cost budget shared by non-denying policies is exhausted":
				skipped++
			}
		}
		if denied != 1 || skipped < 20 {
			t.Errorf("%s: %d denied, %d were not evaluated: %q", name, denied, skipped, said(found))
		}
	}
}

// TestTheRatchetDetectsUnreportedViolations: if there are more violations than are reported, another one is new.
func TestTheRatchetDetectsUnreportedViolations(t *testing.T) {
	set := policies.NewSet("", compile(t, "images", `
enforcement: Deny
rego:
  module: |
    package images
    deny contains {"msg": sprintf("%s is not allowed", [v.containerDisk.image]), "field": sprintf("spec.volumes[%02d]", [i])} if {
        some i, v in input.vm.spec.volumes
        startswith(v.containerDisk.image, "bad")
    }
`))
	machine := func(last string) *build.VMIBuilder {
		template := build.VMI("db")
		for i := range 24 {
			template.Volume(fmt.Sprintf("v%02d", i), fmt.Sprintf("bad%d", i))
		}
		return template.Volume("last", last)
	}
	before := verdict(t, set, machine("bad"))
	same, other := verdict(t, set, machine("bad")), verdict(t, set, machine("badder"))
	same.Ratchet(before)
	other.Ratchet(before)
	if !same.Allowed() || other.Allowed() {
		t.Errorf("the same %t, another violation %t: %q", same.Allowed(), other.Allowed(), said(other.Findings))
	}
}

// TestAudit evaluates only the policies that do not read the request, for objects of any author.
func TestAudit(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		why  []string
	}{
		"what is there":           {never, nil},
		"an excluded user":        {never + "match: {excludedUsers: [alice], excludedGroups: [tenants]}", nil},
		"the name in the request": {"enforcement: Deny\nvalidations: [{expression: \"request.name == 'web'\", message: never, fieldPath: spec.domain}]", nil},
		"changes only":            {never + "match: {operations: [UPDATE]}", []string{"spec.match.operations: the audit evaluates objects as if they were created"}},
		"the requester":           {"enforcement: Deny\nvariables: [{name: who, expression: request.userInfo.username}]\nvalidations: [{expression: \"variables.who == 'bob'\", message: m, fieldPath: spec.domain}]", []string{"spec.validations[0].expression reads the request"}},
		"what they may do": {
			"enforcement: Deny\nmatch: {matchConditions: [{name: a, expression: \"authorizer.group('').resource('pods').check('get').allowed()\"}]}\nvalidations: [{expression: 'false', messageExpression: requester}]",
			[]string{"spec.match.matchConditions[0].expression reads authorizer", "spec.validations[0].messageExpression reads the request"},
		},
		"a module that reads the request": {"enforcement: Deny\nrego: {module: \"package a\\ndeny contains input.requester if input.request\"}", []string{"spec.rego.module reads input.request", "spec.rego.module reads input.requester"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, "p", tc.spec)
			if diff := cmp.Diff(tc.why, p.Unauditable()); diff != "" {
				t.Errorf("why it cannot be audited (-want +got):\n%s", diff)
			}
			d := vm(t, build.VMI("db"))
			d.Request, d.Requester = cel.Request{Name: "db", Namespace: "default"}, ""
			found := policies.NewSet("virtward-system", p).Audit(d, noon)
			if evaluated := len(found) == 1 && found[0].Error.Detail == "never"; evaluated != (tc.why == nil) {
				t.Errorf("findings %q", said(found))
			}
		})
	}
}

type allowed bool

func (a allowed) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	if a {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func TestAuthorizer(t *testing.T) {
	set := policies.NewSet("", compile(t, "p", "enforcement: Deny\nvalidations: [{expression: \"authorizer.group('kubevirt.io').resource('virtualmachines').check('delete').allowed()\", message: you may not, fieldPath: spec.domain}]"))
	for name, tc := range map[string]struct {
		who  authorizer.UnconditionalAuthorizer
		want string
	}{
		"may":           {allowed(true), ""},
		"may not":       {allowed(false), "you may not"},
		"no authorizer": {nil, "the policy cannot be evaluated: spec.validations[0].expression: "},
	} {
		t.Run(name, func(t *testing.T) {
			d := vm(t, build.VMI("db"))
			d.Authorizer = tc.who
			found := set.Evaluate(d, noon)
			if tc.want == "" && len(found) > 0 || tc.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0].Error.Detail, tc.want)) {
				t.Errorf("findings %q, want %q", said(found), tc.want)
			}
		})
	}
}

func TestSet(t *testing.T) {
	var none *policies.Set
	if none.Evaluate(vm(t, build.VMI("db")), noon) != nil || none.Audit(vm(t, build.VMI("db")), noon) != nil || none.Policies() != nil || none.Find("p") != nil {
		t.Error("a set that there is none of says something")
	}
	set := policies.NewSet("", compile(t, "b", never), compile(t, "a", never), compile(t, "b", never+"title: The later one"))
	var names []string
	for _, p := range set.Policies() {
		names = append(names, p.Name())
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	if p := set.Find("b"); p == nil || p.Spec().Title != "The later one" || p.Spec().FailurePolicy != "Fail" || p.Rule() != "policy/b" {
		t.Errorf("found %+v", p)
	}
	if set.Find("c") != nil {
		t.Error("found a policy that there is none of")
	}
}

// TestSetsAreSharedAndTheirAnswerIsTheSame: many requests at once get the same findings in the same order.
func TestSetsAreSharedAndTheirAnswerIsTheSame(t *testing.T) {
	set := policies.NewSet("", compile(t, "memory", memoryCap), compile(t, "rego", memoryInRego), compile(t, "never", never))
	want := said(set.Evaluate(vm(t, build.VMI("db").Memory("16Gi")), noon))
	if len(want) != 4 {
		t.Fatalf("findings %q", want)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if diff := cmp.Diff(want, said(set.Evaluate(vm(t, build.VMI("db").Memory("16Gi")), noon))); diff != "" {
					t.Errorf("findings (-first +now):\n%s", diff)
				}
			}
		})
	}
	group.Wait()
}

// TestDocumentsMayLackAnything: policies are evaluated even if the caller knows none of the documents.
func TestDocumentsMayLackAnything(t *testing.T) {
	set := policies.NewSet("virtward-system", compile(t, "memory", memoryCap+"match: {matchConditions: [{name: a, expression: 'true'}]}"), compile(t, "rego", memoryInRego), compile(t, "never", never))
	var typed *v1.VirtualMachine
	for name, d := range map[string]*cel.Documents{
		"nothing":      {Kind: "VirtualMachine"},
		"typed nil":    {Kind: "VirtualMachine", Object: typed, OldObject: typed},
		"no VM":        {Kind: "VirtualMachine", Object: build.VM("db").Obj(), Request: cel.Request{UserInfo: authenticationv1.UserInfo{Username: "alice"}}},
		"another kind": {Kind: "VirtualMachine", Object: &corev1.Pod{}},
	} {
		t.Run(name, func(t *testing.T) {
			found := set.Evaluate(d, noon)
			if len(found) < 2 || !slices.ContainsFunc(found, func(f validators.Finding) bool { return f.Rule == "policy/never" }) {
				t.Errorf("findings %q", said(found))
			}
		})
	}
	if found := set.Evaluate(&cel.Documents{Kind: "Pod"}, noon); found != nil {
		t.Errorf("findings %q about a kind that no policy evaluates", said(found))
	}
}

// TestACostlyPolicyDoesNotTakeTheSharesOfOthers holds that policies that deny are bounded together, and that each keeps its
// share, wherever it is in the order of their names.
func TestACostlyPolicyDoesNotTakeTheSharesOfOthers(t *testing.T) {
	const endless = "validations: [{expression: \"lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))\", message: m}]"
	const endlessInRego = "rego: {module: \"package p\\ndeny contains \\\"m\\\" if { some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); i * j < 0 }\"}"
	const cheap = "validations: [{expression: \"lists.range(20).all(a, a >= 0)\", message: m}]"
	const cheapInRego = "rego: {module: \"package p\\ndeny contains \\\"m\\\" if { some i in numbers.range(1, 20); i < 0 }\"}"
	var all []*policies.Policy
	for i := range 20 {
		all = append(all, compile(t, fmt.Sprintf("a-%02d-endless", i), "enforcement: Deny\n"+endless), compile(t, fmt.Sprintf("b-%02d-endless", i), "enforcement: Deny\n"+endlessInRego),
			compile(t, fmt.Sprintf("a-%02d-cheap", i), "enforcement: Deny\n"+cheap), compile(t, fmt.Sprintf("c-%02d-cheap", i), "enforcement: Deny\n"+cheapInRego))
	}
	set := policies.NewSet("", all...)
	first := set.Evaluate(vm(t, build.VMI("db")), noon)
	failed := map[string]bool{}
	for i := range first {
		if first[i].EvaluationError != policies.ReasonLimit || first[i].Severity != validators.Deny {
			t.Errorf("%s: %s", first[i].Rule, first[i].Error.Detail)
		}
		failed[first[i].Rule] = true
	}
	for _, p := range all {
		if costly := strings.HasSuffix(p.Name(), "endless"); failed[p.Rule()] != costly {
			t.Errorf("%s exceeds its budget: %t, want %t", p.Name(), failed[p.Rule()], costly)
		}
	}
	if second := set.Evaluate(vm(t, build.VMI("db")), noon); !slices.Equal(said(first), said(second)) {
		t.Errorf("findings differ: %q and %q", said(first), said(second))
	}
}
