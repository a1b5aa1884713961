package proof_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/policy/proof"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/test/soak"
)

// The classes of policies: converted completely, explained, and not about virtual machines.
const (
	classConverted = "converted"
	classExplained = "explained"
	classOther     = "other"
)

// library is testdata/library.yaml.
type library struct {
	Patterns   []libraryPolicy `json:"patterns"`
	Conditions []libraryPolicy `json:"conditions"`
	Loops      []libraryPolicy `json:"loops"`
	Settings   []libraryPolicy `json:"settings"`
	Pods       []libraryPolicy `json:"pods"`
	Rego       []libraryPolicy `json:"rego"`
	Others     []libraryPolicy `json:"others"`
}

// libraryPolicy is a policy in a short form.
type libraryPolicy struct {
	Name  string `json:"name"`
	Class string `json:"class,omitempty"`
	// At and Is are the field and the value of a pattern.
	At string `json:"at,omitempty"`
	Is any    `json:"is,omitempty"`
	// All and Any are conditions of deny, Before those of preconditions, and Outer those of a rule with a loop.
	All, Any, Before, Outer [][]any
	Context                 []any
	Operations              []string `json:"operations,omitempty"`
	List                    string   `json:"list,omitempty"`
	ElementScope            *bool    `json:"elementScope,omitempty"`
	Pattern                 any      `json:"pattern,omitempty"`
	AnyPattern              any      `json:"anyPattern,omitempty"`
	Rego                    string   `json:"rego,omitempty"`
	Version                 string   `json:"version,omitempty"`
	Libs                    []string `json:"libs,omitempty"`
	Parameters              any      `json:"parameters,omitempty"`
	// CEL are the expressions of a rule in CEL, or of a template with Native, and Variables its variables, which are sorted.
	Native    bool              `json:"native,omitempty"`
	CEL       []string          `json:"cel,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	// Kinds and Rule are a rule as it is. Selects are the labels of its match.
	Kinds   []string          `json:"kinds,omitempty"`
	Selects map[string]string `json:"selects,omitempty"`
	Rule    map[string]any    `json:"rule,omitempty"`
	// Spec is the rest of the spec of a ClusterPolicy, and Exceptions are the matches of its exceptions.
	Spec       map[string]any   `json:"spec,omitempty"`
	Exceptions []map[string]any `json:"exceptions,omitempty"`
	// Match is the rest of the match of a constraint.
	Match map[string]any `json:"match,omitempty"`
}

// isTemplate reports whether a policy is one of Gatekeeper.
func (p *libraryPolicy) isTemplate() bool { return p.Rego != "" || p.Native }

// long replaces the short forms of paths.
func long(text string) string {
	return strings.NewReplacer("$d", "request.object.spec.template.spec.domain", "$t", "request.object.spec.template.spec", "$.", "request.object.").Replace(text)
}

// longIn replaces the short forms in a value.
func longIn(t testing.TB, value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var made any
	if err := json.Unmarshal([]byte(long(string(data))), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// conditionsOf writes conditions.
func conditionsOf(short [][]any) []any {
	var all []any
	for _, c := range short {
		all = append(all, map[string]any{"key": "{{ " + long(c[0].(string)) + " }}", "operator": c[1], "value": c[2]})
	}
	return all
}

// anyAll writes conditions for any and for all.
func (p *libraryPolicy) anyAll() map[string]any {
	made := map[string]any{}
	if p.Any != nil {
		made["any"] = conditionsOf(p.Any)
	}
	if p.All != nil {
		made["all"] = conditionsOf(p.All)
	}
	return made
}

// patternAt writes a pattern of one field.
func patternAt(path string, value any) any {
	if value == "null" {
		value = nil
	}
	path = strings.TrimPrefix(long(path+"."), "request.object.")
	var steps []string
	for rest := strings.TrimSuffix(path, "."); rest != ""; {
		if label, ok := strings.CutPrefix(rest, "metadata.labels."); ok {
			steps = append(steps, "metadata", "labels", label)
			break
		}
		step, after, _ := strings.Cut(rest, ".")
		steps, rest = append(steps, step), after
	}
	for _, step := range slices.Backward(steps) {
		if step == "[]" {
			value = []any{value}
		} else {
			value = map[string]any{step: value}
		}
	}
	return value
}

// rule writes the rule of a policy.
func (p *libraryPolicy) rule(t testing.TB) map[string]any {
	rule := map[string]any{"name": p.Name}
	resources := map[string]any{"kinds": []any{"VirtualMachine"}}
	if p.Operations != nil {
		resources["operations"] = p.Operations
	}
	if p.Kinds != nil {
		resources["kinds"] = p.Kinds
	}
	if p.Selects != nil {
		resources["selector"] = map[string]any{"matchLabels": p.Selects}
	}
	rule["match"] = map[string]any{"any": []any{map[string]any{"resources": resources}}}
	if p.Context != nil {
		rule["context"] = longIn(t, p.Context)
	}
	deny := map[string]any{"conditions": p.anyAll()}
	maps.Copy(rule, p.Rule)
	switch {
	case p.CEL != nil:
		rule["validate"] = map[string]any{"message": "not permitted", "cel": p.expressions()}
	case p.Rule != nil:
	case p.At != "":
		rule["validate"] = map[string]any{"message": "not permitted", "pattern": patternAt(p.At, p.Is)}
	case p.List != "":
		loop := map[string]any{"list": long(p.List)}
		if p.Before != nil {
			loop["preconditions"] = map[string]any{"all": conditionsOf(p.Before)}
		}
		if p.Outer != nil {
			rule["preconditions"] = map[string]any{"all": conditionsOf(p.Outer)}
		}
		if p.ElementScope != nil {
			loop["elementScope"] = *p.ElementScope
		}
		switch {
		case p.Pattern != nil:
			loop["pattern"] = nulls(p.Pattern)
		case p.AnyPattern != nil:
			loop["anyPattern"] = p.AnyPattern
		default:
			loop["deny"] = deny
		}
		rule["validate"] = map[string]any{"message": "not permitted", "foreach": []any{loop}}
	default:
		if p.Before != nil {
			rule["preconditions"] = map[string]any{"all": conditionsOf(p.Before)}
		}
		rule["validate"] = map[string]any{"message": "not permitted", "deny": deny}
	}
	return rule
}

// expressions writes the part of a rule in CEL.
func (p *libraryPolicy) expressions() map[string]any {
	var variables, expressions []any
	for _, name := range slices.Sorted(maps.Keys(p.Variables)) {
		variables = append(variables, map[string]any{"name": name, "expression": p.Variables[name]})
	}
	for _, expression := range p.CEL {
		expressions = append(expressions, map[string]any{"expression": expression})
	}
	return map[string]any{"variables": variables, "expressions": expressions}
}

// nulls replaces the text null.
func nulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = nulls(v[key])
		}
	case string:
		if v == "null" {
			return nil
		}
	}
	return value
}

// objects are the policy as its engine stores it: the policy last.
func (p *libraryPolicy) objects(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	var all []any
	if !p.isTemplate() {
		for i, match := range p.Exceptions {
			all = append(all, map[string]any{
				"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": map[string]any{"name": fmt.Sprintf("%s-%d", p.Name, i), "namespace": "kyverno"},
				"spec": map[string]any{"exceptions": []any{map[string]any{"policyName": p.Name, "ruleNames": []any{p.Name}}}, "match": match},
			})
		}
		spec := map[string]any{"validationFailureAction": "Enforce", "rules": []any{p.rule(t)}}
		maps.Copy(spec, p.Spec)
		all = append(all, map[string]any{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": p.Name}, "spec": spec})
	} else {
		target := map[string]any{"target": "admission.k8s.gatekeeper.sh", "rego": p.Rego}
		if p.Libs != nil {
			target["libs"] = p.Libs
		}
		if p.Version != "" {
			target = map[string]any{"target": "admission.k8s.gatekeeper.sh", "code": []any{map[string]any{"engine": "Rego", "source": map[string]any{"version": p.Version, "rego": p.Rego}}}}
		}
		if p.Native {
			source := p.expressions()
			source["validations"] = source["expressions"]
			delete(source, "expressions")
			target = map[string]any{"target": "admission.k8s.gatekeeper.sh", "code": []any{map[string]any{"engine": "K8sNativeValidation", "source": source}}}
		}
		if p.Operations != nil {
			target["operations"] = p.Operations
		}
		match := map[string]any{"kinds": []any{map[string]any{"apiGroups": []any{"kubevirt.io"}, "kinds": []any{"VirtualMachine"}}}}
		if p.Selects != nil {
			match = map[string]any{"kinds": []any{map[string]any{"apiGroups": []any{""}, "kinds": []any{"Pod"}}}, "labelSelector": map[string]any{"matchLabels": p.Selects}}
		}
		maps.Copy(match, p.Match)
		spec := map[string]any{"match": match}
		if p.Parameters != nil {
			spec["parameters"] = p.Parameters
		}
		all = []any{
			map[string]any{
				"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "metadata": map[string]any{"name": strings.ToLower(p.Name)},
				"spec": map[string]any{"crd": map[string]any{"spec": map[string]any{"names": map[string]any{"kind": p.Name}, "validation": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}, "targets": []any{target}},
			},
			map[string]any{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": p.Name, "metadata": map[string]any{"name": strings.ToLower(p.Name)}, "spec": spec},
		}
	}
	var made []*unstructured.Unstructured
	for _, object := range all {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		one := &unstructured.Unstructured{}
		if err := one.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		made = append(made, one)
	}
	return made
}

// libraryPolicies returns all policies.
func libraryPolicies(t testing.TB) []libraryPolicy {
	t.Helper()
	data, err := os.ReadFile("testdata/library.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all library
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(all.Patterns, all.Conditions, all.Loops, all.Settings, all.Pods, all.Rego, all.Others)
}

// classOf returns the class of what a policy became.
func classOf(results []convert.Result) string {
	if slices.ContainsFunc(results, func(r convert.Result) bool {
		return r.Converted() && !slices.ContainsFunc(r.Notes, func(n convert.Note) bool { return n.Lost && !strings.HasPrefix(n.Reason, "lint/") })
	}) {
		return classConverted
	}
	for i := range results {
		for _, n := range results[i].Notes {
			if n.Reason == convert.NoVirtualMachine {
				return classOther
			}
		}
	}
	return classExplained
}

// recordings are the files to which TestLibrary writes the questions to the original engines.
var recordings = flag.String("recordings", "", "write the questions of the library to DIRECTORY/kyverno.json and DIRECTORY/gatekeeper.json")

// libraryQuestions are the questions to an engine, or its answers. See the package answers of its module in test/compare.
type libraryQuestions struct {
	Version  string            `json:"version,omitempty"`
	Policies []libraryQuestion `json:"policies"`
}

type libraryQuestion struct {
	Source     string `json:"source"`
	Template   any    `json:"template,omitempty"`
	Policy     any    `json:"policy,omitempty"`
	Exceptions []any  `json:"exceptions,omitempty"`
	Requests   []any  `json:"requests,omitempty"`
	Answers    string `json:"answers,omitempty"`
	// Digest is that of the policy and the requests: the recorded answers do not have them.
	Digest string `json:"digest,omitempty"`
}

// digest returns the digest of a question.
func (q *libraryQuestion) digest(t testing.TB) string {
	t.Helper()
	about := []any{q.Template, q.Policy, q.Requests}
	if len(q.Exceptions) > 0 {
		about = append(about, q.Exceptions)
	}
	data, err := json.Marshal(about)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// letterOf is the answer of an engine that has the result.
func letterOf(c *proof.Case) byte { return c.Result[0] }

// same reports whether an answer of an engine is the result of a policy. Kyverno has no result for a rule that does not match, and an
// error about an element of a loop is a violation here.
func same(answer byte, c *proof.Case, loops bool) bool {
	switch {
	case answer == '-':
		return c.Violations == 0
	case answer == 's' && c.Violations > 0: // both tolerate a violation that an object had before an update
		return strings.HasPrefix(c.Name, "an update of what fails") && c.Operation == "UPDATE"
	case loops:
		return (answer == 'f' || answer == 'e') == (c.Violations > 0)
	}
	return answer == letterOf(c)
}

// TestLibrary converts policies, and compares the results of all derived requests with the answers of the original engines.
func TestLibrary(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]*libraryQuestions{proof.Kyverno: {}, proof.Gator: {}}
	known := map[string]map[string]libraryQuestion{proof.Kyverno: recordedAnswers(t, "testdata/library-kyverno.json"), proof.Gator: recordedAnswers(t, "testdata/library-gatekeeper.json")}
	classes, cases, violated := map[string]int{}, 0, 0
	all := libraryPolicies(t)
	for i := range all {
		p := &all[i]
		objects := p.objects(t)
		results := convert.Convert(env, objects, effective.AlwaysSet())
		class := classOf(results)
		classes[class]++
		if want := cmp.Or(p.Class, classConverted); class != want {
			t.Errorf("%s: %s, want %s: %v", p.Name, class, want, results[len(results)-1].Notes)
			continue
		}
		if class != classConverted {
			continue
		}
		engine := proof.Kyverno
		question := libraryQuestion{Source: p.Name, Policy: objects[len(objects)-1].Object}
		if p.isTemplate() {
			engine, question.Template = proof.Gator, objects[0].Object
		} else {
			for _, exception := range objects[:len(objects)-1] {
				question.Exceptions = append(question.Exceptions, exception.Object)
			}
		}
		r := &results[len(results)-1]
		found, err := proof.Cases(t.Context(), env, r)
		if err != nil {
			t.Fatal(p.Name, err)
		}
		if len(found) == 0 {
			continue
		}
		for i := range found {
			question.Requests = append(question.Requests, proof.Review(&found[i])["request"])
		}
		asked[engine].Policies = append(asked[engine].Policies, question)
		answers, digest := known[engine][p.Name], question.digest(t)
		if *recordings != "" {
			continue
		}
		if answers.Digest != digest || len(answers.Answers) != len(found) {
			t.Errorf("%s: other requests: record the answers again", p.Name)
			continue
		}
		fails, passes := 0, 0
		for k := range found {
			cases++
			if found[k].Violations > 0 {
				fails++
			} else {
				passes++
			}
			if !same(answers.Answers[k], &found[k], p.List != "" || p.CEL != nil) {
				t.Errorf("%s: %s: %c in the original, %s here", p.Name, found[k].Name, answers.Answers[k], found[k].Result)
			}
		}
		if violated += fails; fails == 0 || passes == 0 {
			t.Errorf("%s: %d requests fail, %d pass", p.Name, fails, passes)
		}
	}
	t.Logf("%d policies: %v; %d derived requests, %d of them violations", len(all), classes, cases, violated)
	if *recordings != "" {
		for engine, name := range map[string]string{proof.Kyverno: "kyverno", proof.Gator: "gatekeeper"} {
			data, err := json.Marshal(asked[engine])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(*recordings+"/"+name+".json", data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if len(all) < 150 || cases < 3000 {
		t.Errorf("%d policies, %d derived requests", len(all), cases)
	}
}

// recordedAnswers returns the answers of an engine, by the names of the policies.
func recordedAnswers(t testing.TB, file string) map[string]libraryQuestion {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && *recordings == "" {
		t.Fatal(err)
	}
	var read libraryQuestions
	if err == nil {
		if err := json.NewDecoder(bytes.NewReader(data)).Decode(&read); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]libraryQuestion{}
	for _, q := range read.Policies {
		all[q.Source] = q
	}
	return all
}

// TestLibraryRecordings shortens the answers of the engines: without the policies and the requests, but with their digest.
func TestLibraryRecordings(t *testing.T) {
	if *answersDirectory == "" {
		t.Skip("no -answers")
	}
	for _, name := range []string{"kyverno", "gatekeeper"} {
		data, err := os.ReadFile(*answersDirectory + "/" + name + "-answers.json")
		if err != nil {
			t.Fatal(err)
		}
		var read libraryQuestions
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		for i := range read.Policies {
			q := &read.Policies[i]
			q.Digest = q.digest(t)
			q.Template, q.Policy, q.Exceptions, q.Requests = nil, nil, nil, nil
		}
		short, err := json.MarshalIndent(read, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("testdata/library-%s.json", name), append(short, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var answersDirectory = flag.String("answers", "", "read the answers of the original engines from DIRECTORY/kyverno-answers.json and DIRECTORY/gatekeeper-answers.json")

// TestLibraryMutants changes each converted policy: the numbers of violations that its suite expects show nearly all changes.
func TestLibraryMutants(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	caught, total := 0, 0
	all := libraryPolicies(t)
	for i := range all {
		results := convert.Convert(env, all[i].objects(t), effective.AlwaysSet())
		r := &results[len(results)-1]
		if r.Written == nil || r.Policy == nil || all[i].Class != "" || !inCI(i) {
			continue
		}
		want, err := proof.Cases(t.Context(), env, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, mutant := range mutants(r) {
			if compiled, _ := policies.Compile(env, mutant.Policy, nil); compiled.Broken() != "" {
				continue
			}
			got, err := proof.Results(t.Context(), env, &mutant, want)
			if err != nil {
				t.Fatal(err)
			}
			if total++; slices.EqualFunc(want, got, func(a, b proof.Case) bool { return a.Violations == b.Violations }) {
				t.Logf("%s: not caught: %s", r.Source, difference(r, &mutant))
			} else {
				caught++
			}
		}
	}
	t.Logf("%d of %d mutants caught", caught, total)
	if total < 50 || caught*100 < total*95 {
		t.Errorf("%d of %d mutants caught", caught, total)
	}
}

// inCI reports whether a policy is tested in CI, too.
func inCI(i int) bool { return i%4 == 0 || soak.On() }
