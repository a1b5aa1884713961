package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

const day = 24 * time.Hour

// excepted is an exception of the policy caps for the VM legacy, from the day before noon until 30 days after it.
func excepted(changes ...func(*policyv1alpha1.VirtualMachinePolicyException)) *policyv1alpha1.VirtualMachinePolicyException {
	e := &policyv1alpha1.VirtualMachinePolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reports", CreationTimestamp: metav1.NewTime(noon.Add(-day))},
		Spec: policyv1alpha1.VirtualMachinePolicyExceptionSpec{
			Policies: []string{"caps"}, VirtualMachines: []string{"legacy"}, Reason: "year's end", Expires: metav1.NewTime(noon.Add(30 * day)),
		},
	}
	for _, change := range changes {
		change(e)
	}
	return e
}

func selecting(s metav1.LabelSelector) func(*policyv1alpha1.VirtualMachinePolicyException) {
	return func(e *policyv1alpha1.VirtualMachinePolicyException) {
		e.Spec.VirtualMachines, e.Spec.Selector = nil, &s
	}
}

func until(end time.Time) func(*policyv1alpha1.VirtualMachinePolicyException) {
	return func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Spec.Expires = metav1.NewTime(end) }
}

func created(at time.Time) func(*policyv1alpha1.VirtualMachinePolicyException) {
	return func(e *policyv1alpha1.VirtualMachinePolicyException) { e.CreationTimestamp = metav1.NewTime(at) }
}

var guarded = policies.ExceptionTerms{GuardedSince: noon.Add(-2 * day), MaxDuration: 90 * day}

func TestExceptionStates(t *testing.T) {
	for name, tc := range map[string]struct {
		terms     policies.ExceptionTerms
		exception *policyv1alpha1.VirtualMachinePolicyException
		want      string
		next      time.Time
	}{
		"active":                    {guarded, excepted(), "true Active active until 2026-12-21T12:00:00Z", noon.Add(23 * day)},
		"a week before its end":     {guarded, excepted(until(noon.Add(7 * day))), "true Expiring ends at 2026-11-28T12:00:00Z; a restart afterwards is denied", noon.Add(7 * day)},
		"a second before its end":   {guarded, excepted(until(noon.Add(time.Second))), "true Expiring ends at 2026-11-21T12:00:01Z; a restart afterwards is denied", noon.Add(time.Second)},
		"at its end":                {guarded, excepted(until(noon)), "false Expired expired at 2026-11-21T12:00:00Z", time.Time{}},
		"as long as it can be":      {guarded, excepted(until(noon.Add(90 * day))), "true Active active until 2027-02-19T12:00:00Z", noon.Add(83 * day)},
		"longer":                    {guarded, excepted(until(noon.Add(90*day + time.Second))), "false TooLong spec.expires is more than 90 days in the future", noon.Add(time.Second)},
		"no guard":                  {policies.ExceptionTerms{}, excepted(), "false NotPermitted the guard of exceptions is missing or switched off: no exception is active", time.Time{}},
		"older than the guard":      {guarded, excepted(created(noon.Add(-3 * day))), "false NotPermitted created before 2026-11-19T12:00:00Z, when the guard of exceptions became active: delete the exception and create it again", time.Time{}},
		"as old as the guard":       {guarded, excepted(created(noon.Add(-2 * day))), "false NotPermitted created before 2026-11-19T12:00:00Z, when the guard of exceptions became active: delete the exception and create it again", time.Time{}},
		"a file":                    {policies.ExceptionTerms{Trusted: true}, excepted(created(time.Time{}), until(noon.Add(9999*day))), "true Active active until 2054-04-07T12:00:00Z", noon.Add(9992 * day)},
		"names and a selector":      {guarded, excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Spec.Selector = &metav1.LabelSelector{} }), "false Invalid exactly one of spec.virtualMachines and spec.selector is required", time.Time{}},
		"no VMs":                    {guarded, excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Spec.VirtualMachines = nil }), "false Invalid exactly one of spec.virtualMachines and spec.selector is required", time.Time{}},
		"an invalid selector":       {guarded, excepted(selecting(metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}})), "false Invalid spec.selector.matchLabels", time.Time{}},
		"left out by the cache":     {guarded, excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Spec.Policies = nil }), "false TooMany the exceptions of the cluster are too large together", time.Time{}},
		"an end that was never set": {guarded, excepted(until(time.Time{})), "false Expired expired at 0001-01-01T00:00:00Z", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			states := policies.NewExceptions(tc.terms, tc.exception).States(noon)
			if len(states) != 1 {
				t.Fatalf("%d states", len(states))
			}
			got := fmt.Sprintf("%t %s %s", states[0].Active, states[0].Reason, states[0].Message)
			if !strings.HasPrefix(got, tc.want) || tc.want == "" || !states[0].Next.Equal(tc.next) {
				t.Errorf("want %q until %s, got %q until %s", tc.want, tc.next, got, states[0].Next)
			}
		})
	}
}

