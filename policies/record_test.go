package policies_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// outcomes is a Recorder.
type outcomes struct {
	mu     sync.Mutex
	all    []policies.Outcome
	denied []time.Time
}

func (o *outcomes) Record(one policies.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, one)
}

func (o *outcomes) Denied(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.denied = append(o.denied, at)
}

// Each policy that denied a request counts once. Warnings, findings with an exception, and rules do not count.
func TestDenied(t *testing.T) {
	first, second := &outcomes{}, &outcomes{}
	recorded := func(name string, recorder policies.Recorder) *policies.Policy {
		return policies.Recorded(compile(t, name, `{enforcement: Deny, validations: [{expression: "false", message: m}]}`), recorder)
	}
	set := policies.NewSet("virtward", recorded("first", first), recorded("second", second), compile(t, "third", `{enforcement: Deny, validations: [{expression: "false", message: m}]}`))
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	set.Denied(at, []validators.Finding{
		{Rule: "policy/first", Severity: validators.Deny},
		{Rule: "policy/first", Severity: validators.Deny},
		{Rule: "policy/second", Severity: validators.Warn},
		{Rule: "first", Severity: validators.Deny},
		{Rule: "policy/third", Severity: validators.Deny},
		{Rule: "policy/gone", Severity: validators.Deny},
		{Rule: "policy/second", Severity: validators.Deny, Exempted: &validators.Exemption{}},
	})
	if len(first.denied) != 1 || !first.denied[0].Equal(at) || len(second.denied) > 0 {
		t.Errorf("denied %v and %v", first.denied, second.denied)
	}
	(*policies.Set)(nil).Denied(at, []validators.Finding{{Rule: "policy/first", Severity: validators.Deny}})
}

// costly is an expression that exceeds the limit of an expression on every object.
const costly = `[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))`

func TestRecorder(t *testing.T) {
	failing := func(field, reason string) []policies.Failure {
		return []policies.Failure{{Field: field, Reason: reason}}
	}
	const first = "spec.validations[0].expression"
	for name, c := range map[string]struct {
		spec string
		want []policies.Outcome
	}{
		"it holds":    {`enforcement: Audit, validations: [{expression: "true", message: m}]`, []policies.Outcome{{}}},
		"a violation": {`enforcement: Audit, validations: [{expression: "false", message: m}]`, []policies.Outcome{{}}},
		"it does not match": {
			`enforcement: Audit, match: {objectSelector: {matchLabels: {not: there}}}, validations: [{expression: "true", message: m}]`, nil,
		},
		"a condition is false": {
			`enforcement: Audit, match: {matchConditions: [{name: c, expression: "false"}]}, validations: [{expression: "true", message: m}]`, nil,
		},
		"a condition fails": {
			`enforcement: Audit, match: {matchConditions: [{name: c, expression: "object.metadata.labels['none'] == ''"}]}, validations: [{expression: "true", message: m}]`,
			[]policies.Outcome{{Failures: failing("spec.match.matchConditions[0].expression", policies.ReasonFailed)}},
		},
		"an expression fails": {
			`enforcement: Deny, validations: [{expression: "true", message: m}, {expression: "object.metadata.labels['none'] == ''", message: m}]`,
			[]policies.Outcome{{Failures: failing("spec.validations[1].expression", policies.ReasonFailed)}},
		},
		"it exceeds its units": {
			`enforcement: Audit, validations: [{expression: "` + costly + `", message: m}]`,
			[]policies.Outcome{{Failures: failing(first, policies.ReasonLimit), Overrun: true}},
		},
		"it exceeds its units, and denies": {
			`enforcement: Deny, validations: [{expression: "` + costly + `", message: m}]`,
			[]policies.Outcome{{Failures: failing(first, policies.ReasonLimit), Overrun: true}},
		},
		"parameters are missing": {
			`enforcement: Warn, params: {configMap: {namespace: a, name: b}}, validations: [{expression: "params.x == '1'", message: m}]`,
			[]policies.Outcome{{Failures: failing("spec.params.configMap", policies.ReasonParameters)}},
		},
		"a module exceeds its steps": {
			`enforcement: Audit, rego: {module: "package p\ndeny contains \"m\" if {\n count([x | x := numbers.range(1, 600)[_]; y := numbers.range(1, 600)[_]; x == y]) == 1\n}"}`,
			[]policies.Outcome{{Failures: failing("spec.rego.module", policies.ReasonLimit), Overrun: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := &outcomes{}
			set := policies.NewSet("", policies.Recorded(compile(t, "p", "{"+c.spec+"}"), recorder))
			set.Evaluate(vm(t, build.VMI("db")), noon)
			for i := range c.want {
				c.want[i].At, c.want[i].Namespace = noon, "default"
			}
			if diff := cmp.Diff(c.want, recorder.all); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

// Policies that are skipped because others used up the shared budget are not the ones that exceed it.
func TestOverrunsOfTheSharedBudget(t *testing.T) {
	cheaper := strings.NewReplacer("[1,2,3,4,5,6,7,8,9,10].all(f", "[1].all(f", "[1,2,3,4,5,6,7,8,9,10].all(e", "[1].all(e", "[1,2,3,4,5,6,7,8,9,10].all(d", "[1].all(d").Replace(costly)
	part := `{enforcement: Audit, validations: [{expression: "` + cheaper + `", message: m}]}`
	recorders := map[string]*outcomes{}
	var all []*policies.Policy
	for i := range 40 {
		name := fmt.Sprint("p", i)
		recorders[name] = &outcomes{}
		all = append(all, policies.Recorded(compile(t, name, part), recorders[name]))
	}
	policies.NewSet("", all...).Evaluate(vm(t, build.VMI("db")), noon)
	evaluated, skipped := 0, 0
	for name, r := range recorders {
		if len(r.all) != 1 || r.all[0].Overrun {
			t.Errorf("%s: outcomes %+v", name, r.all)
		}
		switch failures := r.all[0].Failures; {
		case len(failures) == 0:
			evaluated++
		case failures[0].Reason == policies.ReasonSkipped:
			skipped++
		default:
			t.Errorf("%s: failures %+v", name, failures)
		}
	}
	if evaluated < 2 || skipped < 2 {
		t.Errorf("%d evaluated, %d skipped: the policies do not share a budget", evaluated, skipped)
	}
}

// No outcome has a part of an object, or the text of an error.
func TestOutcomesHaveNoTexts(t *testing.T) {
	recorder := &outcomes{}
	policies.NewSet("", policies.Recorded(compile(t, "p", `{enforcement: Audit, validations: [{expression: "int(vm.metadata.name) == 1", message: m}]}`), recorder)).
		Evaluate(vm(t, build.VMI("secret-of-tenant")), noon)
	text, err := json.Marshal(recorder.all)
	if err != nil || len(recorder.all) != 1 || len(recorder.all[0].Failures) != 1 || strings.Contains(string(text), "secret") {
		t.Errorf("%s, %v", text, err)
	}
	if !slices.Contains(policies.FailureReasons(), recorder.all[0].Failures[0].Reason) {
		t.Errorf("the reason is %q", recorder.all[0].Failures[0].Reason)
	}
}
