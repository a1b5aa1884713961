package convert_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/validators"
)

// denials are answers of Kyverno's engine about generated conditions and requests.
type denials struct {
	// Version is that of Kyverno.
	Version  string           `json:"version,omitempty"`
	Requests []map[string]any `json:"requests"`
	Rules    []denial         `json:"rules"`
}

// denial has the conditions of a rule.
type denial struct {
	Preconditions any `json:"preconditions,omitempty"`
	Conditions    any `json:"conditions"`
	// Answers has a letter for each request: p for pass, f for fail, s for skip, e for an error.
	Answers string `json:"answers,omitempty"`
}

// questionOf is what conditions are generated of: keys, the operators that fit, and values.
type questionOf struct {
	keys      []string
	operators []string
	values    []any
}

// conditionGrammar returns keys of conditions with values at the edges of those of the objects.
func conditionGrammar() []questionOf {
	a := func(values ...any) []any { return values }
	equals := []string{"Equals", "NotEquals", "Equal", "NotEqual"}
	lists := []string{"AnyIn", "AllIn", "AnyNotIn", "AllNotIn"}
	in := []string{"AnyIn", "AllIn", "AnyNotIn", "AllNotIn", "In", "NotIn"}
	orders := []string{"GreaterThan", "GreaterThanOrEquals", "LessThan", "LessThanOrEquals"}
	spans := []string{"DurationGreaterThan", "DurationGreaterThanOrEquals", "DurationLessThan", "DurationLessThanOrEquals"}
	const object, template, domain = "request.object.", "request.object.spec.template.spec.", "request.object.spec.template.spec.domain."
	texts := []string{
		object + "metadata.name", object + "spec.runStrategy", object + "spec.runStrategy || ''", object + "spec.runStrategy || 'Always'", object + "metadata.labels.app", object + "metadata.labels.app || ''",
		object + "metadata.labels.\"team/a\" || 'ann'", object + "metadata.labels.cores || ''", object + "metadata.labels.cores", object + "metadata.annotations.note || 'none'", template + "evictionStrategy", template + "nodeSelector.zone || ''",
		object + "spec.instancetype.name || ''", domain + "cpu.model || 'host-model'", "request.operation", "request.namespace", "request.userInfo.username", "serviceAccountName", "serviceAccountNamespace", object + "spec.running || ''",
	}
	numbers := []string{
		domain + "cpu.cores", domain + "cpu.sockets || `1`", domain + "cpu.cores || `2`", template + "terminationGracePeriodSeconds || `0`", template + "terminationGracePeriodSeconds", "length(" + template + "volumes)",
		"length(" + template + "volumes || `[]`)", "length(" + template + "volumes[].containerDisk || `[]`)", "length(" + domain + "devices.disks[?serial])", domain + "cpu.cores || ''", "length(" + domain + "devices.hostDevices[])",
	}
	amounts := []string{domain + "memory.guest", domain + "memory.guest || '1Gi'", domain + "resources.limits.memory", domain + "resources.limits.cpu || '1'", domain + "resources.requests.memory || ''"}
	bools := []string{object + "spec.running", object + "spec.running || `false`", object + "spec.running || `true`", domain + "devices.autoattachGraphicsDevice || `false`", domain + "cpu.dedicatedCpuPlacement || `false`", domain + "cpu.dedicatedCpuPlacement"}
	several := []string{
		template + "volumes[].name", template + "volumes[*].name", template + "volumes[].containerDisk.image", template + "volumes[].containerDisk.image || `[]`", domain + "devices.disks[].cdrom.bus || `[]`",
		template + "dnsConfig.nameservers", template + "dnsConfig.nameservers || `[]`", template + "dnsConfig.nameservers[]", "request.userInfo.groups", domain + "devices.hostDevices[].deviceName", template + "tolerations[].key || `[]`",
	}
	words := a("web", "Always", "vm1", "w*", "*", "?*", "", "4", "1Gi", "u1.*", "CREATE", "team-a", "bot", "ann", "host-model", "None", "1h", "*2", "none", "Skylake")
	return []questionOf{
		{texts, equals, words},
		{texts, in, a(a("web", "Always", "CREATE"), a("vm1", "team-*", "ann"), a("Manual"), a(), a("bot", "", "2"), a("UPDATE", "DELETE"), a("host-model", "u1.small"), a("*"), a(2, "db"), "web", "w*", "1-4")},
		{numbers, equals, a(1, 2, 4, "2", "x", 1.5, 0)},
		{numbers, orders, a(1, 2, 4, "2", "4s", "x", 3.0, 0, "1.5")},
		{numbers, spans, a("2s", "1s", 4, "1m", "2000ms", "1500ms")},
		{numbers, in, a(a(1, 2), a("4", 8), a("2*", 1), a("x"))},
		{amounts, equals, a("1Gi", "2Gi", "2048Mi", "4Gi", "500M", "1", "500m", "*", 2, "x")},
		{amounts, orders, a("1Gi", "2Gi", "2048Mi", "4Gi", "500M", "1", "500m", 2, "x", "1h")},
		{bools, equals, a(true, false, "true", 1)},
		{bools, lists, a(a(true), a("true", "false"), a("f*"))},
		{several, in, a(a("root"), a("root", "data"), a("quay.io/*"), a("quay.io/a", "docker.io/b"), a("sata"), a(), a("1.1.1.1"), a("system:authenticated"), a("k1", "k*"), "root", "nvidia.com/*", a("*"))},
	}
}

