package convert_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies/convert"
)

// matching are matches of virtual machines and of Pods, for each family of policies.
const (
	vmRules   = "matchConstraints: {resourceRules: [{apiGroups: [kubevirt.io], apiVersions: [v1], operations: [CREATE], resources: [virtualmachines]}]}"
	podRules  = "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}"
	vmFilter  = "match: {any: [{resources: {kinds: [VirtualMachine]}}]}"
	podFilter = "match: {any: [{resources: {kinds: [Pod, VirtualMachine/status]}}]}"
	vmKinds   = "match: {kinds: [{apiGroups: [kubevirt.io], kinds: [VirtualMachine]}]}"
	podKinds  = "match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}"
	template  = "{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: x}, spec: {crd: {spec: {names: {kind: X}}}, targets: [%s]}}"
)

// rule returns a ClusterPolicy with one rule.
func rule(match, body string) string {
	return fmt.Sprintf("{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: x}, spec: {rules: [{name: r, %s, %s}]}}", match, body)
}

// object returns an object with a spec.
func object(version, kind, spec string) string {
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x}, spec: {%s}}", version, kind, spec)
}

// TestReasons has originals for each reason. A policy that matches no virtual machine has this reason before any other.
func TestReasons(t *testing.T) {
	const (
		kyverno    = "policies.kyverno.io/v1"
		constraint = "constraints.gatekeeper.sh/v1beta1"
		mutation   = "mutations.gatekeeper.sh/v1"
	)
	rego := fmt.Sprintf(template, "{target: t, rego: 'package x'}")
	cel := fmt.Sprintf(template, "{target: t, code: [{engine: K8sNativeValidation, source: {validations: [{expression: 'true'}]}}]}")
	given := map[string]bool{}
	for _, c := range []struct{ reason, text string }{
		{convert.NotAPolicy, "{apiVersion: v1, kind: Secret, metadata: {name: x}}"},
		{convert.NotAPolicy, object("kyverno.io/v2", "GlobalContextEntry", "")},
		{convert.NotAPolicy, object("config.gatekeeper.sh/v1alpha1", "Config", "")},
		{convert.Settings, object("config.gatekeeper.sh/v1alpha1", "Config", "match: [{excludedNamespaces: [a], processes: ['*']}]")},
		{convert.Unreadable, object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validations: 5")},
		{convert.Unreadable, object("kyverno.io/v1", "ClusterPolicy", "rules: 5")},
		{convert.Unreadable, object("templates.gatekeeper.sh/v1", "ConstraintTemplate", "targets: 5")},
		{convert.Unreadable, object(constraint, "X", "match: 5")},
		{convert.NoPolicy, object("kyverno.io/v2", "PolicyException", "exceptions: [{policyName: a}]")},
		{convert.NoPolicy, object("policies.kyverno.io/v1", "PolicyException", "policyRefs: [{name: a}]")},
		{convert.NoPolicy, object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "policyName: a")},

		{convert.NoVirtualMachine, object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", podRules)},
		{convert.NoVirtualMachine, object(kyverno, "ValidatingPolicy", podRules+", evaluation: {mode: JSON}, unknown: 1")},
		{convert.NoVirtualMachine, object(kyverno, "MutatingPolicy", podRules)},
		{convert.NoVirtualMachine, object(kyverno, "GeneratingPolicy", podRules)},
		{convert.NoVirtualMachine, object(kyverno, "ImageValidatingPolicy", podRules)},
		{convert.NoVirtualMachine, object(kyverno, "DeletingPolicy", podRules)},
		{convert.NoVirtualMachine, object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", podRules)},
		{convert.NoVirtualMachine, object("kyverno.io/v2", "ClusterCleanupPolicy", podFilter)},
		{convert.NoVirtualMachine, rule(podFilter, "validate: {pattern: {}}")},
		{convert.NoVirtualMachine, rule(podFilter, "validate: {cel: {expressions: [{expression: 'true'}]}}")},
		{convert.NoVirtualMachine, rule(podFilter, "mutate: {}")},
		{convert.NoVirtualMachine, rule(podFilter, "generate: {}")},
		{convert.NoVirtualMachine, rule(podFilter, "verifyImages: []")},
		{convert.NoVirtualMachine, rule("match: {all: [{resources: {kinds: [Pod]}}, {resources: {kinds: [VirtualMachine]}}]}", "mutate: {}")},
		{convert.NoVirtualMachine, rule("match: {resources: {kinds: [apps/v1/VirtualMachine]}}", "mutate: {}")},
		{convert.NoVirtualMachine, object(constraint, "X", podKinds) + "\n---\n" + cel},
		{convert.NoVirtualMachine, object(constraint, "X", podKinds) + "\n---\n" + rego},
		{convert.NoVirtualMachine, object(constraint, "X", podKinds)},
		{convert.NoVirtualMachine, object(constraint, "X", "match: {scope: Cluster}")},
		{convert.NoVirtualMachine, object(constraint, "X", "match: {source: Generated}")},
		{convert.NoVirtualMachine, object(mutation, "Assign", "applyTo: [{groups: [''], kinds: [Pod], versions: [v1]}]")},
		{convert.NoVirtualMachine, object(mutation, "AssignMetadata", podKinds)},

		{convert.Mutation, object(kyverno, "MutatingPolicy", vmRules)},
		{convert.Mutation, object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", vmRules)},
		{convert.Mutation, object(mutation, "Assign", "applyTo: [{groups: [kubevirt.io], kinds: [VirtualMachine], versions: [v1]}]")},
		{convert.Mutation, object(mutation, "AssignMetadata", vmKinds)},
		{convert.Mutation, rule(vmFilter, "mutate: {patchStrategicMerge: {}}")},
		{convert.Generation, object(kyverno, "GeneratingPolicy", vmRules)},
		{convert.Generation, rule(vmFilter, "generate: {kind: Service}")},
		{convert.Signatures, object(kyverno, "ImageValidatingPolicy", vmRules)},
		{convert.Signatures, rule(vmFilter, "verifyImages: [{}]")},
		{convert.Cleanup, object(kyverno, "DeletingPolicy", vmRules)},
		{convert.Cleanup, object("kyverno.io/v2", "ClusterCleanupPolicy", vmFilter)},
		{convert.Unknown, object(kyverno, "FuturePolicy", "")},
		{convert.Pattern, rule(vmFilter, "validate: {pattern: {}}")},
		{convert.Pattern, rule(vmFilter, "validate: {anyPattern: []}")},
		{convert.Deny, rule(vmFilter, "validate: {deny: {conditions: {all: [{key: x, operator: Equals, value: x}]}}}")},
		{convert.ForEach, rule(vmFilter, "validate: {foreach: []}")},
		{convert.PodSecurity, rule(vmFilter, "validate: {podSecurity: {level: baseline}}")},
		{convert.Manifests, rule(vmFilter, "validate: {manifests: {}}")},
		{convert.Assertion, rule(vmFilter, "validate: {assert: {}}")},
		{convert.NoRule, rule(vmFilter, "validate: {}")},
		{convert.NoRule, object("kyverno.io/v1", "ClusterPolicy", "rules: []")},
		{convert.NoConstraint, rego},
		{convert.Rego, object(constraint, "X", vmKinds) + "\n---\n" + rego},
		{convert.NoTemplate, object(constraint, "X", vmKinds)},
		{convert.NoConstraint, cel},
	} {
		given[c.reason] = true
		found, err := manifests.Read("x", bytes.NewReader([]byte(c.text)))
		if err != nil {
			t.Fatalf("%v in\n%s", err, c.text)
		}
		var all []*unstructured.Unstructured
		for _, d := range found {
			all = append(all, d.Object)
		}
		var reasons []string
		for _, r := range convert.Convert(environment(t), all, effective.AlwaysSet()) {
			if r.Policy != nil || r.Complete() != (c.reason == convert.NotAPolicy) {
				t.Errorf("%s: policy %v, complete %v", c.text, r.Policy, r.Complete())
			}
			for _, n := range r.Notes {
				reasons = append(reasons, n.Reason)
				if n.Message == "" {
					t.Errorf("%s: no message", c.text)
				}
			}
		}
		if diff := cmp.Diff([]string{c.reason}, reasons); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
	}
	page, err := os.ReadFile("../../docs/policy-convert.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range convert.Reasons() {
		if !given[r.ID] {
			t.Errorf("no original has the reason %s", r.ID)
		}
		if !strings.Contains(string(page), "\n| `"+r.ID+"` | ") {
			t.Errorf("docs/policy-convert.md has no row for %s", r.ID)
		}
	}
	if rows := strings.Count(string(page), "\n| `"); rows < len(convert.Reasons()) || !slices.IsSortedFunc(convert.Reasons(), func(a, b convert.Reason) int {
		return strings.Index(string(page), "| `"+a.ID+"` ") - strings.Index(string(page), "| `"+b.ID+"` ")
	}) {
		t.Errorf("%d rows, which must be in the order of the reasons", rows)
	}
}

// TestFigures counts what the originals of the repository become. The page has these figures.
func TestFigures(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy-convert.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, pattern string }{{"`examples/converted`", public + "/*/original.yaml"}, {"`policies/convert/testdata`", "testdata/cases/*.yaml"}} {
		files, err := filepath.Glob(c.pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		var complete, lost, checked, without int
		for _, file := range files {
			for _, r := range convert.Convert(environment(t), objects(t, file, filepath.Join(filepath.Dir(file), "params.yaml")), effective.AlwaysSet()) {
				switch {
				case r.Policy == nil && r.Complete(): // no policy
				case r.Policy == nil:
					without++
				case r.Complete():
					complete++
				case slices.ContainsFunc(r.Notes, func(n convert.Note) bool { return n.Lost && n.Reason == "" }):
					lost++
				default:
					checked++
				}
			}
		}
		if row := fmt.Sprintf("\n| %s | %d | %d | %d | %d |\n", c.name, complete, lost, checked, without); !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %s", row)
		}
	}
}