// owned is an instance that a VM controls.
func owned(name, apiVersion, owner string) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"tier": "instance"}}}
	if owner != "" {
		vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "VirtualMachine", Name: owner, UID: "1", Controller: new(true)}}
	}
	return vmi
}

func TestExceptionsMatch(t *testing.T) {
	labelled := selecting(metav1.LabelSelector{MatchLabels: map[string]string{"tier": "legacy"}})
	ofInstances := selecting(metav1.LabelSelector{MatchLabels: map[string]string{"tier": "instance"}})
	vm := func(name, generateName string, labels map[string]string) *v1.VirtualMachine {
		return &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, GenerateName: generateName, Labels: labels}}
	}
	legacy, none := map[string]string{"tier": "legacy"}, map[string]string{}
	for name, tc := range map[string]struct {
		exception *policyv1alpha1.VirtualMachinePolicyException
		object    metav1.Object
		owner     map[string]string
		want      bool
	}{
		"a VM by its name":                               {excepted(), vm("legacy", "", nil), nil, true},
		"a VM with another name":                         {excepted(), vm("legacy2", "", nil), nil, false},
		"a VM whose name begins so":                      {excepted(), vm("", "legacy", nil), nil, false},
		"a name is no pattern":                           {excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Spec.VirtualMachines = []string{"*", "leg*"} }), vm("legacy", "", nil), nil, false},
		"another namespace":                              {excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Namespace = "lab" }), vm("legacy", "", nil), nil, false},
		"another policy":                                 {excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) { e.Spec.Policies = []string{"cap", "*"} }), vm("legacy", "", nil), nil, false},
		"expired":                                        {excepted(until(noon)), vm("legacy", "", nil), nil, false},
		"a VM by its labels":                             {excepted(labelled), vm("x", "", legacy), nil, true},
		"a VM by its labels, whose name is generated":    {excepted(labelled), vm("", "x-", legacy), nil, true},
		"a VM with other labels":                         {excepted(labelled), vm("x", "", map[string]string{"tier": "new"}), nil, false},
		"an empty selector":                              {excepted(selecting(metav1.LabelSelector{})), vm("x", "", nil), nil, true},
		"the instance of the VM":                         {excepted(), owned("legacy", "kubevirt.io/v1", "legacy"), none, true},
		"the instance of the VM, of an older version":    {excepted(), owned("legacy", "kubevirt.io/v1alpha3", "legacy"), none, true},
		"an instance that claims to be of the VM":        {excepted(), owned("evil", "kubevirt.io/v1", "legacy"), none, false},
		"an instance of another VM":                      {excepted(), owned("legacy", "kubevirt.io/v1", "other"), none, false},
		"an instance of a VM that does not exist":        {excepted(), owned("legacy", "kubevirt.io/v1", "legacy"), nil, false},
		"an instance of no VM, and an empty selector":    {excepted(selecting(metav1.LabelSelector{})), owned("x", "kubevirt.io/v1", "x"), nil, false},
		"an instance without VM":                         {excepted(), owned("legacy", "", ""), nil, true},
		"an instance of a VM of another group":           {excepted(), owned("evil", "example.com/v1", "legacy"), nil, false},
		"the labels of the VM count, not the instance's": {excepted(ofInstances), owned("x", "kubevirt.io/v1", "x"), none, false},
		"the labels of the VM of an instance":            {excepted(labelled), owned("x", "kubevirt.io/v1", "x"), legacy, true},
		"labels of a VM that is not this one's":          {excepted(labelled), owned("evil", "kubevirt.io/v1", "x"), legacy, false},
		"the labels of an instance without VM":           {excepted(ofInstances), owned("x", "", ""), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.NewSet("", compile(t, "caps", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`))
			d := &cel.Documents{Kind: "VirtualMachine", Object: tc.object, OwnerLabels: tc.owner, Request: cel.Request{Operation: "CREATE", Namespace: "shop"}}
			if _, ok := tc.object.(*v1.VirtualMachineInstance); ok {
				d.Kind = "VirtualMachineInstance"
			}
			findings := set.Exempting(policies.NewExceptions(guarded, tc.exception)).Evaluate(d, noon)
			if len(findings) != 1 {
				t.Fatalf("findings: %v", findings)
			}
			exempted := findings[0].Exempted != nil
			if exempted != tc.want || (findings[0].Severity == validators.Audit) != tc.want {
				t.Errorf("exempted: %t, severity %s; want %t", exempted, findings[0].Severity, tc.want)
			}
			if before := set.Evaluate(d, noon); before[0].Exempted != nil {
				t.Error("the set without exceptions has them")
			}
		})
	}
}

// An exception exempts a deletion too.
func TestExceptionsOfDeletions(t *testing.T) {
	set := policies.NewSet("", compile(t, "caps", `{enforcement: Deny, match: {operations: [DELETE]}, validations: [{expression: "false", message: never}]}`))
	set = set.Exempting(policies.NewExceptions(guarded, excepted()))
	for name, want := range map[string]validators.Severity{"legacy": validators.Audit, "other": validators.Deny} {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		findings := set.Evaluate(&cel.Documents{Kind: "VirtualMachine", OldObject: vm, Request: cel.Request{Operation: "DELETE", Namespace: "shop", Name: name}}, noon)
		if len(findings) != 1 || findings[0].Severity != want {
			t.Errorf("%s: %v, want %s", name, findings, want)
		}
	}
}

func TestExemptedFindings(t *testing.T) {
	set := policies.NewSet("",
		compile(t, "caps", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`),
		compile(t, "fails", `{enforcement: Deny, validations: [{expression: "1 / int(vm.spec.domain.cpu.sockets - vm.spec.domain.cpu.sockets) == 1", message: never}]}`),
		compile(t, "other", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`),
	)
	later := excepted(func(e *policyv1alpha1.VirtualMachinePolicyException) {
		e.Name, e.Spec.Policies, e.Spec.Expires = "later", []string{"caps"}, metav1.NewTime(noon.Add(31*day))
	})
	sooner := excepted(until(noon.Add(day)), func(e *policyv1alpha1.VirtualMachinePolicyException) {
		e.Spec.Policies = []string{"caps", "fails"}
	})
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "legacy"}}
	d := &cel.Documents{Kind: "VirtualMachine", Object: vm, VM: &v1.VirtualMachineInstance{}, Request: cel.Request{Operation: "CREATE"}}
	var got []string
	for _, f := range set.Exempting(policies.NewExceptions(guarded, sooner, later)).Evaluate(d, noon) {
		got = append(got, fmt.Sprintf("%s %s %v", f.Rule, f.Severity, f.Exempted))
	}
	if diff := cmp.Diff([]string{
		"policy/caps Audit exempted until 2026-12-22T12:00:00Z by VirtualMachinePolicyException later: year's end",
		"policy/fails Audit exempted until 2026-11-22T12:00:00Z by VirtualMachinePolicyException reports: year's end",
		"policy/other Deny <nil>",
	}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// The oldest exceptions of a namespace are active. Expired ones leave their place to others.
func TestExceptionsAreBounded(t *testing.T) {
	var all []*policyv1alpha1.VirtualMachinePolicyException
	for i := range policies.MaxExceptions + 3 {
		e := excepted(created(noon.Add(time.Duration(i-1000) * time.Minute)))
		e.Name = fmt.Sprintf("e%d", i)
		all = append(all, e)
	}
	all[0].Spec.Expires = metav1.NewTime(noon)
	x := policies.NewExceptions(guarded, all...)
	if n := x.Active("shop", noon); n != policies.MaxExceptions {
		t.Errorf("%d active exceptions", n)
	}
	reasons := map[string]string{}
	for _, s := range x.States(noon) {
		reasons[s.Object.Name] = s.Reason
	}
	for name, want := range map[string]string{"e0": "Expired", "e1": "Active", "e100": "Active", "e101": "TooMany", "e102": "TooMany"} {
		if reasons[name] != want {
			t.Errorf("%s: %s, want %s", name, reasons[name], want)
		}
	}
}

func TestCheckException(t *testing.T) {
	for name, tc := range map[string]struct {
		exception *policyv1alpha1.VirtualMachinePolicyException
		want      string
	}{
		"valid":    {excepted(), ""},
		"past":     {excepted(until(noon)), `spec.expires: Invalid value: "2026-11-21T12:00:00Z": must be in the future`},
		"too late": {excepted(until(noon.Add(91 * day))), `spec.expires: Invalid value: "2027-02-20T12:00:00Z": must be at most 90 days in the future`},
		"a bad selector": {
			excepted(selecting(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}})),
			`spec: Invalid value: spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, err := range policies.CheckException(tc.exception, 90*day, noon) {
				got += err.Error()
			}
			if got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

// Exemptable tells when a denial can offer an exception.
func TestExemptable(t *testing.T) {
	caps := compile(t, "caps", `{enforcement: Deny, validations: [{expression: "false", message: never}]}`)
	exported := compile(t, "exported", `{enforcement: Deny, exportTo: [APIServer], validations: [{expression: "false", message: never}]}`)
	set := policies.NewSet("", caps, exported)
	on := policies.NewExceptions(guarded)
	for name, tc := range map[string]struct {
		exceptions *policies.Exceptions
		kind       string
		finding    validators.Finding
		want       bool
	}{
		"a violation by a VM":               {on, "VirtualMachine", validators.Finding{Rule: "policy/caps"}, true},
		"a violation by an instance":        {on, "VirtualMachineInstance", validators.Finding{Rule: "policy/caps"}, true},
		"a pool":                            {on, "VirtualMachinePool", validators.Finding{Rule: "policy/caps"}, false},
		"a built-in rule":                   {on, "VirtualMachine", validators.Finding{Rule: "caps"}, false},
		"an evaluation error":               {on, "VirtualMachine", validators.Finding{Rule: "policy/caps", EvaluationError: policies.ReasonFailed}, false},
		"a policy that is gone":             {on, "VirtualMachine", validators.Finding{Rule: "policy/gone"}, false},
		"enforced by the API server too":    {on, "VirtualMachine", validators.Finding{Rule: "policy/exported"}, false},
		"exceptions are switched off":       {nil, "VirtualMachine", validators.Finding{Rule: "policy/caps"}, false},
		"the guard of exceptions is gone":   {policies.NewExceptions(policies.ExceptionTerms{}), "VirtualMachine", validators.Finding{Rule: "policy/caps"}, false},
		"exceptions of files need no guard": {policies.NewExceptions(policies.ExceptionTerms{Trusted: true}), "VirtualMachine", validators.Finding{Rule: "policy/caps"}, true},
	} {
		if got := set.Exempting(tc.exceptions).Exemptable(tc.kind, &tc.finding); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