// someConditions returns random conditions in one of their forms.
func someConditions(random *rand.Rand, most int) any {
	grammar := conditionGrammar()
	list := func() []any {
		var all []any
		for range 1 + random.IntN(most) {
			q := pick(random, grammar)
			all = append(all, map[string]any{"key": "{{ " + pick(random, q.keys) + " }}", "operator": pick(random, q.operators), "value": pick(random, q.values)})
		}
		return all
	}
	switch random.IntN(5) {
	case 0:
		return list()
	case 1:
		return map[string]any{"any": list(), "all": list()}
	case 2:
		return map[string]any{"any": list()}
	}
	return map[string]any{"all": list()}
}

// TestDenialQuestions writes the questions. Their answers come from a program with Kyverno's engine, see testdata/kyverno/README.md.
func TestDenialQuestions(t *testing.T) {
	if *questions == "" {
		t.Skip("no -questions")
	}
	const objects, rules = 60, 1500
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // reproducible
	all := denials{}
	users := []string{"alice", "bob", "system:serviceaccount:team-a:bot", "system:serviceaccount:kube-system:deployer"}
	top := grammar()
	for i := range objects {
		made := top.object(random).(map[string]any)
		made["apiVersion"], made["kind"] = "kubevirt.io/v1", "VirtualMachine"
		_, normal := machine(t, made)
		request := map[string]any{"operation": pick(random, []string{"CREATE", "UPDATE"}), "namespace": pick(random, []string{"team-a", "team-b"}), "object": normal}
		if i%6 == 0 {
			request["operation"], request["oldObject"] = "DELETE", normal
			delete(request, "object")
		}
		request["userInfo"] = map[string]any{"username": pick(random, users), "groups": pick(random, []any{[]any{"system:authenticated"}, []any{"root", "system:authenticated"}})}
		all.Requests = append(all.Requests, request)
	}
	for i := range rules {
		one := denial{Conditions: someConditions(random, 1+i%3)}
		if i%3 == 0 {
			one.Preconditions = someConditions(random, 1+i%2)
		}
		all.Rules = append(all.Rules, one)
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*questions, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// denyPolicy returns a ClusterPolicy with one rule that denies on conditions.
func denyPolicy(t testing.TB, rule *denial, failurePolicy string, operations ...any) *unstructured.Unstructured {
	t.Helper()
	object := clusterPolicy(t, map[string]any{"deny": map[string]any{"conditions": rule.Conditions}})
	spec := object.Object["spec"].(map[string]any)
	spec["failurePolicy"] = failurePolicy
	if len(operations) > 0 {
		match := map[string]any{"kinds": []any{"VirtualMachine"}, "operations": operations}
		spec["rules"].([]any)[0].(map[string]any)["match"] = map[string]any{"resources": match}
	}
	if rule.Preconditions != nil {
		spec["rules"].([]any)[0].(map[string]any)["preconditions"] = rule.Preconditions
	}
	return object
}

// requestsOf returns what policies read of requests.
func requestsOf(t testing.TB, all []map[string]any) []*cel.Documents {
	t.Helper()
	var found []*cel.Documents
	for _, request := range all {
		d := &cel.Documents{Kind: "VirtualMachine", Facts: platform.Defaults(platform.Settings{}), Requester: "alice"}
		for _, field := range []string{"object", "oldObject"} {
			object, ok := request[field].(map[string]any)
			if !ok {
				continue
			}
			vm, _ := machine(t, object)
			if d.Request.Name = vm.Name; field == "object" {
				d.Object = vm
			} else {
				d.OldObject = vm
			}
		}
		user := request["userInfo"].(map[string]any)
		d.Request.Operation, d.Request.Namespace = request["operation"].(string), request["namespace"].(string)
		d.Request.UserInfo.Username = user["username"].(string)
		for _, group := range user["groups"].([]any) {
			d.Request.UserInfo.Groups = append(d.Request.UserInfo.Groups, group.(string))
		}
		found = append(found, d)
	}
	return found
}

// recordedDenials returns the recorded answers, and what policies read of their requests.
func recordedDenials(t testing.TB) (*denials, []*cel.Documents) {
	t.Helper()
	data, err := os.ReadFile("testdata/kyverno/deny.json")
	if err != nil {
		t.Fatal(err)
	}
	all := &denials{}
	if err := json.Unmarshal(data, all); err != nil {
		t.Fatal(err)
	}
	return all, requestsOf(t, all.Requests)
}

// wants reports whether Kyverno denies a request.
func (d *denial) wants(request int, failurePolicy string) bool {
	return d.Answers[request] == 'f' || d.Answers[request] == 'e' && failurePolicy == "Fail"
}

// denied reports whether a policy denies a request.
func denied(set *policies.Set, d *cel.Documents) bool {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return slices.ContainsFunc(set.Evaluate(d, noon), func(f validators.Finding) bool { return f.Severity == validators.Deny })
}

// changes are the mistakes that the converter could make, each as another original.
func changes() map[string]func(condition map[string]any, rule *denial) bool {
	all := map[string]func(map[string]any, *denial) bool{
		"no preconditions": func(_ map[string]any, rule *denial) bool {
			changed := rule.Preconditions != nil
			rule.Preconditions = nil
			return changed
		},
		"any for all": func(_ map[string]any, rule *denial) bool {
			fields, ok := rule.Conditions.(map[string]any)
			if ok {
				rule.Conditions = map[string]any{"any": fields["all"], "all": fields["any"]}
			}
			return ok && (fields["any"] == nil) != (fields["all"] == nil)
		},
		"no default": func(condition map[string]any, _ *denial) bool {
			before := condition["key"].(string)
			condition["key"] = regexp.MustCompile(` \|\| ['`+"`"+`].*['`+"`"+`]`).ReplaceAllString(before, "")
			return condition["key"] != before
		},
		"another number": func(condition map[string]any, _ *denial) bool {
			n, ok := condition["value"].(float64)
			condition["value"] = n + 1
			return ok
		},
		"[*] for the list": func(condition map[string]any, _ *denial) bool {
			before := condition["key"].(string)
			condition["key"] = strings.Replace(before, "nameservers }}", "nameservers[*] }}", 1)
			return condition["key"] != before
		},
	}
	same := map[string]string{"Equal": "Equals", "NotEqual": "NotEquals", "In": "AllIn", "NotIn": "AnyNotIn"}
	for _, q := range conditionGrammar() {
		for _, from := range q.operators {
			for _, to := range q.operators {
				if cmp.Or(same[from], from) == cmp.Or(same[to], to) {
					continue
				}
				all[from+" as "+to] = func(condition map[string]any, _ *denial) bool {
					changed := condition["operator"] == from
					condition["operator"] = to
					return changed
				}
			}
		}
	}
	return all
}

// first returns the first condition of a rule with one, and a copy of the rule that has it.
func (d *denial) first(t testing.TB) (map[string]any, *denial) {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	copied := &denial{}
	if err := json.Unmarshal(data, copied); err != nil {
		t.Fatal(err)
	}
	list, _ := copied.Conditions.([]any)
	if fields, ok := copied.Conditions.(map[string]any); ok {
		list, _ = fields["all"].([]any)
		if more, ok := fields["any"].([]any); ok {
			list = more
		}
	}
	return list[0].(map[string]any), copied
}

// TestDenialMutants converts rules with a mistake: the recorded answers show each of them.
func TestDenialMutants(t *testing.T) {
	all, subjects := recordedDenials(t)
	mistakes := changes()
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		caught, tried := false, 0
		for i := 0; i < len(all.Rules) && !caught; i++ {
			condition, mutant := all.Rules[i].first(t)
			if !mistakes[name](condition, mutant) {
				continue
			}
			results := convert.Convert(environment(t), []*unstructured.Unstructured{denyPolicy(t, mutant, "Fail")}, effective.AlwaysSet())
			if results[0].Policy == nil {
				continue
			}
			compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
			if compiled.Broken() != "" {
				t.Fatal(problems)
			}
			tried++
			set := policies.NewSet("virtward-system", compiled)
			for k, d := range subjects {
				caught = caught || denied(set, d) != all.Rules[i].wants(k, "Fail")
			}
		}
		if !caught {
			t.Errorf("%s: not caught in %d rules", name, tried)
		}
	}
	t.Logf("%d mistakes", len(mistakes))
}

// TestKyvernoDenials converts the recorded rules, and compares the verdicts with the answers of Kyverno's engine.
func TestKyvernoDenials(t *testing.T) {
	all, subjects := recordedDenials(t)
	shortest, about, incomplete := "", "", ""
	converted, explained, pairs, different := 0, 0, 0, 0
	full := soak.On()
	if !full {
		all.Rules = all.Rules[:len(all.Rules)/8]
	}
	for i := range all.Rules {
		rule := &all.Rules[i]
		failurePolicy := []string{"Fail", "Ignore"}[i%2]
		operations := [][]any{nil, {"CREATE", "UPDATE"}, {"DELETE"}}[i%3]
		results := convert.Convert(environment(t), []*unstructured.Unstructured{denyPolicy(t, rule, failurePolicy, operations...)}, effective.AlwaysSet())
		if results[0].Policy == nil {
			explained++
			if *questions != "" {
				t.Log(results[0].Notes[0].Message)
			}
			continue
		}
		if slices.ContainsFunc(results[0].Notes, func(n convert.Note) bool { return n.Lost && !strings.HasPrefix(n.Reason, "lint/") }) {
			if text := fmt.Sprintf("%s %v", texts(results[0]), results[0].Notes); incomplete == "" || len(text) < len(incomplete) {
				incomplete = text
			}
		}
		converted++
		compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
		if compiled.Broken() != "" {
			t.Fatalf("rule %d: %v: %s", i, problems, texts(results[0]))
		}
		set := policies.NewSet("virtward-system", compiled)
		for k, d := range subjects {
			pairs++
			matches := operations == nil || slices.Contains(operations, any(d.Request.Operation))
			if denied(set, d) == (matches && rule.wants(k, failurePolicy)) {
				continue
			}
			different++
			question, _ := json.Marshal(denial{Preconditions: rule.Preconditions, Conditions: rule.Conditions})
			if shortest == "" || len(question) < len(shortest) {
				object, _ := json.Marshal(all.Requests[k])
				shortest = string(question)
				about = fmt.Sprintf("rule %d, request %d: denied %v, Kyverno %c, %s\n%s\n%s", i, k, denied(set, d), rule.Answers[k], failurePolicy, texts(results[0]), object)
			}
		}
	}
	t.Logf("Kyverno %s: %d rules, %d converted, %d explained, %d pairs, %d different", all.Version, len(all.Rules), converted, explained, pairs, different)
	if incomplete != "" {
		t.Error(incomplete)
	}
	if full && pairs < 40000 || pairs == 0 || different > 0 {
		t.Errorf("%d pairs, %d different: %s: %s", pairs, different, shortest, about)
	}
}

// TestViolationsWithoutErrors: an object that lacks what a rule requires violates the policy, and no validation is an error.
func TestViolationsWithoutErrors(t *testing.T) {
	_, object := machine(t, map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "a", "namespace": "team-a"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{}}}},
	})
	requests := requestsOf(t, []map[string]any{{"operation": "CREATE", "namespace": "team-a", "object": object, "userInfo": map[string]any{"username": "alice", "groups": []any{}}}})
	condition := func(key, operator, value string) string {
		return fmt.Sprintf("{key: \"{{ request.object.%s }}\", operator: %s, value: %s}", key, operator, value)
	}
	for name, rule := range map[string]string{
		"a list":              "validate: {pattern: {spec: {template: {spec: {volumes: [{name: 'a*'}]}}}}}",
		"objects and a list":  "validate: {pattern: {spec: {template: {spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}}}}}}",
		"an amount":           "validate: {pattern: {spec: {template: {spec: {domain: {memory: {guest: '1Gi!-2Gi & >0'}}}}}}}",
		"a default":           "validate: {deny: {conditions: {any: [" + condition("metadata.labels.tier || 'none'", "AnyNotIn", "[gold, silver]") + "]}}}",
		"several defaults":    "validate: {deny: {conditions: {any: [" + condition("metadata.labels.tier || 'none'", "NotEquals", "gold") + ", " + condition("spec.template.spec.domain.cpu.model || 'a'", "Equals", "a") + "]}}}",
		"a precondition":      "preconditions: {all: [" + condition("metadata.labels.tier", "Equals", "gold") + "]}, validate: {pattern: {metadata: {labels: {owner: a}}}}",
		"no amount in a text": "validate: {deny: {conditions: {any: [" + condition("metadata.labels.size || 'x'", "NotEquals", "1Gi") + "]}}}",
	} {
		results := convert.Convert(environment(t), []*unstructured.Unstructured{launcherRules(t, "{name: r, match: {any: [{resources: {kinds: [VirtualMachine], operations: [CREATE]}}]}, "+rule+"}")}, effective.AlwaysSet())
		if results[0].Policy == nil {
			t.Errorf("%s: %v", name, results[0].Notes)
			continue
		}
		compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
		if compiled.Broken() != "" {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		found := policies.NewSet("virtward-system", compiled).Evaluate(requests[0], time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
		if len(found) == 0 || slices.ContainsFunc(found, func(f validators.Finding) bool { return f.EvaluationError != "" }) {
			t.Errorf("%s: %v\n%s", name, found, texts(results[0]))
		}
	}
}

// FuzzDenials converts conditions with any key, operator and value: no text panics, and each policy compiles.
func FuzzDenials(f *testing.F) {
	for _, q := range conditionGrammar() {
		value, _ := json.Marshal(q.values[0])
		f.Add("{{ "+q.keys[0]+" }}", q.operators[0], string(value))
	}
	for _, key := range []string{"", "{{", "{{}}", "{{ length(length(x)) }}", "{{ request.object }}", "{{ request.object.spec[] }}", "{{ request.object.spec.template.spec.volumes[][] }}", "{{ request.object.metadata.labels.\"\\\" }}"} {
		f.Add(key, "Equals", `"x"`)
	}
	for _, key := range []string{"starts_with(request.object.metadata.name, 'x')", "regex_match('^[a-z]$', request.object.metadata.labels.app || '')", "pattern_match(`\"x?*\"`, request.userInfo.username)", "to_lower(request.object.spec.runStrategy)", "length(request.object.metadata.name)"} {
		f.Add("{{ "+key+" }}", "NotEquals", `true`)
		f.Add("{{ "+key+" }}", "AnyIn", `["x", "Y"]`)
		f.Add("{{ "+key+" }}", "GreaterThan", `3`)
	}
	f.Fuzz(func(t *testing.T, key, operator, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil || !utf8.ValidString(key) || !utf8.ValidString(operator) {
			return
		}
		rule := &denial{Conditions: []any{map[string]any{"key": key, "operator": operator, "value": value}}}
		rule.Preconditions = rule.Conditions
		bounded(t, []*unstructured.Unstructured{denyPolicy(t, rule, "Fail")})
	})
}
