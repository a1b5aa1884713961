package configcache

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

// environment is made once: it takes a moment.
var environment = sync.OnceValues(cel.NewEnvironment)

func policiesOptions(t testing.TB, params ...string) PoliciesOptions {
	t.Helper()
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	return PoliciesOptions{Namespace: "virtward-system", ParamsNamespaces: params, Environment: env}
}

// policyObject is a VirtualMachinePolicy with its spec in YAML.
func policyObject(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	object.SetName(name)
	return object
}

// capped is a policy whose parameter is the ConfigMap NAMESPACE/caps.
const capped = `{enforcement: Deny, params: {configMap: {namespace: %s, name: caps}, schema: {properties: {max: {type: integer}}}},
  validations: [{expression: "vm.spec.domain.devices.disks.size() <= params.max", messageExpression: "'at most ' + string(params.max)"}]}`

// activeNow are the policies with what is wrong with each.
func activeNow(p *Policies) []string {
	var all []string
	for _, c := range p.Compiled() {
		text := c.Object.Name
		if missing := c.Policy.ParamsMissing(); missing != "" && c.Policy.Broken() == "" {
			text += "; " + missing
		}
		for _, problem := range c.Problems {
			text += "; " + problem.String()
		}
		all = append(all, text)
	}
	return all
}

func soonActive(t *testing.T, p *Policies, want ...string) {
	t.Helper()
	await.Until(t, func() error {
		if diff := cmp.Diff(want, activeNow(p)); diff != "" {
			return fmt.Errorf("active (-want +got):\n%s", diff)
		}
		return nil
	})
}

// verdict is what the policies active say of a VM with a disk.
func verdict(p *Policies) []string {
	vmi := build.VMI("db").Disk("root", "").Obj()
	var said []string
	for _, f := range p.Current().Evaluate(&cel.Documents{
		Kind: "VirtualMachineInstance", Object: vmi, VM: vmi, Facts: platform.Defaults(platform.Settings{}), Requester: "alice",
		Request: cel.Request{Operation: "CREATE", Name: "db", Namespace: "default"},
	}, time.Time{}) {
		said = append(said, fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Error.Detail))
	}
	return said
}

// testPolicies is run by TestWithAPIServer.
func testPolicies(t *testing.T, cluster *controlplane.ControlPlane) {
	ctx := t.Context()
	if err := errors.Join(cluster.InstallVirtwardCRDs(ctx), cluster.EnsureNamespace(ctx, "params"), cluster.EnsureNamespace(ctx, "hidden")); err != nil {
		t.Fatal(err)
	}
	admin, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	config, err := cluster.UserConfig("reader")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, cluster, "", rbacv1.PolicyRule{APIGroups: []string{"policy.virtward.io"}, Resources: []string{"virtualmachinepolicies"}, Verbs: []string{"list", "watch"}})
	grant(t, cluster, "params", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}})

	all := admin.Resource(virtualMachinePolicies)
	write := func(name, spec string) {
		t.Helper()
		if _, err := all.Create(ctx, policyObject(t, name, spec), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write("capped", fmt.Sprintf(capped, "params"))
	write("broken", `{enforcement: Deny, validations: [{expression: "vm.spec.domain.cpu.coers > 1", message: m, fieldPath: spec.domain.cpu}]}`)
	write("elsewhere", fmt.Sprintf(capped, "default"))
	write("unreadable", fmt.Sprintf(capped, "hidden"))
	p, err := NewPolicies(reader, policiesOptions(t, "params", "hidden"), nil)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan Change, 100)
	p.OnChange(func(c Change) { heard <- c })
	if err := p.Ready(); err == nil || err.Error() != "the ConfigMaps of namespace hidden have not been read yet" || p.Current() != nil || p.Compiled() != nil {
		t.Errorf("before it runs: ready %v, policies %v", err, p.Current())
	}
	await.Run(t, p.Run)
	await.Until(t, p.Ready)

	const missing = "; there is no ConfigMap params/caps"
	broken := "broken; spec.validations[0].expression:1:19: undefined field 'coers'"
	elsewhere := "elsewhere; spec.params.configMap.namespace: ConfigMaps of namespace default are not read, only those of hidden, params: the value policies.paramsNamespaces of the chart lists the namespaces"
	unreadable := `unreadable; spec.params.configMap.namespace: the ConfigMaps of namespace hidden cannot be read: configmaps is forbidden: User "reader" cannot list resource "configmaps" in API group "" in the namespace "hidden"`
	advice := "; spec.validations[0]: warning: "
	got := activeNow(p)
	for i, want := range []string{broken, "capped" + missing, elsewhere, unreadable} {
		if len(got) != 4 || !strings.HasPrefix(strings.Split(got[i], advice)[0], want) {
			t.Fatalf("active %q, want %q", got, want)
		}
	}
	if change := <-heard; !cmp.Equal(change.Objects, []string{"broken", "capped", "elsewhere", "unreadable"}) || len(change.Notes) != 3 || !strings.HasPrefix(change.Notes[0], "VirtualMachinePolicy broken: the policy is invalid: spec.validations[0].expression") {
		t.Errorf("told %+v", change)
	}
	for _, name := range []string{"broken", "elsewhere", "unreadable"} {
		if err := all.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	soonActive(t, p, "capped"+missing)

	before := p.Compiled()[0].Policy
	caps := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "params", Name: "caps"}, Data: map[string]string{"max": "1"}}
	if err := cluster.Client().Create(ctx, caps); err != nil {
		t.Fatal(err)
	}
	soonActive(t, p, "capped")
	if said := verdict(p); said != nil || p.Compiled()[0].Policy == before {
		t.Errorf("with a cap of 1: %q", said)
	}
	if compiled, problems := p.Compile(p.Compiled()[0].Object); compiled.ParamsMissing() != "" || diagnostics.Broken(problems) || compiled.Params()["max"] != int64(1) {
		t.Errorf("compiled by itself it has the parameters %v, and the problems %v", compiled.Params(), problems)
	}
	caps.Data["max"] = "0"
	if err := cluster.Client().Update(ctx, caps); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		if diff := cmp.Diff([]string{"Deny policy/capped: at most 0"}, verdict(p)); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	caps.Data["max"] = "many"
	if err := cluster.Client().Update(ctx, caps); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		if said := verdict(p); len(said) != 1 || !strings.HasPrefix(said[0], `Deny policy/capped: the policy is invalid: spec.params.configMap`) {
			return fmt.Errorf("with a cap that is no number: %q", said)
		}
		return nil
	})
	if err := cluster.Client().Delete(ctx, caps); err != nil {
		t.Fatal(err)
	}
	soonActive(t, p, "capped"+missing)

	// A new policy does not compile the others again.
	compiled := p.Compiled()[0].Policy
	write("other", `{enforcement: Warn, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`)
	soonActive(t, p, "capped"+missing, "other")
	if p.Compiled()[0].Policy != compiled {
		t.Error("a policy was compiled again because another one came")
	}
}

