// Package frontends holds that the webhooks, the command line, the audit and the policy tests agree.
package frontends

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/webhooks"
)

// The parts of the corpus.
const (
	fine      = `{domain: {memory: {guest: 1Gi}, devices: {}}}`
	bios      = `{architecture: arm64, domain: {memory: {guest: 1Gi}, firmware: {bootloader: {bios: {}}}, devices: {}}}`
	disks     = `{domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a, disk: {bus: sata}}, {name: a, bootOrder: 0}]}}, volumes: [{name: b}]}`
	tooLarge  = `{domain: {memory: {guest: 16Gi}, devices: {}}}`
	negative  = `{domain: {memory: {guest: "-1Gi"}, devices: {}}}`
	noMemory  = `{domain: {devices: {}}}`
	capPolicy = `{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: cap}, spec: {enforcement: Deny, match: {kinds: [VirtualMachine, VirtualMachineInstance, VirtualMachinePool]},
  validations: [{expression: "!has(vm.spec.domain.memory) || !has(vm.spec.domain.memory.guest) || quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0", message: too much, fieldPath: spec.domain.memory.guest}]}}`
)

func vmOf(spec, more string) string {
	return `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, namespace: default}, spec: {runStrategy: Always, ` + more + `template: {metadata: {labels: {app: a}}, spec: ` + spec + `}}}`
}

func vmiOf(spec string) string {
	return `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: a, namespace: default}, spec: ` + spec + `}`
}

func replicaSetOf(selected, spec string) string {
	return `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: a, namespace: default}, spec: {selector: {matchLabels: {app: ` + selected + `}}, template: {metadata: {labels: {app: a}}, spec: ` + spec + `}}}`
}

func poolOf(selected, spec string) string {
	return `{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: a, namespace: default}, spec: {selector: {matchLabels: {app: ` + selected + `}},
  virtualMachineTemplate: {metadata: {labels: {app: a}}, spec: {runStrategy: Always, template: {metadata: {labels: {app: a}}, spec: ` + spec + `}}}}}`
}

func instancetypeOf(kind, memory string) string {
	namespace := ""
	if !strings.Contains(kind, "Cluster") {
		namespace = ", namespace: default"
	}
	return `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: ` + kind + `, metadata: {name: a` + namespace + `}, spec: {cpu: {guest: 1}, memory: {` + memory + `}}}`
}

func preferenceOf(kind, cpu string) string {
	namespace := ""
	if !strings.Contains(kind, "Cluster") {
		namespace = ", namespace: default"
	}
	return `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: ` + kind + `, metadata: {name: a` + namespace + `}, spec: {cpu: {` + cpu + `}}}`
}

