package explain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
	"github.com/virtward/virtward/webhooks"
)

// hooks are both webhooks of a cluster with KubeVirt's defaults, which explain assumes too.
type hooks struct {
	mutator   *webhooks.Mutator
	validator *webhooks.Validator
}

func newHooks(t testing.TB, active ...*policies.Policy) hooks {
	t.Helper()
	set := policies.NewSet("virtward-system", active...)
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := webhooks.NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	none, err := references.NewMemory("default")
	if err != nil {
		t.Fatal(err)
	}
	objects := references.Given{Memory: none} // as for explain: what is not in the file is unknown
	pipeline, facts := effective.NewPipeline(registry), platform.Defaults(platform.Settings{})
	return hooks{
		mutator: webhooks.NewMutator(webhooks.Mutator{
			Evaluator: evaluator.New(pipeline, objects, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}),
			Metrics:   metrics, Log: logr.Discard(), Clock: clock.RealClock{},
		}),
		validator: webhooks.NewValidator(webhooks.Validator{
			Evaluator: evaluator.New(pipeline, objects, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }, GetPolicies: func() *policies.Set { return set }}), Rules: registry.Rules(),
			Metrics: metrics, Log: logr.Discard(), Clock: clock.RealClock{},
		}),
	}
}

// create calls both webhooks for a create, as the API server does.
func (d hooks) create(t testing.TB, kind string, object []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	if patch := review(t, d.mutator.Review, kind, object).Patch; patch != nil {
		decoded, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if object, err = decoded.Apply(object); err != nil {
			t.Fatal(err)
		}
	}
	return review(t, d.validator.Review, kind, object)
}

func review(t testing.TB, ask func(context.Context, []byte) ([]byte, error), kind string, object []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: kind}, Namespace: "default",
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := ask(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	var read admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &read); err != nil {
		t.Fatal(err)
	}
	return read.Response
}

// explained returns the findings of explain, in the format of the webhook; ok is false if explain cannot read the
// object.
func explained(t testing.TB, object []byte, files ...string) (causes []string, allowed, ok bool) {
	t.Helper()
	args := []string{"explain", "-o", "json", "-f", "-"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	got := clitest.Call(t, string(object), args...)
	var e struct {
		Findings []struct{ Rule, Severity, Field, Type, Message string }
	}
	if json.Unmarshal([]byte(got.Out), &e) != nil {
		return nil, false, false
	}
	for _, f := range e.Findings {
		// The API server has validated an object with its schema before webhooks receive it.
		if f.Severity == string(validators.Deny) && f.Rule != validators.RuleSchema && f.Rule != validators.RuleUnknownField {
			causes = append(causes, fmt.Sprintf("%s %s %s %s", f.Field, f.Type, f.Rule, filled.ReplaceAllString(f.Message, "")))
		}
	}
	return causes, len(causes) == 0, true
}

// filled matches the layer of a value, and whether its author set it. For a VMI, only explain knows both: the validating
// webhook receives the completed object.
var filled = regexp.MustCompile(`^(not set; the default is |(Invalid|Unsupported|Duplicate) value: )| \(filled by [^)]*\)$`)

// causesOf returns the causes of a response, in the same format.
func causesOf(response *admissionv1.AdmissionResponse) (causes []string) {
	if response.Result == nil || response.Result.Details == nil {
		return nil
	}
	for _, c := range response.Result.Details.Causes {
		text, rest, _ := strings.Cut(c.Message, " [virtward/")
		rule, _, _ := strings.Cut(rest, "]")
		causes = append(causes, fmt.Sprintf("%s %s %s %s", c.Field, c.Type, rule, filled.ReplaceAllString(text, "")))
	}
	return causes
}

// compare compares explain and the webhooks for an object. It skips objects that only one of them can read: YAML is
// stricter than JSON, and the webhook rejects what it cannot read.
func (d hooks) compare(t testing.TB, object []byte, files ...string) bool {
	t.Helper()
	var head struct{ Kind, APIVersion string }
	if json.Unmarshal(object, &head) != nil || !strings.HasPrefix(head.APIVersion, "kubevirt.io/") || head.Kind != "VirtualMachine" && head.Kind != "VirtualMachineInstance" {
		return false
	}
	object = pruned(head.Kind, object)
	if object == nil {
		return false
	}
	offline, allowed, ok := explained(t, object, files...)
	if !ok {
		return false
	}
	response := d.create(t, head.Kind, object)
	online := causesOf(response)
	if slices.ContainsFunc(online, func(c string) bool { return strings.Contains(c, "object-readable") }) {
		return false
	}
	if response.Allowed != allowed {
		t.Errorf("%s\nexplain: allowed %v %q\nwebhook: allowed %v %q", object, allowed, offline, response.Allowed, online)
		return true
	}
	if len(offline) > 50 { // the webhook returns no more, and the last cause counts the others
		offline, online = offline[:49], online[:49]
	}
	if diff := cmp.Diff(offline, online); diff != "" {
		t.Errorf("%s\ncauses (-explain +webhook):\n%s", object, diff)
	}
	return true
}

// pruned returns an object without unknown fields, as an API server sends it; nil if it has another form. KubeVirt's
// types decode fields in any case, of which an API server keeps only the correct ones.
func pruned(kind string, object []byte) []byte {
	var into any = &v1.VirtualMachine{}
	if kind == "VirtualMachineInstance" {
		into = &v1.VirtualMachineInstance{}
	}
	var fields map[string]any
	if json.Unmarshal(object, &fields) != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into) != nil {
		return nil
	}
	data, err := json.Marshal(into)
	if err != nil {
		return nil
	}
	return data
}