// grant gives the user reader rights, and waits until the API server knows: in a namespace, or everywhere.
func grant(t *testing.T, cluster *controlplane.ControlPlane, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: "reader", Namespace: namespace}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}}
	var err error
	if namespace == "" {
		err = errors.Join(cluster.Client().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}),
			cluster.Client().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"}}))
	} else {
		err = errors.Join(cluster.Client().Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}),
			cluster.Client().Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"}}))
	}
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "reader", ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
		}}}
		if err := cluster.Client().Create(ctx, review); err != nil || !review.Status.Allowed {
			return fmt.Errorf("the rights are not known yet, or %v", apierrors.ReasonForError(err))
		}
		return nil
	})
}

// fakePolicies are on a client without an API server, which does not validate objects.
func fakePolicies(t *testing.T, objects ...runtime.Object) (*Policies, dynamic.ResourceInterface) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		virtualMachinePolicies: "VirtualMachinePolicyList", configMapResource: "ConfigMapList",
	}, objects...)
	p, err := NewPolicies(client, policiesOptions(t, "params"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, client.Resource(virtualMachinePolicies)
}

// What of a policy cannot be read, although an API server let it pass, makes it one that cannot be evaluated; where it
// is evaluated, and its enforcement, are decoded anyway.
func TestAPolicyThatCannotBeReadAffectsNoOther(t *testing.T) {
	good := policyObject(t, "good", `{enforcement: Warn, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`)
	odd := policyObject(t, "odd", `{enforcement: Deny, failurePolicy: Ignore, validations: [{expression: "1 > 2", message: never, fieldPath: spec}],
	  exceptions: [{names: [x], reason: r, expires: tomorrow}]}`)
	p, _ := fakePolicies(t, good, odd)
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	got := activeNow(p)
	if len(got) != 2 || got[0] != "good" || !strings.HasPrefix(got[1], `odd; spec.exceptions: it cannot be read: parsing time "tomorrow"`) {
		t.Errorf("active %q", got)
	}
	said := verdict(p)
	if len(said) != 2 || !strings.HasPrefix(said[0], "Warn policy/good: never") || !strings.HasPrefix(said[1], "Warn policy/odd: the policy is invalid: spec.exceptions: it cannot be read") {
		t.Errorf("verdict %q", said)
	}
}

// Of the policies that do not deny, only so much is compiled as there is memory for: the youngest are left out, and those
// that deny never are.
func TestThereIsRoomForSoMuch(t *testing.T) {
	values := strings.Repeat("x", 60<<10)
	sized := func(name, enforcement string, age int) *unstructured.Unstructured {
		policy := policyObject(t, name, `{enforcement: `+enforcement+`, params: {values: {a: `+values+`}}, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`)
		policy.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, age, 0, time.UTC)))
		return policy
	}
	objects := []runtime.Object{sized("a-young", "Audit", 20), sized("denies", "Deny", 30)}
	for i := range 12 {
		objects = append(objects, sized(fmt.Sprintf("old-%d", i), "Warn", i))
	}
	p, client := fakePolicies(t, objects...)
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	const why = "spec: the policies that do not deny have more than 786432 bytes of expressions, modules and parameters together: this one is not compiled"
	want := []string{"a-young; " + why, "denies", "old-0", "old-1", "old-10", "old-11", "old-2", "old-3", "old-4", "old-5", "old-6", "old-7", "old-8", "old-9"}
	if diff := cmp.Diff(want, activeNow(p)); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
	for enforcement, rejected := range map[string]bool{"Audit": true, "Deny": false} {
		wanted := &policyv1alpha1.VirtualMachinePolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sized("new", enforcement, 0).Object, wanted); err != nil {
			t.Fatal(err)
		}
		wanted.CreationTimestamp = metav1.Time{}
		if _, problems := p.Compile(wanted); diagnostics.Broken(problems) != rejected {
			t.Errorf("another policy of enforcement %s has the problems %v", enforcement, problems)
		}
	}
	if err := client.Delete(t.Context(), "old-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		if got := activeNow(p); got[0] != "a-young" {
			return fmt.Errorf("one that went made no room: %s", got[0])
		}
		return nil
	})
}