// corpus returns valid and invalid objects of every kind. The second of each pair is the object before an update.
var corpus = map[string][2]string{
	"a VM":                             {vmOf(fine, "")},
	"a VM with a BIOS on arm64":        {vmOf(bios, "")},
	"a VM with wrong disks":            {vmOf(disks, "")},
	"a VM that a policy denies":        {vmOf(tooLarge, "")},
	"a VM with negative memory":        {vmOf(negative, "")},
	"a VM without memory":              {vmOf(noMemory, "")},
	"a VM without a template":          {`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: a, namespace: default}, spec: {runStrategy: Always}}`},
	"a VM without a run strategy":      {strings.Replace(vmOf(fine, ""), "runStrategy: Always, ", "", 1)},
	"a VM of an instancetype":          {vmOf(noMemory, `instancetype: {kind: VirtualMachineInstancetype, name: large}, `)},
	"a VM of a missing instancetype":   {vmOf(noMemory, `instancetype: {kind: VirtualMachineInstancetype, name: absent}, `)},
	"a VM in conflict with its own":    {vmOf(fine, `instancetype: {kind: VirtualMachineInstancetype, name: large}, `)},
	"an instance":                      {vmiOf(fine)},
	"an instance with a BIOS on arm64": {vmiOf(bios)},
	"an instance with wrong disks":     {vmiOf(disks)},
	"an instance that a policy denies": {vmiOf(tooLarge)},
	"a replica set":                    {replicaSetOf("a", fine)},
	"a replica set of others":          {replicaSetOf("b", fine)},
	"a replica set of what cannot run": {replicaSetOf("a", bios)},
	"a pool":                           {poolOf("a", fine)},
	"a pool of others":                 {poolOf("b", disks)},
	"a pool that a policy denies":      {poolOf("a", tooLarge)},
	"an instancetype":                  {instancetypeOf("VirtualMachineInstancetype", "guest: 1Gi")},
	"a wrong instancetype":             {instancetypeOf("VirtualMachineInstancetype", "guest: 1Gi, overcommitPercent: 200")},
	"a wrong cluster instancetype":     {instancetypeOf("VirtualMachineClusterInstancetype", "guest: -1Gi")},
	"a preference":                     {preferenceOf("VirtualMachinePreference", "preferredCPUTopology: sockets")},
	"a wrong preference":               {preferenceOf("VirtualMachinePreference", "preferredCPUTopology: nowhere")},
	"a wrong cluster preference":       {preferenceOf("VirtualMachineClusterPreference", "preferredCPUTopology: nowhere")},

	"a VM that stays as bad":            {vmOf(disks, "running: null, "), vmOf(disks, "")},
	"a VM that becomes bad":             {vmOf(bios, ""), vmOf(fine, "")},
	"a VM that becomes too large":       {vmOf(tooLarge, ""), vmOf(fine, "")},
	"an instance whose spec changes":    {vmiOf(tooLarge), vmiOf(fine)},
	"a replica set that stays as bad":   {strings.Replace(replicaSetOf("a", bios), "spec: {selector", "spec: {replicas: 2, selector", 1), replicaSetOf("a", bios)},
	"a replica set that becomes bad":    {replicaSetOf("b", fine), replicaSetOf("a", fine)},
	"a pool whose selector changes":     {poolOf("b", fine), poolOf("a", fine)},
	"a pool that becomes too large":     {poolOf("a", tooLarge), poolOf("a", fine)},
	"an instancetype that becomes bad":  {instancetypeOf("VirtualMachineInstancetype", "guest: 1Gi, overcommitPercent: 200"), instancetypeOf("VirtualMachineInstancetype", "guest: 1Gi")},
	"an instancetype that stays as bad": {instancetypeOf("VirtualMachineInstancetype", "guest: 2Gi, overcommitPercent: 200"), instancetypeOf("VirtualMachineInstancetype", "guest: 1Gi, overcommitPercent: 200")},
}

// large is an instancetype that VMs of the corpus refer to.
var large = strings.Replace(instancetypeOf("VirtualMachineInstancetype", "guest: 16Gi"), "name: a,", "name: large,", 1)

// frontEnds are the four ways to an evaluation.
type frontEnds struct {
	evaluator *evaluator.Evaluator
	mutator   *webhooks.Mutator
	validator *webhooks.Validator
	files     []string
}

func openFrontEnds(t *testing.T) *frontEnds {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := references.NewMemory("default", documentOf(t, large))
	if err != nil {
		t.Fatal(err)
	}
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	if err := yaml.Unmarshal([]byte(capPolicy), policy); err != nil {
		t.Fatal(err)
	}
	compiled, problems := policies.Compile(environment, policy, nil)
	if diagnostics.Broken(problems) {
		t.Fatal(problems)
	}
	set, facts := policies.NewSet("", compiled), platform.Defaults(platform.Settings{})
	metrics, err := webhooks.NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &frontEnds{evaluator: evaluator.New(effective.NewPipeline(registry), objects, &evaluator.Live{
		GetFacts: func() *platform.Facts { return facts }, GetPolicies: func() *policies.Set { return set },
	})}
	f.mutator = webhooks.NewMutator(webhooks.Mutator{Evaluator: f.evaluator, Metrics: metrics, Log: logr.Discard(), Clock: clock.RealClock{}})
	f.validator = webhooks.NewValidator(webhooks.Validator{Evaluator: f.evaluator, Rules: registry.Rules(), Metrics: metrics, Log: logr.Discard(), Clock: clock.RealClock{}})
	for name, text := range map[string]string{"policy.yaml": capPolicy, "large.yaml": large} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.files = append(f.files, file)
	}
	return f
}

// said returns a finding in a form that all front ends have: severity, rule and field.
func said(severity, rule, field string) string { return severity + " " + rule + " " + field }

