package proof_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/policy/proof"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
)

// converted returns the originals of a file, and what they become.
func converted(t *testing.T, env *cel.Environment, file string) ([]*unstructured.Unstructured, []convert.Result) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found, err := manifests.Read(file, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, d := range found {
		all = append(all, d.Object)
	}
	return all, convert.Convert(env, all, effective.AlwaysSet())
}

// questions is the file to which TestAnswers writes the cases, for answers by Kyverno's own engine.
var questions = flag.String("questions", "", "write the questions to Kyverno's engine to this file")

// recorded are answers of Kyverno's engine; see README.md in policies/convert/testdata/kyverno.
type recorded struct {
	Version string         `json:"version,omitempty"`
	Rules   []recordedRule `json:"rules"`
}

type recordedRule struct {
	Source   string           `json:"source"`
	Validate any              `json:"validate"`
	Objects  []map[string]any `json:"objects"`
	Answers  string           `json:"answers,omitempty"`
}

// TestAnswers compares the results of the cases, also of skipped rules, with the answers of Kyverno's engine.
func TestAnswers(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	var asked recorded
	var got []string
	for _, file := range []string{"../../../examples/converted/vm-baseline/original.yaml", "../../../policies/convert/testdata/cases/patterns.yaml"} {
		originals, results := converted(t, env, file)
		for i := range results {
			cases, err := proof.Cases(t.Context(), env, &results[i])
			if err != nil {
				t.Fatal(err)
			}
			if len(cases) == 0 {
				continue
			}
			rule := recordedRule{Source: results[i].Source}
			rules, _, _ := unstructured.NestedSlice(originals[results[i].Index].Object, "spec", "rules")
			for _, r := range rules {
				if fields, _ := r.(map[string]any); fields["name"] == results[i].Written.Rule {
					rule.Validate = fields["validate"]
				}
			}
			letters := ""
			for _, c := range cases {
				rule.Objects = append(rule.Objects, c.Object)
				letters += string(c.Result[:1])
			}
			asked.Rules, got = append(asked.Rules, rule), append(got, letters)
		}
	}
	if *questions != "" {
		data, err := json.Marshal(asked)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*questions, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile("testdata/kyverno.json")
	if err != nil {
		t.Fatal(err)
	}
	var known recorded
	if err := json.Unmarshal(data, &known); err != nil {
		t.Fatal(err)
	}
	if len(known.Rules) != len(asked.Rules) {
		t.Fatalf("%d rules, answers for %d: record them again", len(asked.Rules), len(known.Rules))
	}
	cases := 0
	for i, rule := range known.Rules {
		// The answers are about the same objects.
		want, err := json.Marshal(rule.Objects)
		if err != nil {
			t.Fatal(err)
		}
		have, err := json.Marshal(asked.Rules[i].Objects)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(have) {
			t.Errorf("%s: other objects: record the answers again", rule.Source)
		}
		if cases += len(got[i]); got[i] != rule.Answers {
			t.Errorf("%s: %s, Kyverno %s: %s", rule.Source, known.Version, rule.Answers, got[i])
		}
	}
	if cases < 300 {
		t.Errorf("%d cases", cases)
	}
}

// mutants returns policies that differ from a policy in one operator, or lack a validation.
func mutants(r *convert.Result) []convert.Result {
	var all []convert.Result
	if r.Policy.Spec.Rego != nil {
		module := r.Policy.Spec.Rego.Module
		helpers := len(module)
		if at := strings.Index(module, "_if_valid(x"); at >= 0 {
			helpers = at
		}
		for from, to := range map[string]string{" <= ": " < ", " >= ": " > ", " < ": " <= ", " > ": " >= ", " == ": " != ", " != ": " == ", "startswith": "endswith", "not ": "", "count(": "1 + count("} {
			for at := 0; ; {
				n := strings.Index(module[at:], from)
				if n < 0 {
					break
				}
				at += n
				if at > helpers { // they are the same in each module, and have policies of their own
					break
				}
				if strings.Count(module[:at], `"`)%2 == 1 { // a part of a message
					at += len(from)
					continue
				}
				one := *r
				one.Policy = r.Policy.DeepCopy()
				one.Policy.Spec.Rego.Module = module[:at] + to + module[at+len(from):]
				all, at = append(all, one), at+len(from)
			}
		}
		return all
	}
	for i, v := range r.Policy.Spec.Validations {
		if len(r.Policy.Spec.Validations) > 1 {
			one := *r
			one.Policy = r.Policy.DeepCopy()
			one.Policy.Spec.Validations = slices.Delete(one.Policy.Spec.Validations, i, i+1)
			all = append(all, one)
		}
		for from, to := range map[string]string{" && ": " || ", " || ": " && ", " <= ": " < ", " >= ": " > ", " < ": " <= ", " > ": " >= ", " == ": " != ", " != ": " == ", "startsWith": "endsWith", ".all(": ".exists(", ".exists(": ".all(", "!has(": "has("} {
			for at := 0; ; {
				n := strings.Index(v.Expression[at:], from)
				if n < 0 {
					break
				}
				at += n
				one := *r
				one.Policy = r.Policy.DeepCopy()
				one.Policy.Spec.Validations[i].Expression = v.Expression[:at] + to + v.Expression[at+len(from):]
				all, at = append(all, one), at+len(from)
			}
		}
	}
	return all
}

// TestMutants changes converted policies: the cases find nearly all changes. Each policy has cases that pass and cases that fail.
func TestMutants(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	caught, total, cases := 0, 0, 0
	for _, file := range []string{"../../../examples/converted/vm-baseline/original.yaml", "../../../policies/convert/testdata/cases/patterns.yaml"} {
		_, results := converted(t, env, file)
		for i := range results {
			r := &results[i]
			want, err := proof.Cases(t.Context(), env, r)
			if err != nil {
				t.Fatal(err)
			}
			if r.Policy == nil {
				continue
			}
			counts := map[proof.Result]int{}
			for _, c := range want {
				counts[c.Result]++
			}
			if cases += len(want); counts[proof.Pass] == 0 || counts[proof.Fail] == 0 {
				t.Errorf("%s: %v", r.Source, counts)
			}
			for _, mutant := range mutants(r) {
				if compiled, _ := policies.Compile(env, mutant.Policy, nil); compiled.Broken() != "" {
					continue
				}
				got, err := proof.Cases(t.Context(), env, &mutant)
				if err != nil {
					t.Fatal(err)
				}
				total++
				if slices.EqualFunc(want, got, func(a, b proof.Case) bool { return (a.Violations > 0) == (b.Violations > 0) }) {
					t.Logf("%s: not caught: %s", r.Source, difference(r, &mutant))
				} else {
					caught++
				}
			}
		}
	}
	t.Logf("%d cases, %d of %d mutants caught", cases, caught, total)
	if total < 50 || caught*100 < total*95 {
		t.Errorf("%d of %d mutants caught", caught, total)
	}
}

// difference returns the expression that a mutant has in another form.
func difference(r, mutant *convert.Result) string {
	if mutant.Policy.Spec.Rego != nil {
		return mutant.Policy.Spec.Rego.Module
	}
	for i, v := range r.Policy.Spec.Validations {
		if i >= len(mutant.Policy.Spec.Validations) || mutant.Policy.Spec.Validations[i].Expression != v.Expression {
			if len(mutant.Policy.Spec.Validations) == len(r.Policy.Spec.Validations) {
				return mutant.Policy.Spec.Validations[i].Expression
			}
			return "without " + v.Expression
		}
	}
	return ""
}

// TestWrite writes the files of a rule, and runs a program that accepts or rejects them.
func TestWrite(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	originals, results := converted(t, env, "../../../examples/converted/vm-baseline/original.yaml")
	directory := filepath.Join(t.TempDir(), "rule")
	w, err := proof.Write(t.Context(), env, directory, originals[0], &results[1])
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Cases) < 20 || w.Left > len(w.Cases)/3 {
		t.Errorf("%d cases, %d left out", len(w.Cases), w.Left)
	}
	text := map[string]string{}
	for _, name := range []string{"original.yaml", "policy.yaml", "suite.yaml", "resources.yaml", "kyverno-test.yaml"} {
		data, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		text[name] = string(data)
	}
	for _, part := range []string{"apiVersion: cli.kyverno.io/v1alpha1", "policy: vm-baseline", "rule: template", "- case-1/sample", "result: pass", "result: fail"} {
		if !strings.Contains(text["kyverno-test.yaml"], part) {
			t.Errorf("kyverno-test.yaml has no %q", part)
		}
	}
	if n := strings.Count(text["resources.yaml"], "\nkind: VirtualMachine"); n != len(w.Cases) {
		t.Errorf("%d resources of %d cases", n, len(w.Cases))
	}
	for _, c := range []struct{ script, want string }{{"test -f $2/kyverno-test.yaml", ""}, {"echo Want pass, got fail; exit 1", "Want pass, got fail"}} {
		program := filepath.Join(t.TempDir(), "kyverno")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		switch err := w.Run(t.Context(), program); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v", c.script, err)
		}
	}
}