// Of the stored policies that do not deny, the specs of only so many are kept. Which of them are compiled depends only on their
// age: the oldest ones are, in any order of names, and their specs are read.
func TestManyLargePoliciesAreNotKept(t *testing.T) {
	const many, compiled = 60, 12
	var selector strings.Builder
	for i := range 32 {
		fmt.Fprintf(&selector, "{key: example.com/k%d, operator: NotIn, values: [", i)
		for j := range 256 {
			fmt.Fprintf(&selector, "%s-%d,", strings.Repeat("v", 40), j)
		}
		selector.WriteString("]},")
	}
	var objects []runtime.Object
	want := []string{}
	for i := range many {
		policy := policyObject(t, fmt.Sprintf("p-%02d", i), `{enforcement: Audit, match: {namespaceSelector: {matchExpressions: [`+selector.String()+`]}}, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`)
		policy.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, many-i, 0, time.UTC))) // the last name is the oldest
		objects = append(objects, policy)
		if i >= many-compiled {
			want = append(want, policy.GetName())
		}
	}
	p, client := fakePolicies(t, objects...)
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	evaluated := func() (names []string) {
		for _, c := range p.Compiled() {
			if c.Policy.Broken() == "" {
				names = append(names, c.Object.Name)
			}
		}
		return names
	}
	if diff := cmp.Diff(want, evaluated()); diff != "" {
		t.Errorf("compiled (-want +got):\n%s", diff)
	}
	if used := p.memory.Used(); used == 0 || used > MaxPolicies {
		t.Errorf("the specs that are kept have %d bytes", used)
	}
	kept := 0
	for _, stored := range p.informer.GetStore().List() {
		if !stored.(*entry[policyRead]).object.Unkept {
			kept++
		}
	}
	if kept < 10 || kept >= many-compiled {
		t.Fatalf("%d specs are kept: the test needs some, and none of the oldest", kept)
	}
	if err := client.Delete(t.Context(), "p-59", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want = append([]string{fmt.Sprintf("p-%02d", many-compiled-1)}, want[:compiled-1]...)
	await.Until(t, func() error {
		if diff := cmp.Diff(want, evaluated()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// A thousand changes at once are compiled a few times, and not a thousand times.
func TestManyPoliciesAtOnceAreCompiledTogether(t *testing.T) {
	const many = 90 // what the client can hold
	p, client := fakePolicies(t)
	var told []int
	written := make(chan struct{})
	p.OnChange(func(c Change) {
		if told = append(told, len(c.Objects)); len(told) == 2 {
			<-written // it takes a while to compile the first of them
		}
	})
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	for i := range many {
		if _, err := client.Create(t.Context(), policyObject(t, fmt.Sprintf("p-%d", i), `{enforcement: Warn, validations: [{expression: "1 > 2", message: never, fieldPath: spec}]}`), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	close(written)
	await.Until(t, func() error {
		if n := len(p.Compiled()); n != many {
			return fmt.Errorf("%d policies of %d are active", n, many)
		}
		return nil
	})
	if said := verdict(p); len(said) != many {
		t.Errorf("%d findings of %d policies", len(said), many)
	}
	await.Until(t, func() error { // the last change is reported after it is active
		p.rebuilding.Lock()
		defer p.rebuilding.Unlock()
		if len(told) > 6 || told[len(told)-1] != many {
			return fmt.Errorf("%d policies were put active in the steps %v", many, told)
		}
		return nil
	})
}

// Without the kind there are no policies, and nothing to wait for.
func TestWithoutTheKindThereAreNoPolicies(t *testing.T) {
	p, _ := fakePolicies(t)
	gone := apierrors.NewNotFound(virtualMachinePolicies.GroupResource(), "")
	p.watchFailed(t.Context(), nil, gone)
	if err := p.Ready(); err == nil || err.Error() != "the ConfigMaps of namespace params have not been read yet" {
		t.Errorf("ready before the parameters are read: %v", err)
	}
	await.Run(t, p.Run)
	await.Until(t, p.Ready)
	if said := verdict(p); said != nil || p.Current().ReadsNamespaces() {
		t.Errorf("verdict %q", said)
	}
}