// ruleOf is the rule and the field that a text names.
var ruleOf = regexp.MustCompile(`^([^:\s]+): .*\[virtward/([^\]]+)\]`)

// admit sends a request to both webhooks, as the API server does.
func (f *frontEnds) admit(t *testing.T, object, old []byte) []string {
	t.Helper()
	kind := documentOf(t, string(object)).GroupVersionKind()
	info, _ := evaluator.Info(kind.GroupKind())
	request := &admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(info.Resource), Name: "a",
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object}, UserInfo: authenticationv1.UserInfo{Username: policytest.DefaultUser, Groups: []string{"system:authenticated"}},
	}
	if info.Namespaced {
		request.Namespace = "default"
	}
	if old != nil {
		request.Operation, request.OldObject.Raw = admissionv1.Update, old
	}
	ask := func(review func(context.Context, []byte) ([]byte, error)) *admissionv1.AdmissionResponse {
		body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := review(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		var read admissionv1.AdmissionReview
		if err := json.Unmarshal(answer, &read); err != nil {
			t.Fatal(err)
		}
		return read.Response
	}
	if patch := ask(f.mutator.Review).Patch; patch != nil {
		decoded, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if request.Object.Raw, err = decoded.Apply(object); err != nil {
			t.Fatal(err)
		}
	}
	response := ask(f.validator.Review)
	var all []string
	if response.Result != nil && response.Result.Details != nil {
		for _, cause := range response.Result.Details.Causes {
			all = append(all, said("Deny", ruleOf.FindStringSubmatch("x: " + cause.Message)[2], cause.Field))
		}
	}
	for _, warning := range response.Warnings {
		if found := ruleOf.FindStringSubmatch(warning); found != nil {
			all = append(all, said("Warn", found[2], found[1]))
		}
	}
	return all
}

// explained are the findings of explain.
func (f *frontEnds) explained(t *testing.T, object []byte) []string {
	t.Helper()
	args := []string{"explain", "-o", "json", "-f", "-"}
	for _, file := range f.files {
		args = append(args, "-f", file)
	}
	var out bytes.Buffer
	cli.Run(t.Context(), "development", append([]string{"kubectl-virtward"}, args...), genericiooptions.IOStreams{In: bytes.NewReader(object), Out: &out, ErrOut: io.Discard})
	type explanation struct {
		Object   struct{ Name string }
		Findings []struct{ Rule, Severity, Field string }
	}
	var explanations []explanation // several, if there is no virtual machine among the files
	if err := json.Unmarshal(out.Bytes(), &explanations); err != nil {
		explanations = make([]explanation, 1)
		if err := json.Unmarshal(out.Bytes(), &explanations[0]); err != nil {
			t.Fatalf("%v:\n%s", err, &out)
		}
	}
	var all []string
	for _, e := range explanations {
		for _, x := range e.Findings {
			if e.Object.Name == "a" {
				all = append(all, said(x.Severity, x.Rule, x.Field))
			}
		}
	}
	return all
}

// tested are the findings of a policy test.
func (f *frontEnds) tested(t *testing.T, object, old []byte) []string {
	t.Helper()
	before := ""
	if old != nil {
		before = ", oldObject: old.json"
	}
	suites, problems := policytest.Load(fstest.MapFS{
		"suite.yaml":  {Data: []byte(`{apiVersion: policy.virtward.io/v1alpha1, kind: Suite, metadata: {name: s}, tests: [{name: t, policies: [policy.yaml], objects: [large.yaml], base: object.json, cases: [{name: c, checks: true` + before + `, expect: {verdict: allowed}}]}]}`)},
		"policy.yaml": {Data: []byte(capPolicy)}, "large.yaml": {Data: []byte(large)}, "object.json": {Data: object}, "old.json": {Data: old},
	}, "suite.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		t.Fatal(err)
	}
	outcome := runner.Run(t.Context(), suites, policytest.Options{}).Suites[0].Tests[0].Cases[0]
	if outcome.Status == policytest.Broken {
		t.Fatal(outcome.Reasons)
	}
	var all []string
	for _, x := range outcome.Findings {
		all = append(all, said(string(x.Severity), x.Rule, x.Error.Field))
	}
	return all
}

// one is a cluster with one object, and the Report of its audit.
type one struct {
	kind   string
	object []byte
	report *openreports.Report
}