// recordedCase is a recorded answer of KubeVirt.
type recordedCase struct {
	ID, Area, Operation string
	Object              json.RawMessage
	Expect              struct{ Allowed bool }
}

// recorded returns some of the recorded answers.
func recorded(t testing.TB, which func(*recordedCase) bool) (cases []recordedCase) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "conformance", "testdata", "admission.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var c recordedCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if which(&c) {
			cases = append(cases, c)
		}
	}
	return cases
}

func recordedCreates(t testing.TB) (objects [][]byte) {
	t.Helper()
	for _, c := range recorded(t, func(c *recordedCase) bool { return c.Operation == "CREATE" }) {
		objects = append(objects, c.Object)
	}
	return objects
}

// TestExplainAndTheWebhooksAgree replays every recorded create; in short runs, one of ten.
func TestExplainAndTheWebhooksAgree(t *testing.T) {
	every, enough := 1, 1000
	if testing.Short() {
		every, enough = 10, 100
	}
	d, compared := newHooks(t), 0
	for i, object := range recordedCreates(t) {
		if i%every == 0 && d.compare(t, object) {
			compared++
		}
	}
	if compared < enough {
		t.Errorf("only %d objects were compared", compared)
	}
}

// denying are policies that read all documents, and have findings in many virtual machines. They do not read the
// provenance: the validating webhook does not know which fields the mutating one filled.
const denying = `
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: memory}
spec:
  enforcement: Deny
  validations:
  - expression: vm.spec.domain.?memory.?guest.hasValue() && quantity(vm.spec.domain.memory.guest).isLessThan(quantity('2Gi'))
    messageExpression: "vm.spec.domain.machine.type + ' on ' + platform.architecture"
    fieldPath: spec.domain.memory.guest
  - {expression: "object.metadata.?labels['owner'].orValue('') != ''", message: "it has no owner", fieldPath: metadata.labels}
  - {expression: "has(vm.spec.domain.cpu) && vm.spec.domain.cpu.cores > 0", message: no cores, fieldPath: spec.domain.cpu.cores}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: buses}
spec:
  enforcement: Deny
  remedy: Use virtio.
  rego:
    module: |
      package virtward
      deny contains {"msg": sprintf("bus %s of %s", [disk.disk.bus, disk.name]), "field": sprintf("spec.domain.devices.disks[%d].disk.bus", [i])} if {
        some i, disk in input.vm.spec.domain.devices.disks
        disk.disk.bus != "virtio"
      }
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: fails}
spec:
  enforcement: Deny
  validations:
  - {expression: "vm.spec.networks[1].name != ''", message: a second network, fieldPath: spec.networks}
`

// TestExplainAndTheWebhooksAgreeOnPolicies replays some of the recorded creates, and fewer in short runs.
func TestExplainAndTheWebhooksAgreeOnPolicies(t *testing.T) {
	every, enough := 10, 100
	if testing.Short() {
		every, enough = 30, 30
	}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(denying), 0o600); err != nil {
		t.Fatal(err)
	}
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	read, err := manifests.ReadAll(t.Context(), []string{file}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var active []*policies.Policy
	for _, d := range read {
		var object policyv1alpha1.VirtualMachinePolicy
		if _, err := manifests.Decode(d.Object.Object, &object); err != nil {
			t.Fatal(err)
		}
		compiled, problems := policies.Compile(environment, &object, nil)
		if diagnostics.Broken(problems) {
			t.Fatal(problems)
		}
		active = append(active, compiled)
	}
	d, compared, found := newHooks(t, active...), 0, map[string]int{}
	for i, object := range recordedCreates(t) {
		if i%every != 0 || !d.compare(t, object, file) {
			continue
		}
		compared++
		causes, _, _ := explained(t, object, file)
		for _, p := range active {
			if slices.ContainsFunc(causes, func(c string) bool { return strings.Contains(c, " "+p.Rule()+" ") }) {
				found[p.Name()]++
			}
		}
	}
	if compared < enough || len(found) != len(active) {
		t.Errorf("only %d objects were compared, with findings of %v", compared, found)
	}
}

// FuzzExplainAndTheWebhooksAgree: for any object, explain and the webhooks have the same result.
func FuzzExplainAndTheWebhooksAgree(f *testing.F) {
	every := 25
	if testing.Short() {
		every = 250
	}
	for i, object := range recordedCreates(f) {
		if i%every == 0 {
			f.Add(object)
		}
	}
	d := newHooks(f)
	f.Fuzz(func(t *testing.T, object []byte) { d.compare(t, object) })
}