// TestWritePods writes the files of a rule about pods: the engine gets the pods, and the suite the virtual machines.
func TestWritePods(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(t.TempDir(), "original.yaml")
	if err := os.WriteFile(original, []byte(`apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: zones}
spec:
  validationFailureAction: Enforce
  rules:
  - name: zone
    match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {kubevirt.io: virt-launcher}}}}]}
    validate: {message: a zone is required, pattern: {spec: {nodeSelector: {zone: "a | b"}, schedulerName: default-scheduler}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	originals, results := converted(t, env, original)
	directory := filepath.Join(t.TempDir(), "rule")
	w, err := proof.Write(t.Context(), env, directory, originals[0], &results[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Cases) < 8 || w.Left > 0 {
		t.Errorf("%d cases, %d left out", len(w.Cases), w.Left)
	}
	for name, parts := range map[string][]string{
		"suite.yaml":        {"kind: VirtualMachine", "verdict: denied", "verdict: allowed", "zone: b"},
		"resources.yaml":    {"kind: Pod", "schedulerName: default-scheduler", "kubevirt.io: virt-launcher", "zone: b", "kubevirt.io/schedulable: \"true\""},
		"kyverno-test.yaml": {"kind: Pod", "- case-1/virt-launcher-sample-x1x1x", "result: pass", "result: fail"},
	} {
		data, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(data), part) {
				t.Errorf("%s has no %q", name, part)
			}
		}
		if name == "resources.yaml" && strings.Contains(string(data), "kind: VirtualMachine\n") {
			t.Errorf("resources.yaml has virtual machines")
		}
	}
}

// ending is a context that ends after a number of calls of Err.
type ending struct {
	context.Context

	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestEnds holds that a context ends the derivation wherever it is, and that a suite that was not run is not left.
func TestEnds(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"../../../examples/converted/vm-baseline/original.yaml", "../../../policies/convert/testdata/cases/deny.yaml"} {
		originals, results := converted(t, env, file)
		i := slices.IndexFunc(results, func(r convert.Result) bool { return r.Written != nil && r.Policy != nil })
		if i < 0 {
			t.Fatalf("%s: no rule with tests", file)
		}
		ended, complete := 0, false
		for n := 0; !complete; n = 2*n + 1 {
			directory := filepath.Join(t.TempDir(), "rule")
			_, err := proof.Write(&ending{t.Context(), n}, env, directory, originals[results[i].Index], &results[i])
			if complete = err == nil; complete {
				continue
			}
			if ended++; !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: after %d: %v", file, n, err)
			}
			if _, err := os.Stat(filepath.Join(directory, "suite.yaml")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: after %d: a suite that was not run: %v", file, n, err)
			}
		}
		if ended < 5 {
			t.Errorf("%s: ended %d times", file, ended)
		}
	}
}

// TestLarge holds that a rule whose tests would be large has an error instead.
func TestLarge(t *testing.T) {
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	module := "package large\nviolation[{\"msg\": \"it has this text\"}] { input.review.object.metadata.annotations.text == input.parameters.text }"
	for i := range 15 {
		module += fmt.Sprintf("\nviolation[{\"msg\": \"no label l%[1]d\"}] { input.review.object.metadata.labels.l%[1]d == \"no\" }", i)
	}
	template := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "metadata": map[string]any{"name": "large"},
		"spec": map[string]any{"crd": map[string]any{"spec": map[string]any{"names": map[string]any{"kind": "Large"}}}, "targets": []any{map[string]any{
			"target": "admission.k8s.gatekeeper.sh", "rego": module,
		}}},
	}}
	constraint := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "Large", "metadata": map[string]any{"name": "large"},
		"spec": map[string]any{
			"match":      map[string]any{"kinds": []any{map[string]any{"apiGroups": []any{"kubevirt.io"}, "kinds": []any{"VirtualMachine"}}}},
			"parameters": map[string]any{"text": strings.Repeat("x", 60_000)},
		},
	}}
	results := convert.Convert(env, []*unstructured.Unstructured{template, constraint}, effective.AlwaysSet())
	if results[0].Policy == nil {
		t.Fatalf("%v", results[0].Notes)
	}
	if cases, err := proof.Cases(t.Context(), env, &results[0]); !errors.Is(err, convert.ErrTooLarge) || cases != nil {
		t.Errorf("%d cases, %v", len(cases), err)
	}
}