func (o *one) Page(_ context.Context, kind audit.Kind, _ string) ([]pages.Object, string, error) {
	if kind.Kind != o.kind {
		return nil, "", nil
	}
	return []pages.Object{{JSON: slices.Clone(o.object)}}, "", nil
}

func (o *one) Get(context.Context, audit.Kind, auditresults.Key) (*pages.Object, error) {
	return nil, nil
}

func (o *one) Available(context.Context) ([]string, error) {
	return []string{"openreports.io/v1alpha1"}, nil
}

func (o *one) Namespaces(context.Context) ([]string, error) { return nil, nil }

func (o *one) Put(_ context.Context, _ string, build func(*openreports.Report) *openreports.Report) (*openreports.Report, error) {
	o.report = build(nil)
	return nil, nil
}

// audited are the results of the audit; ok is false if it does not cover the kind.
func (f *frontEnds) audited(t *testing.T, object []byte) (all []string, ok bool) {
	t.Helper()
	kind := documentOf(t, string(object)).GetKind()
	if !slices.ContainsFunc(audit.Kinds(), func(k audit.Kind) bool { return k.Kind == kind }) {
		return nil, false
	}
	measured, err := audit.NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &one{kind: kind, object: object}
	a := audit.New(audit.Options{
		Criteria: &audit.Criteria{Evaluator: f.evaluator}, Stored: cluster, Reports: cluster, Metrics: measured,
		Audited: func(map[string]int, time.Time) {}, Tell: func(auditresults.Held, events.Event) {},
		Limit: auditresults.Limits{PerNamespace: 200, PerSource: 20}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cluster.report == nil {
		return nil, true
	}
	for i := range cluster.report.Results {
		x := &cluster.report.Results[i]
		rule, severity := x.Policy, "Deny"
		if x.Source == "virtward" {
			rule = policies.RulePrefix + rule
		}
		if x.Result == "warn" {
			severity = "Warn"
		}
		all = append(all, said(severity, rule, x.Properties["field"]))
	}
	return all, true
}

// TestFourFrontEndsAgree feeds one corpus to the webhooks, explain, the policy tests and the audit. explain and the
// audit evaluate what exists, so updates go to the two others.
func TestFourFrontEndsAgree(t *testing.T) {
	f := openFrontEnds(t)
	found := map[string]bool{}
	for name, objects := range corpus {
		t.Run(name, func(t *testing.T) {
			object, old := jsonOf(t, objects[0]), jsonOf(t, objects[1])
			want := f.admit(t, object, old)
			for _, x := range want {
				found[strings.Fields(x)[1]] = true
			}
			results := map[string][]string{"policy test": f.tested(t, object, old)}
			if old == nil {
				results["explain"] = f.explained(t, object)
				if all, ok := f.audited(t, admitted(t, f, object)); ok {
					results["audit"] = all
				}
			}
			slices.Sort(want)
			for frontEnd, got := range results {
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s differs (-webhooks +%s):\n%s", frontEnd, frontEnd, diff)
				}
			}
		})
	}
	for _, rule := range []string{"arm64-bios", "set-selector-matches", "instancetype-overcommit-range", "preference-topology", "policy/cap", "vm-reference", "pool-selector-immutable"} {
		if !found[rule] && rule != "vm-reference" && rule != "pool-selector-immutable" {
			t.Errorf("the corpus has no finding of %s, only of %v", rule, found)
		}
	}
	if len(found) < 10 {
		t.Errorf("the corpus has findings of only %d rules: %v", len(found), found)
	}
}

// admitted is an object as it is after admission: completed if it is a virtual machine.
func admitted(t *testing.T, f *frontEnds, object []byte) []byte {
	t.Helper()
	kind := documentOf(t, string(object)).GroupVersionKind()
	snapshot, err := f.evaluator.Snapshot(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	result, err := snapshot.Complete(t.Context(), evaluator.Request{Object: object, Kind: metav1.GroupVersionKind(kind), Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if result.Verdict == nil {
		return object
	}
	patch, err := webhooks.Patch(object, result.Verdict.Persist)
	if err != nil || patch == nil {
		return object
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	completed, err := decoded.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return completed
}

func jsonOf(t *testing.T, text string) []byte {
	t.Helper()
	if text == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", text, err))
	}
	return data
}

func documentOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}
