package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/cputime"
	"github.com/virtward/virtward/validators"
)

// The specs of worst policies. Each costs as much as it may, or as much CPU as possible for what it is charged.
var (
	formats       = `{validations: [{message: m, expression: "lists.range(20000).all(i, '%s %d %f'.format([i, i, 1.5]) != '')"}, {message: m, expression: "lists.range(20001).all(i, '%s %d %f'.format([i, i, 1.5]) != '')"}]}`
	sorts         = `{validations: [{message: m, expression: "lists.range(9000).map(i, (i * 7919) % 9001).sort().size() > 0 && lists.range(300).all(i, lists.range(300).map(j, (j * 7919) % 307).sort().size() > 0)"}]}`
	images        = `{validations: [{message: m, expression: "lists.range(9000).all(i, !virtward.isImage('quay.io/' + vm.metadata.annotations['path'] + string(i)))"}]}`
	links         = `{validations: [{message: m, expression: "lists.range(9000).all(i, !isURL(vm.metadata.annotations['short'] + string(i)) || true)"}]}`
	loops         = `{validations: [{message: m, expression: "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))"}, {message: m, expression: "lists.range(900).all(a, lists.range(901).all(b, a + b >= 0))"}]}`
	textsOfCEL    = `{validations: [{message: m, expression: "lists.range(900).all(a, !vm.metadata.annotations['text'].contains('aaaaaaab'))"}, {message: m, expression: "lists.range(900).all(a, !vm.metadata.annotations['short'].matches('(a|b|c|d)*x'))"}]}`
	messages      = `{validations: [{expression: "vm == null", messageExpression: "lists.range(20000).map(i, '%f'.format([1.5])).join()"}, {expression: "vm == null", messageExpression: "lists.range(900).map(i, lists.range(900).all(b, i + b >= 0) ? 'a' : 'b').join()"}]}`
	variables     = `{variables: [{name: a, expression: "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))"}, {name: b, expression: "lists.range(20000).all(i, '%f'.format([1.5]) != '')"}, {name: c, expression: "lists.range(900).all(a, lists.range(900).all(b, a - b < 900))"}], validations: [{message: m, expression: "variables.a || true"}, {message: m, expression: "variables.b || true"}, {message: m, expression: "variables.c || true"}]}`
	conditions    = `{match: {matchConditions: [{name: a, expression: "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0)) || true"}, {name: b, expression: "lists.range(20000).all(i, '%f'.format([1.5]) != '') || true"}]}, validations: [{message: m, expression: "true"}]}`
	params        = `{params: {values: {pattern: "(a|b|c|d)*x", list: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}, validations: [{message: m, expression: "params.list.all(a, params.list.all(b, params.list.all(c, !vm.metadata.annotations['short'].matches(params.pattern + string(a * b * c)))))"}]}`
	big           = `{validations: [` + strings.Repeat(`{message: m, expression: "vm == null", fieldPath: vm.metadata}, {message: m, expression: "vm == null", fieldPath: vm.spec},`, 10) + `]}`
	failing       = `{validations: [` + strings.Repeat(`{message: m, expression: "int(vm.metadata.annotations['text']) == 1"},`, 10) + `]}`
	nothing       = `{validations: [{message: m, expression: "vm != null"}]}`
	selectors     = `{match: {namespaceSelector: {matchExpressions: [` + strings.Repeat(`{key: example.com/team, operator: NotIn, values: [a, b, c, d, e, f, g, h]},`, 32) + `]}}, validations: [{message: m, expression: "vm != null"}]}`
	steps         = regoOf("some a in r; some b in r; some c in r; some d in r; some e in r; a + b + c + d + e < 0")
	hashes        = regoOf("some a in r; some b in r; some c in r; some d in r; x := {a, b, c, d, input.vm.metadata.annotations.text}; count(x) < 0")
	comparisons   = regoOf("some a in r; some b in r; some c in r; some d in r; input.object.spec == input.vm.spec; d < 0")
	patterns      = regoOf(`some i in numbers.range(1, 5000); regex.match(\"(a|b|c|d)*x\", input.vm.metadata.annotations.short)`)
	documents     = regoOf(`some i in numbers.range(1, 5000); yaml.is_valid(sprintf(\"[%s%d]\", [input.vm.metadata.annotations.short, i])); i < 0`)
	searches      = regoOf("q := numbers.range(1, 5000); some a in r; some b in r; some c in r; some d in r; q[_] == -1")
	shifts        = regoOf("some a in r; some b in r; some c in r; some d in r; some e in r; bits.lsh(a + b + c + d + e, 1000) < 0")
	overridden    = regoOf("some a in r; some b in r; some c in r; some d in r; x := count(input.vm.spec) with input.vm.spec as [a, b, c, d]; x < 0")
	nothingInRego = regoOf("input.vm.spec.hostname == \\\"x\\\"")
)

func regoOf(body string) string {
	return `{rego: {module: "package a\nr := [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\ndeny contains \"a\" if { ` + body + ` }"}}`
}

// worstSet are policies, some of which cannot be evaluated.
type worstSet struct {
	specs []string
	count int
	// enforcement of all; empty for half of them Deny and half Audit.
	enforcement policyv1alpha1.PolicyEnforcement
	// large is the size of a text in the object, in bytes.
	large int
	// update evaluates the policies that deny a second time, on the object before.
	update, audit bool
	// want are the reasons why policies cannot be evaluated.
	want []string
}

