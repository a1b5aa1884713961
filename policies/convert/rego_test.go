package convert_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
)

// regoTemplate is a template of testdata/gatekeeper, with a constraint.
type regoTemplate struct {
	Name string   `json:"name"`
	Rego string   `json:"rego"`
	Libs []string `json:"libs,omitempty"`
	// Version of Rego.
	Version string `json:"version,omitempty"`
	// Operations are those of the template.
	Operations []string       `json:"operations,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
	// Reason is a part of the message, if the template is not converted.
	Reason string `json:"reason,omitempty"`
}

func regoTemplates(t testing.TB) []regoTemplate {
	t.Helper()
	data, err := os.ReadFile("testdata/gatekeeper/templates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []regoTemplate
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// objects are the template and the constraint as Gatekeeper stores them.
func (r *regoTemplate) objects(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	target := map[string]any{"target": "admission.k8s.gatekeeper.sh", "rego": r.Rego, "libs": r.Libs}
	if r.Version != "" {
		target = map[string]any{"target": "admission.k8s.gatekeeper.sh", "code": []any{map[string]any{"engine": "Rego", "source": map[string]any{"version": r.Version, "rego": r.Rego, "libs": r.Libs}}}}
	}
	if r.Operations != nil {
		target["operations"] = r.Operations
	}
	constraint := map[string]any{"match": map[string]any{"kinds": []any{map[string]any{"apiGroups": []any{"kubevirt.io"}, "kinds": []any{"VirtualMachine"}}}}}
	if r.Parameters != nil {
		constraint["parameters"] = r.Parameters
	}
	data, err := json.Marshal([]any{
		map[string]any{
			"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "metadata": map[string]any{"name": strings.ToLower(r.Name)},
			"spec": map[string]any{"crd": map[string]any{"spec": map[string]any{"names": map[string]any{"kind": r.Name}}}, "targets": []any{target}},
		},
		map[string]any{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": r.Name, "metadata": map[string]any{"name": "every-" + strings.ToLower(r.Name)}, "spec": constraint},
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []map[string]any
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&found); err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for _, object := range found {
		all = append(all, &unstructured.Unstructured{Object: object})
	}
	return all
}

// query evaluates the template as Gatekeeper's driver for Rego does: with OPA, and an input of review and parameters.
func (r *regoTemplate) query(t testing.TB) func(review map[string]any) []string {
	t.Helper()
	version := ast.RegoV0
	if r.Version == "v1" {
		version = ast.RegoV1
	}
	options := []func(*oparego.Rego){oparego.SetRegoVersion(version)}
	path := ""
	for i, text := range append([]string{r.Rego}, r.Libs...) {
		m, err := ast.ParseModuleWithOpts(fmt.Sprint(i), text, ast.ParserOptions{RegoVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		path = cmp.Or(path, m.Package.Path.String())
		options = append(options, oparego.ParsedModule(m))
	}
	prepared, err := oparego.New(append(options, oparego.Query(path+".violation"))...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func(review map[string]any) []string {
		input := map[string]any{"review": review, "parameters": map[string]any{}}
		if r.Parameters != nil {
			input["parameters"] = r.Parameters
		}
		results, err := prepared.Eval(t.Context(), oparego.EvalInput(input))
		if err != nil {
			t.Fatal(err)
		}
		var messages []string
		for _, result := range results {
			for _, v := range result.Expressions[0].Value.([]any) {
				messages = append(messages, v.(map[string]any)["msg"].(string))
			}
		}
		return distinct(messages)
	}
}

func distinct(messages []string) []string {
	slices.Sort(messages)
	return slices.Compact(messages)
}

// reviews are requests, with what a policy reads of them.
func reviews(t testing.TB, count int) ([]map[string]any, []*cel.Documents) {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // reproducible
	top := grammar()
	var all []map[string]any
	for i := range count {
		made := top.object(random).(map[string]any)
		made["apiVersion"], made["kind"] = "kubevirt.io/v1", "VirtualMachine"
		_, normal := machine(t, made)
		request := map[string]any{
			"operation": pick(random, []string{"CREATE", "UPDATE"}), "namespace": pick(random, []string{"team-a", "team-b"}), "object": normal,
			"userInfo": map[string]any{"username": pick(random, []string{"alice", "system:serviceaccount:team-a:bot"}), "groups": []any{"system:authenticated"}},
		}
		if i%6 == 0 {
			request["operation"], request["oldObject"] = "DELETE", normal
			delete(request, "object")
		}
		all = append(all, request)
	}
	return all, requestsOf(t, all)
}

// messagesOf are the messages of the violations of policies.
func messagesOf(set *policies.Set, d *cel.Documents) []string {
	var messages []string
	for _, f := range set.Evaluate(d, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)) {
		messages = append(messages, f.Error.Detail)
	}
	return distinct(messages)
}

// TestRego compares converted templates with their originals: each request has the same violations.
func TestRego(t *testing.T) {
	requests, documents := reviews(t, 240)
	answers, violated := 0, 0
	for _, template := range regoTemplates(t) {
		t.Run(template.Name, func(t *testing.T) {
			results := convert.Convert(environment(t), template.objects(t), effective.AlwaysSet())
			if template.Reason != "" {
				if len(results) != 1 || results[0].Policy != nil || results[0].Notes[0].Reason != convert.Rego || !strings.Contains(results[0].Notes[0].Message, template.Reason) {
					t.Fatalf("%s", printed(t, results))
				}
				return
			}
			if len(results) != 1 || results[0].Policy == nil {
				t.Fatalf("%s", printed(t, results))
			}
			golden(t, "testdata/gatekeeper/"+template.Name+".golden.yaml", printed(t, results))
			for _, n := range results[0].Notes {
				if n.Lost && !strings.HasPrefix(n.Reason, "lint/") {
					t.Fatalf("%s: %s", n.Field, n.Message)
				}
			}
			compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
			if compiled == nil {
				t.Fatalf("%v", problems)
			}
			set, original := policies.NewSet("virtward-system", compiled), template.query(t)
			differ, some, none := 0, 0, 0
			for i, request := range requests {
				operation := request["operation"].(string)
				matched := slices.Contains(template.Operations, operation) || template.Operations == nil && operation != "DELETE"
				var want []string
				if matched {
					review := maps.Clone(request)
					if operation == "DELETE" { // as Gatekeeper's target does
						review["object"] = review["oldObject"]
					}
					want = original(review)
				}
				if got := messagesOf(set, documents[i]); !slices.Equal(got, want) && differ < 3 {
					differ++
					t.Errorf("%s\nGatekeeper: %q\nhere: %q", request["object"], want, got)
				}
				if answers++; len(want) > 0 {
					some++
				} else {
					none++
				}
			}
			if violated += some; some == 0 || none == 0 {
				t.Errorf("%d requests violate the template, %d do not", some, none)
			}
		})
	}
	t.Logf("%d answers are equal, %d of them violations", answers, violated)
}

// FuzzRego: no code panics, what is converted completely compiles, and its tests have bounds.
func FuzzRego(f *testing.F) {
	for _, template := range regoTemplates(f) {
		f.Add(template.Rego, strings.Join(template.Libs, "\n"), template.Version == "v1")
	}
	f.Add("package a\nviolation[{\"msg\": x}] { x = input.review } else = 1 { any([1]) }", "package lib.a\nimport input.review.object as o\nx[o] = y { y := o[_] }", false)
	f.Add("package a\nviolation[{\"msg\": x}] { p := input.review.object; c := all[_]; x := c[y]; p.metadata.labels[y] } all[c] { c := input.review.object.spec.containers[_] }", "", false)
	f.Fuzz(func(t *testing.T, text, library string, v1 bool) {
		template := &regoTemplate{Name: "Fuzz", Rego: text, Operations: []string{"DELETE", "CREATE"}}
		if library != "" {
			template.Libs = []string{library}
		}
		if v1 {
			template.Version = "v1"
		}
		if len(text)+len(library) > 1<<14 || !utf8.ValidString(text+library) {
			return
		}
		objects := template.objects(t)
		bounded(t, objects)
		bounded(t, aboutPods(t, objects, map[string]any{"kubevirt.io": "virt-launcher"}))
	})
}
