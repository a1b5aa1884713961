package export_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/test/crds"
)

var update = flag.Bool("update", false, "write the golden files")

// noon is when the tests happen.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var cluster = export.Cluster{Namespace: "virtward-system", KubeVirt: platform.Defaults(platform.Settings{}).KubeVirtUsers()}

var shared = sync.OnceValues(cel.NewEnvironment)

// compile compiles a policy whose spec is given. It may be broken.
func compile(t testing.TB, name, spec string) *policies.Policy {
	t.Helper()
	env, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	policy.Name = name
	if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
		t.Fatalf("%v in\n%s", err, spec)
	}
	p, _ := policies.Compile(env, policy, nil)
	return p
}

// exported is what a policy becomes; the test fails if it cannot be exported.
func exported(t testing.TB, name, spec string) *export.Native {
	t.Helper()
	native, problems := export.Export(compile(t, name, spec), cluster, noon)
	if len(problems) > 0 {
		t.Fatalf("%s is not exported: %v", name, problems)
	}
	return native
}

// eachPolicy runs a test for the spec of each policy in the test data.
func eachPolicy(t *testing.T, test func(t *testing.T, name, spec string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d policies, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			spec, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, name, string(spec))
		})
	}
}

func TestExport(t *testing.T) {
	eachPolicy(t, func(t *testing.T, name, spec string) {
		native := exported(t, name, spec)
		checkNative(t, native)
		compileToday(t, native)
		var texts []string
		for _, part := range []any{native.Policy, native.Binding, map[string]any{"notes": native.Notes, "until": native.Until}} {
			text, err := yaml.Marshal(part)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		got, golden := strings.Join(texts, "---\n"), filepath.Join("testdata", "goldens", name+".yaml")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestOriginal: a native policy leads back to a policy that is exported to the same native policy.
func TestOriginal(t *testing.T) {
	env, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	eachPolicy(t, func(t *testing.T, name, spec string) {
		before := compile(t, name, spec)
		policy := &policyv1alpha1.VirtualMachinePolicy{Spec: *before.Spec().DeepCopy()}
		policy.Name, policy.Spec.Exceptions = name, nil
		before, _ = policies.Compile(env, policy, nil)
		native, problems := export.Export(before, cluster, noon)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		found, ok := export.Original(env, &native.Policy.Spec, native.Policy.Name, policy.Spec.Enforcement)
		if !ok {
			t.Fatalf("no policy is found for\n%+v", native.Policy.Spec)
		}
		if len(found.Spec.Validations) != len(policy.Spec.Validations) || len(found.Spec.Variables) != len(policy.Spec.Variables) {
			t.Fatalf("%d validations and %d variables", len(found.Spec.Validations), len(found.Spec.Variables))
		}
		for i := range policy.Spec.Validations {
			if diff := cmp.Diff(strings.TrimSpace(policy.Spec.Validations[i].Expression), strings.TrimSpace(found.Spec.Validations[i].Expression)); diff != "" {
				t.Errorf("validation %d (-want +got):\n%s", i, diff)
			}
		}
		native.Policy.Spec.MatchConstraints.MatchPolicy = new(admissionregistrationv1.Exact)
		if _, ok := export.Original(env, &native.Policy.Spec, native.Policy.Name, policy.Spec.Enforcement); ok {
			t.Error("a changed native policy has an original")
		}
	})
}

// TestNamespacesThatTheWebhooksDoNotSee tests that the native policy excludes them too, each once.
func TestNamespacesThatTheWebhooksDoNotSee(t *testing.T) {
	in := cluster
	in.Exempt, in.ExemptByLabel = []string{"build", "kube-system", "virtward-system"}, true
	native, problems := export.Export(compile(t, "p", "enforcement: Deny"+valid), in, noon)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := native.Policy.Spec.MatchConstraints.NamespaceSelector.MatchExpressions
	want := []metav1.LabelSelectorRequirement{
		{Key: "virtward.io/exempt", Operator: "NotIn", Values: []string{"true"}},
		{Key: "kubernetes.io/metadata.name", Operator: "NotIn", Values: []string{"kube-system", "virtward-system", "build"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the selector (-want +got):\n%s", diff)
	}
	env, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	policy, ok := export.Original(env, &native.Policy.Spec, native.Policy.Name, policyv1alpha1.PolicyDeny)
	if !ok || policy.Spec.Match.NamespaceSelector != nil {
		t.Errorf("the original is %v, found: %t", policy, ok)
	}
}

const valid = "\nvalidations: [{expression: 'object != null', message: m, fieldPath: spec}]"

func TestNotExportable(t *testing.T) {
	holds := func(expression string) string {
		return "enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\nparams: {values: {a: 1}}\nvalidations: [{expression: \"" + expression + "\", message: m, fieldPath: spec}]"
	}
	tests := []struct {
		name, spec string
		want       []string
	}{
		{
			"a broken one", holds("object.spec.runStrateggy == ''"),
			[]string{"spec: the policy is invalid: "},
		},
		{
			"the effective VM", holds("vm.spec.architecture == 'amd64' && requester != ''"),
			[]string{"spec.validations[0].expression: it reads requester and vm, which the API server does not have"},
		},
		{
			"in a variable", "enforcement: Deny\nvariables: [{name: a, expression: instancetype}]" + valid,
			[]string{"spec.variables[0].expression: it reads instancetype, which the API server does not have"},
		},
		{
			"in a condition", "enforcement: Deny\nmatch: {matchConditions: [{name: a, expression: \"platform.hypervisor == 'kvm'\"}]}" + valid,
			[]string{"spec.match.matchConditions[0].expression: it reads platform, which the API server does not have"},
		},
		{
			"several at once", "enforcement: Deny\nmatch: {matchConditions: [{name: a, expression: preference == null}]}\nvariables: [{name: b, expression: provenance}]" + valid,
			[]string{
				"spec.match.matchConditions[0].expression: it reads preference, which the API server does not have",
				"spec.variables[0].expression: it reads provenance, which the API server does not have",
			},
		},
		{
			"the namespace in a condition", "enforcement: Deny\nmatch: {matchConditions: [{name: a, expression: \"namespaceObject.metadata.name == 'a'\"}]}" + valid,
			[]string{"spec.match.matchConditions[0].expression: it reads namespaceObject, which conditions of the API server cannot read: read it in a validation"},
		},
		{
			"hypervisors and architectures", "enforcement: Deny\nmatch: {hypervisors: [kvm], architectures: [amd64]}" + valid,
			[]string{
				"spec.match.hypervisors: the API server does not know the hypervisor",
				"spec.match.architectures: the API server does not know the default architecture",
			},
		},
		{
			"only templates", "enforcement: Deny\nmatch: {kinds: [VirtualMachineTemplate]}" + valid,
			[]string{"spec.match.kinds: VirtualMachineTemplates cannot be matched by the exported policy"},
		},
		{
			"Rego", "enforcement: Deny\nrego: {module: \"package a\\ndeny contains 'a' if false\"}",
			[]string{"spec: the policy is invalid: ", "spec.rego: the API server cannot evaluate Rego"},
		},
		{
			"parameters that are missing", "enforcement: Deny\nparams: {configMap: {namespace: a, name: b}}" + valid,
			[]string{"spec.params.configMap: there is no ConfigMap a/b"},
		},
		{
			"a function that is too new", holds("semver('1.2.3').major() == params.a"),
			[]string{"spec.validations[0].expression: not every supported API server accepts it: undeclared reference to 'semver' (in container '')"},
		},
		{
			"a macro that is too new", holds("{'a': 1}.all(k, v, v == params.a)"),
			[]string{"spec.validations[0].expression: not every supported API server accepts it: undeclared reference to 'all' (in container '')"},
		},
		{
			"a macro in the way of variables", holds("[1].all(variables, variables == params.a)"),
			[]string{"spec.validations[0].expression: it reads params where a macro declares variables: give the macro's variable another name"},
		},
		{
			"a macro in the way of oldObject", holds("['a'].all(oldObject, object.metadata.name != oldObject)"),
			[]string{"spec.validations[0].expression: it reads object where a macro declares oldObject: give the macro's variable another name"},
		},
		{
			"a name with a dot", holds("[1].all(object, .object != null)"),
			[]string{"spec.validations[0].expression: .object is read where a macro declares object: its meaning depends on the version of the API server"},
		},
		{
			"too many conditions", "enforcement: Deny\nmatch: {matchConditions: [" + strings.TrimSuffix(strings.Repeat("{name: aN, expression: 'true'}, ", 62), ", ") + "]}" + valid,
			[]string{"spec.match.matchConditions: there are 62 conditions: at most 60"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i := 0; strings.Contains(test.spec, "aN"); i++ {
				test.spec = strings.Replace(test.spec, "aN", "a"+string(rune('a'+i/26))+string(rune('a'+i%26)), 1)
			}
			native, problems := export.Export(compile(t, "p", test.spec), cluster, noon)
			if native != nil {
				t.Errorf("it is exported: %+v", native.Policy.Spec)
			}
			var got []string
			for i, problem := range problems {
				got = append(got, problem.String())
				if i < len(test.want) && strings.HasSuffix(test.want[i], "is invalid: ") && strings.HasPrefix(got[i], test.want[i]) {
					got[i] = test.want[i]
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExceptionsExpire: an expired one is not in the native policy, and the first that will be says until when
// that is right.
func TestExceptionsExpire(t *testing.T) {
	p := compile(t, "p", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
exceptions:
- {names: [a], expires: "2026-11-21T13:00:00Z", reason: r}
- {names: [b], expires: "2026-11-21T14:00:00Z", reason: r}
`+valid)
	for _, test := range []struct {
		hour  int
		names []string
		until int
	}{{12, []string{`["a"]`, `["b"]`}, 13}, {13, []string{`["b"]`}, 14}, {14, nil, 0}} {
		native, problems := export.Export(p, cluster, time.Date(2026, 11, 21, test.hour, 0, 0, 0, time.UTC))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		conditions, err := json.Marshal(native.Policy.Spec.MatchConditions)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{`["a"]`, `["b"]`} {
			quoted := strings.ReplaceAll(name, `"`, `\"`)
			if got := strings.Contains(string(conditions), quoted); got != slices.Contains(test.names, name) {
				t.Errorf("at %d:00 the exception %s is there: %v", test.hour, name, got)
			}
		}
		switch {
		case native.Until == nil && test.until == 0:
		case native.Until == nil || native.Until.UTC().Hour() != test.until:
			t.Errorf("at %d:00 it is right until %v, not %d:00", test.hour, native.Until, test.until)
		}
	}
}

// TestNamesThatDiffer: the notes go by the names of fields, and know all of those that KubeVirt's types have.
func TestNamesThatDiffer(t *testing.T) {
	found := map[string]map[string]bool{"quantities": {}, "optionals": {}}
	var walk func(t reflect.Type, seen map[reflect.Type]bool)
	walk = func(at reflect.Type, seen map[reflect.Type]bool) {
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice || at.Kind() == reflect.Map {
			at = at.Elem()
		}
		if at.Kind() != reflect.Struct || seen[at] {
			return
		}
		seen[at] = true
		for f := range at.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			marshaler := reflect.TypeFor[json.Marshaler]()
			switch {
			case name == "status": // what KubeVirt says is not for policies
			case inner == reflect.TypeFor[resource.Quantity]():
				found["quantities"][name] = true
			case inner.Implements(marshaler) || reflect.PointerTo(inner).Implements(marshaler):
			default:
				if f.Type.Kind() == reflect.Struct && name != "" && name != "spec" && strings.Contains(options, "omitempty") {
					found["optionals"][name] = true
				}
				walk(f.Type, seen)
			}
		}
	}
	for _, kind := range []reflect.Type{reflect.TypeFor[v1.VirtualMachine](), reflect.TypeFor[v1.VirtualMachineInstance](), reflect.TypeFor[poolv1beta1.VirtualMachinePool]()} {
		walk(kind, map[reflect.Type]bool{})
	}
	known := export.NamesThatDiffer()
	for what, names := range found {
		for name := range names {
			if !slices.Contains(known[what], name) {
				t.Errorf("%s of KubeVirt's types is not among the %s", name, what)
			}
		}
		for _, name := range known[what] {
			if !names[name] {
				t.Errorf("%s is among the %s, and KubeVirt's types have no such field", name, what)
			}
		}
	}
}

// TestDefinitionsCanBeChecked: older controller managers end in a panic when they check the types of a policy for a
// definition that has additionalProperties: true. KubeVirt's have none, at any depth.
func TestDefinitionsCanBeChecked(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	for _, crd := range all {
		if !slices.Contains([]string{"virtualmachines", "virtualmachineinstances", "virtualmachinepools"}, crd.Spec.Names.Plural) {
			continue
		}
		matched++
		for _, version := range crd.Spec.Versions {
			data, err := json.Marshal(version.Schema)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), `"additionalProperties":true`) {
				t.Errorf("%s %s has additionalProperties: true", crd.Name, version.Name)
			}
		}
	}
	if matched != 3 {
		t.Errorf("%d definitions are matched, not 3", matched)
	}
}

// TestDocumentation: the policy that the documentation shows can be exported, and what it says of names is so.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/export.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\napiVersion: policy.virtward.io")
	block, _, found := strings.Cut(block, "```")
	_, spec, foundToo := strings.Cut(block, "\nspec:\n")
	if !found || !foundToo {
		t.Fatal("there is no policy")
	}
	native := exported(t, "cores", spec)
	if !strings.Contains(string(page), "are called `"+native.Policy.Name+"`") || native.Binding.Name != native.Policy.Name {
		t.Errorf("the documentation does not name %s", native.Policy.Name)
	}
}

func TestKubeVirtUsers(t *testing.T) {
	facts := *platform.Defaults(platform.Settings{})
	for _, namespace := range []string{"", "virt"} {
		facts.Namespace = namespace
		users := facts.KubeVirtUsers()
		if len(users) != 4 || !slices.IsSorted(users) {
			t.Errorf("users %v", users)
		}
		for _, user := range users {
			if !facts.ByKubeVirt(user) {
				t.Errorf("%s is KubeVirt's, and is not known as such", user)
			}
		}
	}
}
