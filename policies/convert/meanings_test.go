package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/convert"
)

// parsedObjects reads objects in YAML.
func parsedObjects(t testing.TB, all ...string) []*unstructured.Unstructured {
	t.Helper()
	var made []*unstructured.Unstructured
	for _, text := range all {
		made = append(made, parsed(t, text))
	}
	return made
}

// TestMeanings converts parts of originals that look alike in both engines, and differ.
func TestMeanings(t *testing.T) {
	const (
		rule      = "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: x}, spec: {validationFailureAction: Enforce, %s rules: [{name: r, match: {any: [{resources: {kinds: [VirtualMachine], operations: [CREATE, UPDATE]%s}}]}, %s}]}}"
		cel       = "validate: {cel: {expressions: [{expression: \"object.spec.runStrategy != 'Always'\"}]}}"
		deny      = "validate: {deny: {conditions: {all: [{key: '{{ request.object.spec.runStrategy }}', operator: Equals, value: Always}]}}}"
		validates = "{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: x}, spec: {%s matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [virtualmachines]}]}, validations: [{expression: \"%s\"}]}}"
		exempt    = "{apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: e}, spec: {policyRefs: [{name: x, kind: ValidatingPolicy}], matchConditions: [{name: a, expression: 'CONDITION'}]}}"
		excepted  = "{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e}, spec: {exceptions: [{policyName: x, ruleNames: [r]}], match: %s}}"
		instances = "{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: x}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [VirtualMachineInstance], operations: [CREATE]}}]}, exclude: {any: [{subjects: [{kind: Group, name: %q}]}]}, validate: {pattern: {spec: {hostname: a}}}}]}}"
	)
	for _, c := range []struct {
		name    string
		objects []string
		// has and lacks are parts of the result in YAML; empty for none.
		has, lacks string
	}{
		{"labels of an update", []string{fmt.Sprintf(rule, "", ", selector: {matchLabels: {tier: gold}}", deny)}, `"tier" in object.metadata.?labels.orValue({})`, "objectSelector"},
		{"labels of a creation", []string{strings.Replace(fmt.Sprintf(rule, "", ", selector: {matchLabels: {tier: gold}}", deny), "CREATE, UPDATE", "CREATE", 1)}, "objectSelector", "matchConditions"},
		{"a selector that is not valid", []string{fmt.Sprintf(rule, "", ", selector: {matchExpressions: [{key: tier, operator: In, values: ['g*']}]}", deny)}, "selector of match has no equivalent: its labels have an operator or a value", ""},
		{"failurePolicy of a rule in CEL", []string{fmt.Sprintf(rule, "failurePolicy: Ignore,", "", cel)}, "failurePolicy: Fail", "NOT CONVERTED"},
		{"failurePolicy of a rule in CEL with conditions", []string{fmt.Sprintf(rule, "failurePolicy: Ignore, webhookConfiguration: {matchConditions: [{name: a, expression: 'true'}]},", "", cel)}, "NOT CONVERTED: with an error in its matchConditions", "failurePolicy: Ignore"},
		{"failurePolicy of a rule for the API server", []string{fmt.Sprintf(rule, "failurePolicy: Ignore,", "", strings.Replace(cel, "cel: {", "cel: {generate: true, ", 1))}, "failurePolicy: Ignore", "does not apply to errors"},
		{"failurePolicy of a rule with conditions", []string{fmt.Sprintf(rule, "failurePolicy: Ignore,", "", deny)}, "failurePolicy: Ignore", "does not apply to errors"},
		{"failurePolicy of a ValidatingPolicy", []string{fmt.Sprintf(validates, "failurePolicy: Ignore,", "object.spec.runStrategy != 'Always'")}, "failurePolicy: Fail", "NOT CONVERTED"},
		{"failurePolicy of a ValidatingPolicy for the API server", []string{fmt.Sprintf(validates, "failurePolicy: Ignore, autogen: {validatingAdmissionPolicy: {enabled: true}},", "true")}, "failurePolicy: Ignore", "does not apply to errors"},
		{"null in a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "oldObject == null || object.spec == oldObject.spec")}, "NOT CONVERTED: it compares object or oldObject with null", ""},
		{"null and brackets in a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "(oldObject) == (null) || object.spec == oldObject.spec")}, "NOT CONVERTED: it compares object or oldObject with null", ""},
		{"null and dyn in a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "null != dyn(dyn(oldObject)) || object.spec.runStrategy != 'Always'")}, "NOT CONVERTED: it compares object or oldObject with null", ""},
		{"null and a variable in a ValidatingPolicy", []string{fmt.Sprintf(validates, "variables: [{name: old, expression: oldObject}],", "variables.old == null || object.spec == oldObject.spec")}, "NOT CONVERTED: it compares object or oldObject with null", ""},
		{"null of a field in a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "dyn(object.spec).runStrategy == null || [1].all(x, dyn(x) != null)")}, "", "with null"},
		{"null in a text of a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "object.metadata.name != 'object == null'")}, "", "with null"},
		{"no null in a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "request.operation == 'CREATE' || object.spec == oldObject.spec")}, "Kyverno has an empty one, and a policy null", "NOT CONVERTED"},
		{"no oldObject in a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "object.spec.runStrategy != 'Always'")}, "", "Kyverno has an empty one"},
		{"null in an exception of a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "object.spec.runStrategy != 'Always'"), strings.Replace(exempt, "CONDITION", "oldObject == null", 1)}, "NOT CONVERTED: it compares object or oldObject with null", ""},
		{"oldObject in an exception of a ValidatingPolicy", []string{fmt.Sprintf(validates, "", "object.spec.runStrategy != 'Always'"), strings.Replace(exempt, "CONDITION", "has(oldObject.spec)", 1)}, "Kyverno has an empty one, and a policy null", "NOT CONVERTED"},
		{"null in a rule in CEL", []string{fmt.Sprintf(rule, "", "", strings.Replace(cel, "object.spec", "oldObject == null || object.spec", 1))}, "", "NOT CONVERTED"},
		{"a variable with the beginning of another's name", []string{strings.Replace(fmt.Sprintf(rule, "", "", "validate: {cel: {variables: [{name: a, expression: object.spec}, {name: ab, expression: namespaceObject.metadata.name}], expressions: [{expression: \"variables.ab != 'x'\"}]}}"), ", operations: [CREATE, UPDATE]", "", 1)}, "- DELETE", "NOT CONVERTED"},
		{"celPreconditions of a rule with conditions", []string{fmt.Sprintf(rule, "", "", "celPreconditions: [{name: never, expression: 'false'}], "+deny)}, "celPreconditions are left out", "name: never"},
		{"celPreconditions of a rule in CEL", []string{fmt.Sprintf(rule, "", "", "celPreconditions: [{name: never, expression: 'false'}], "+cel)}, "name: never", "celPreconditions"},
		{"an override for no namespace", []string{fmt.Sprintf(rule, "validationFailureActionOverrides: [{action: Audit, namespaces: []}],", "", deny)}, "an override with an empty list of namespaces has no effect", "enforcement: Audit"},
		{"an override for all namespaces", []string{fmt.Sprintf(rule, "validationFailureActionOverrides: [{action: Audit}],", "", deny)}, "enforcement: Audit", ""},
		{"an exception for an operation", []string{fmt.Sprintf(rule, "", "", deny), fmt.Sprintf(excepted, "{any: [{resources: {kinds: [VirtualMachine], names: [a], operations: [CREATE]}}]}")}, `expression: '!(object.metadata.?name`, "request.operation in"},
		{"an exception without a match", []string{fmt.Sprintf(rule, "", "", deny), fmt.Sprintf(excepted, "{}")}, "the exception e has a match that is empty, and no effect", "not-e"},
		{"an exception with an empty match", []string{fmt.Sprintf(rule, "", "", deny), fmt.Sprintf(excepted, "{all: [{}, {resources: {names: [a]}}]}")}, "the exception e has a match that is empty, and no effect", "not-e"},
		{"an exclusion of KubeVirt's accounts", []string{fmt.Sprintf(instances, "system:serviceaccounts")}, "instances that KubeVirt creates are evaluated", ""},
		{"a default of other kinds", []string{"{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: x}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [VirtualMachine, Deployment]}}]}, mutate: {patchStrategicMerge: {spec: {template: {spec: {+(dnsPolicy): None}}}}}}]}}"}, "NOT CONVERTED: it also matches Deployment", ""},
		{"a default of Gatekeeper of other kinds", []string{"{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: x}, spec: {applyTo: [{groups: ['*'], kinds: [VirtualMachine, Deployment], versions: [v1]}], location: spec.template.spec.dnsPolicy, parameters: {assign: {value: None}, pathTests: [{subPath: spec.template.spec.dnsPolicy, condition: MustNotExist}]}}}"}, "NOT CONVERTED: it also matches Deployment", ""},
		{"an exclusion of users", []string{fmt.Sprintf(instances, "admins")}, "excludedGroups", "instances that KubeVirt creates"},
	} {
		results := convert.Convert(environment(t), parsedObjects(t, c.objects...), effective.AlwaysSet())
		text := inOneLine(t, results)
		if !strings.Contains(text, c.has) || c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s:\n%s", c.name, printed(t, results))
		}
	}
}

// TestFallible replaces or names the functions of modules whose errors Gatekeeper ignores.
func TestFallible(t *testing.T) {
	const note = ": a value that a function cannot read is an error"
	for body, want := range map[string]string{
		`to_number(input.review.object.metadata.labels.n) > 4`:                              "to_number_if_valid(input.object",
		`x := input.parameters.a / input.parameters.b; x > 1`:                               "div_if_valid(input.params.a, input.params.b)",
		`json.unmarshal(input.review.object.metadata.annotations.a).b`:                      "json.unmarshal" + note,
		`substring(input.review.object.metadata.name, 1, 2) == "a"`:                         "substring_if_valid(input.object",
		`input.review.object.spec.template.spec.domain.cpu.cores / 2 > 1`:                   "div_if_valid(input.object",
		`input.review.object.metadata.name == substring("abc", 1, 2)`:                       "",
		`count(input.review.object.metadata.name) > 7 / 2; 1 == 7 % 2`:                      "",
		`count(input.review.object.metadata.name) > 7.5 % 2`:                                "rem_if_valid(7.5, 2)",
		`regex.match("^a", input.review.object.metadata.name)`:                              "",
		`re_match(input.parameters.a, input.review.object.metadata.name)`:                   "re_match" + note,
		`count(input.review.object.metadata.name) + 1 - count(input.parameters.a) > 5`:      "",
		`a := {x | x := input.parameters.a[_]}; count(a - {"b"}) > 0`:                       "",
		`object.get(input.review.object.metadata, "labels", {}).a == "b"`:                   "",
		`x := input.parameters.a; x + 1 > 2`:                                                "plus" + note,
		`count([1 | x := 1; x + 1 > 0]) > 0; x = input.parameters.a; x + 1 > 2`:             "plus" + note,
		`x := 1; count([1 | some x; x = input.parameters.a[_]; x + 1 > 2]) > x`:             "plus" + note,
		`x := 1; x + 1 > 0; count([1 | x := input.parameters.a; startswith(x, "a")]) > 0`:   "",
		`x := 1; count([1 | input.parameters.a > 0; x + 1 > 0]) > 0`:                        "",
		`count([x | x := input.parameters.a + 1]) > 0`:                                      "plus" + note,
		`[1 | x := input.parameters.a; y := x; y + 1 > 0] == [2 | x := 1; x + 1 > 0]`:       "plus" + note,
		`startswith(input.review.object.metadata.name, "a")`:                                "",
		`array.slice(input.parameters.a, 0, input.parameters.b)[0] == "a"`:                  "array.slice" + note,
		`bits.lsh(1, input.parameters.a) > 2`:                                               "bits.lsh" + note,
		`bits.lsh(1, 2) > 2`:                                                                "",
		`time.weekday([input.parameters.a, "UTC"]) == "Monday"`:                             "time.weekday" + note,
		`uri.parse(input.parameters.a).host == "a"`:                                         "uri.parse" + note,
		`json.patch(input.parameters.a, input.parameters.b).a == 1`:                         "json.patch" + note,
		`substring(input.review.object.metadata.name, input.parameters.a, 2) == "a"`:        "substring_if_valid(input.object",
		`input.review.object.spec.template.spec.domain.cpu.cores % input.parameters.a == 1`: "rem_if_valid(input.object",
	} {
		r := regoTemplate{Name: "X", Rego: "package x\nviolation[{\"msg\": \"x\"}] { " + body + " }\n"}
		results := convert.Convert(environment(t), r.objects(t), effective.AlwaysSet())
		text := inOneLine(t, results)
		if strings.Contains(text, note) != strings.HasSuffix(want, note) || want == "" && strings.Contains(text, "_if_valid") || !strings.Contains(text, want) {
			t.Errorf("%s:\n%s", body, printed(t, results))
		}
	}
}

// TestParameterDefaults adds the defaults of a template's schema as the API server does.
func TestParameterDefaults(t *testing.T) {
	for _, c := range []struct{ name, schema, parameters, want string }{
		{"a default", "{type: object, properties: {a: {type: string, default: b}}}", "{}", `a: b`},
		{"a default of absent parameters", "{type: object, properties: {a: {type: string, default: b}}}", "", ""},
		{"a default of the parameters", "{type: object, default: {}, properties: {a: {type: string, default: b}}}", "", "a: b"},
		{"null, which is not permitted", "{type: object, properties: {a: {type: string, default: b}, c: {type: string}}}", "{a: null, c: null}", "a: b"},
		{"null, which is permitted", "{type: object, properties: {a: {type: string, nullable: true, default: b}}}", "{a: null}", "a: null"},
		{"a default in an element", "{type: object, properties: {a: {type: array, items: {type: object, properties: {b: {type: integer, default: 1}}}}}}", "{a: [{}]}", "b: 1"},
	} {
		objects := (&regoTemplate{Name: "X", Rego: "package x\nviolation[{\"msg\": \"x\"}] { input.parameters.a == input.review.object.metadata.name }"}).objects(t)
		set := func(at int, text string, path ...string) {
			if text == "" {
				return
			}
			var value map[string]any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if err := unstructured.SetNestedField(objects[at].Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
		set(0, c.schema, "spec", "crd", "spec", "validation", "openAPIV3Schema")
		set(1, c.parameters, "spec", "parameters")
		results := convert.Convert(environment(t), objects, effective.AlwaysSet())
		text := printed(t, results)
		_, values, _ := strings.Cut(text, "values:")
		values, _, _ = strings.Cut(values, "rego:")
		if !strings.Contains(values, c.want) || c.want == "" && strings.Contains(values, "a:") || strings.Contains(values, "c:") {
			t.Errorf("%s:\n%s", c.name, text)
		}
	}
}