func worstSets() map[string]worstSet {
	const deny, audit = policyv1alpha1.PolicyDeny, policyv1alpha1.PolicyAudit
	inCEL := []string{loops, textsOfCEL, formats, sorts, images, links, variables, params}
	inRego := []string{steps, hashes, comparisons, patterns, documents, searches, shifts, overridden}
	all := slices.Concat(inCEL, inRego, []string{messages, conditions, big, failing})
	limit, skipped := []string{policies.ReasonLimit}, []string{policies.ReasonSkipped}
	both := append(slices.Clone(limit), skipped...)
	return map[string]worstSet{
		"format":             {specs: []string{formats}, count: 2, enforcement: audit, want: skipped},
		"sort":               {specs: []string{sorts}, count: 2, enforcement: audit, want: skipped},
		"isImage":            {specs: []string{images}, count: 2, enforcement: audit, want: skipped},
		"isURL":              {specs: []string{links}, count: 2, enforcement: audit, want: skipped},
		"loops":              {specs: []string{loops}, count: 20, enforcement: deny, want: limit},
		"texts":              {specs: []string{textsOfCEL}, count: 20, enforcement: deny, want: limit},
		"messageExpressions": {specs: []string{messages}, count: 20, enforcement: deny},
		"variables":          {specs: []string{variables}, count: 20, enforcement: deny, want: limit},
		"matchConditions":    {specs: []string{conditions}, count: 20, enforcement: deny, want: limit},
		"params":             {specs: []string{params}, count: 20, enforcement: deny, want: limit},
		"steps":              {specs: []string{steps}, count: 20, enforcement: deny, want: limit},
		"searches":           {specs: []string{searches}, count: 2, enforcement: deny, want: limit},
		"CEL":                {specs: inCEL, count: 80, enforcement: deny, want: limit},
		"Rego":               {specs: inRego, count: 80, enforcement: deny, want: limit},
		"both":               {specs: all, count: 100, want: both},
		"both, large":        {specs: all, count: 100, large: 1 << 20, want: both},
		"both, update":       {specs: all, count: 100, large: 1 << 20, update: true, want: both},
		"both, audit":        {specs: all, count: 100, large: 1 << 20, audit: true, want: both},
		"values":             {specs: []string{big}, count: 50, large: 1 << 20, enforcement: deny, want: limit},
		"failing":            {specs: []string{failing}, count: 50, large: 1 << 20, enforcement: deny, want: limit},
		"many":               {specs: []string{nothing, nothingInRego}, count: 1000},
		"selectors":          {specs: []string{selectors}, count: 1000},
	}
}

// BenchmarkWorstPolicy measures the CPU time of one object, for sets of policies that cost as much as they may.
func BenchmarkWorstPolicy(b *testing.B) {
	env := environment(b)
	facts, now := platform.Defaults(platform.Settings{}), time.Now()
	for name, w := range worstSets() {
		b.Run(name, func(b *testing.B) {
			set := w.set(b, env)
			vmi := w.object(b)
			least := time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				begin := cputime.Of(b)
				findings := w.evaluate(set, vmi, facts, now)
				if took := cputime.Of(b) - begin; least == 0 || took < least {
					least = took
				}
				if got := reasons(findings); !containsAll(got, w.want) {
					b.Fatalf("policies cannot be evaluated because of %v, and should be because of %v", got, w.want)
				}
			}
			b.ReportMetric(least.Seconds(), "cpu-s/object")
		})
	}
}

func (w worstSet) set(b *testing.B, env *cel.Environment) *policies.Set {
	b.Helper()
	made := make([]*policies.Policy, 0, w.count)
	for i := range w.count {
		policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worst-%04d", i)}}
		if err := yaml.UnmarshalStrict([]byte(w.specs[i%len(w.specs)]), &policy.Spec); err != nil {
			b.Fatal(w.specs[i%len(w.specs)], err)
		}
		if policy.Spec.Enforcement = w.enforcement; w.enforcement == "" {
			policy.Spec.Enforcement = []policyv1alpha1.PolicyEnforcement{policyv1alpha1.PolicyDeny, policyv1alpha1.PolicyAudit}[i/len(w.specs)%2]
		}
		compiled, problems := policies.Compile(env, policy, nil)
		if diagnostics.Broken(problems) {
			b.Fatalf("%v: %v", policy.Spec, problems)
		}
		made = append(made, compiled)
	}
	return policies.NewSet("virtward-system", made...)
}

func (w worstSet) object(b *testing.B) *v1.VirtualMachineInstance {
	b.Helper()
	vmi := complete(b, build.Typical("db").Obj())
	vmi.Annotations = map[string]string{
		"text": strings.Repeat("a,", max(w.large, 200_000)/2), "short": strings.Repeat("a,", 1_000), "path": strings.Repeat("a/", 400),
	}
	return vmi
}

func (w worstSet) evaluate(set *policies.Set, vmi *v1.VirtualMachineInstance, facts *platform.Facts, now time.Time) []validators.Finding {
	d := evaluated(vmi, facts)
	if w.audit {
		d.Request.Operation, d.Requester = "", ""
		return set.Audit(d, now)
	}
	if w.update {
		d.Request.Operation, d.OldObject = "UPDATE", vmi
		before := *d
		before.Hurry = func() bool { return true } // only policies that deny matter
		set.Evaluate(&before, now)
	}
	return set.Evaluate(d, now)
}

// reasons are those of policies that cannot be evaluated.
func reasons(findings []validators.Finding) []string {
	var all []string
	for i := range findings {
		if reason := findings[i].EvaluationError; reason != "" {
			all = append(all, reason)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func containsAll(got, want []string) bool {
	return !slices.ContainsFunc(want, func(reason string) bool { return !slices.Contains(got, reason) })
}
