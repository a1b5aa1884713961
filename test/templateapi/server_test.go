package templateapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// fixture is a real control plane with the aggregated API.
type fixture struct {
	*controlplane.ControlPlane

	t *testing.T
}

// TestServer serves the API behind a real API server, to users with RBAC rights.
func TestServer(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{})
	f.namespaces("templates", "shop")
	f.template("templates", "fedora")
	t.Run("wire", f.wire)
	t.Run("permissions", f.permissions)
	t.Run("create", f.create)
	t.Run("another namespace", f.otherNamespace)
	t.Run("policies of the cluster", f.policies)
	t.Run("mutations of the cluster", f.mutations)
	t.Run("answers", f.answers)
	t.Run("discovery", f.discovery)
	t.Run("OpenAPI", f.openapi)
	t.Run("documented examples", f.documented)
}

// start starts a control plane with the API, by values of the chart below templates.
func start(t *testing.T, templates map[string]any) *fixture {
	t.Helper()
	f := prepare(t)
	f.install(templates)
	return f
}

// prepare starts a control plane without the API.
func prepare(t *testing.T) *fixture {
	t.Helper()
	return &fixture{pool.Take(t), t}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) ensure(objects ...client.Object) {
	f.t.Helper()
	for _, object := range objects {
		f.must(f.Client().Create(f.t.Context(), object))
	}
}

func (f *fixture) namespaces(names ...string) {
	for _, name := range names {
		f.must(f.EnsureNamespace(f.t.Context(), name))
	}
}

func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: strings.Split(resources, ","), ResourceNames: names}
}

// install installs the chart, and waits until the API is served.
func (f *fixture) install(templates map[string]any) {
	templates["mode"] = "manage"
	_, err := f.InstallVirtward(f.t.Context(), map[string]any{"templates": templates}, controlplane.Workload{})
	f.must(err)
	await.Until(f.t, func() error {
		_, err := f.post(f.Config(), "default", "none", subresources.Process, nil, "")
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "none") {
			return fmt.Errorf("not served yet: %w", err)
		}
		return nil
	})
}

// post calls a subresource.
func (f *fixture) post(config *rest.Config, namespace, name, subresource string, options *subresources.ProcessOptions, query string) (*subresources.ProcessedVirtualMachineTemplate, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &subresources.V1Beta1, "/apis", scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	f.must(err)
	if options == nil {
		options = &subresources.ProcessOptions{}
	}
	body, err := json.Marshal(options)
	f.must(err)
	request := c.Post().Namespace(namespace).Resource(subresources.Resource).Name(name).SubResource(subresource).Body(body).SetHeader("Content-Type", "application/json")
	for _, pair := range strings.Fields(query) {
		key, value, _ := strings.Cut(pair, "=")
		request.Param(key, value)
	}
	result := request.Do(f.t.Context())
	if err := result.Error(); err != nil {
		return nil, err
	}
	answer, err := result.Raw()
	f.must(err)
	processed := &subresources.ProcessedVirtualMachineTemplate{}
	f.must(json.Unmarshal(answer, processed))
	return processed, nil
}

func (f *fixture) template(namespace, name string) {
	template := &unstructured.Unstructured{}
	f.must(yaml.Unmarshal([]byte(`
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
spec:
  message: made ${NAME}
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}
  parameters: [{name: NAME, required: true}]
`), &template.Object))
	template.SetNamespace(namespace)
	template.SetName(name)
	f.ensure(template)
}

// user has a role in some namespaces.
func (f *fixture) user(name string, rules []rbacv1.PolicyRule, namespaces ...string) *rest.Config {
	f.t.Helper()
	f.grant(name, rules, namespaces...)
	config, err := f.UserConfig(name)
	f.must(err)
	return config
}

// grant binds a user to rules in namespaces.
func (f *fixture) grant(name string, rules []rbacv1.PolicyRule, namespaces ...string) {
	f.t.Helper()
	for _, namespace := range namespaces {
		f.ensure(
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}},
		)
		for i := range rules {
			f.awaitAllowed(name, namespace, &rules[i])
		}
	}
}

// awaitAllowed waits until the API server knows a new role: the aggregated API caches a denial for ten seconds.
func (f *fixture) awaitAllowed(user, namespace string, rule *rbacv1.PolicyRule) {
	f.t.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	await.Until(f.t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes}}
		if err := f.Client().Create(f.t.Context(), review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("%s is not allowed yet: %+v", user, attributes)
		}
		return nil
	})
}

func named(name string) *subresources.ProcessOptions {
	return &subresources.ProcessOptions{Parameters: map[string]string{"NAME": name}}
}

func (f *fixture) machine(namespace, name string) *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{}
	if err := f.Client().Get(f.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, vm); err != nil {
		return nil
	}
	return vm
}

func (f *fixture) permissions(t *testing.T) {
	none := f.user("none", nil, "templates")
	processes := f.user("processes", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/process")}, "templates")
	other := f.user("other", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/process,virtualmachinetemplates/create", "debian")}, "templates")
	for name, tc := range map[string]struct {
		config      *rest.Config
		subresource string
		allowed     bool
	}{
		"no permission to process": {none, subresources.Process, false},
		"no permission to create":  {none, subresources.Create, false},
		"to process":               {processes, subresources.Process, true},
		"to process only":          {processes, subresources.Create, false},
		"for another template":     {other, subresources.Process, false},
		"to create of another":     {other, subresources.Create, false},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := f.post(tc.config, "templates", "fedora", tc.subresource, named("probe"), "")
			if tc.allowed && (err != nil || answer.VirtualMachine.Name != "probe" || answer.Message != "made probe") || !tc.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
	if f.machine("templates", "probe") != nil {
		t.Error("processing created it")
	}
}

// create makes a VirtualMachine for a user who may not create one.
func (f *fixture) create(t *testing.T) {
	joe := f.user("joe", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/process,virtualmachinetemplates/create", "fedora")}, "templates")
	if _, err := f.post(joe, "templates", "fedora", subresources.Create, named("dry"), "dryRun=All"); err != nil || f.machine("templates", "dry") != nil {
		t.Errorf("in a dry run: %v, %v", err, f.machine("templates", "dry"))
	}
	answer, err := f.post(joe, "templates", "fedora", subresources.Create, named("web"), "")
	if err != nil {
		t.Fatal(err)
	}
	vm := f.machine("templates", "web")
	if vm == nil || answer.VirtualMachine.UID != vm.UID || vm.Annotations[subresources.TemplateAnnotation] != "templates/fedora" || vm.Annotations[subresources.RequesterAnnotation] != "joe" || !strings.HasPrefix(vm.Annotations[subresources.DigestAnnotation], "sha256:") {
		t.Errorf("created %+v, answered %+v", vm, answer.VirtualMachine)
	}
	if _, err := f.post(joe, "templates", "fedora", subresources.Create, named("web"), ""); !apierrors.IsAlreadyExists(err) {
		t.Errorf("again: %v", err)
	}
	direct := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "templates", Name: "direct"}}
	c, err := client.New(joe, client.Options{Scheme: f.Client().Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), direct); !apierrors.IsForbidden(err) {
		t.Errorf("directly: %v", err)
	}
}

func (f *fixture) otherNamespace(t *testing.T) {
	rules := []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/create")}
	ann := f.user("ann", rules, "templates")
	inShop := named("web")
	inShop.TargetNamespace = "shop"
	if _, err := f.post(ann, "templates", "fedora", subresources.Create, inShop, ""); !apierrors.IsForbidden(err) || f.machine("shop", "web") != nil {
		t.Errorf("without permission there: %v", err)
	}
	f.grant("ann", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/instantiate", "fedora")}, "shop")
	await.Until(t, func() error { // a denial is cached for ten seconds
		_, err := f.post(ann, "templates", "fedora", subresources.Create, inShop, "")
		return err
	})
	if vm := f.machine("shop", "web"); vm == nil || vm.Annotations[subresources.TemplateAnnotation] != "templates/fedora" {
		t.Errorf("created %+v", vm)
	}
}

// policies holds that the cluster's ValidatingAdmissionPolicies see create with its parameters.
func (f *fixture) policies(t *testing.T) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "names"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{subresources.Group}, APIVersions: []string{"*"}, Resources: []string{"virtualmachinetemplates/create"}},
		}}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "!('NAME' in object.parameters) || object.parameters['NAME'] != 'forbidden'", Message: "not this name"}},
	}}
	f.ensure(policy, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "names"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "names", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}})
	await.Until(t, func() error {
		_, err := f.post(f.Config(), "templates", "fedora", subresources.Create, named("forbidden"), "dryRun=All")
		if err == nil || !strings.Contains(err.Error(), "not this name") {
			return fmt.Errorf("not denied yet: %w", err)
		}
		return nil
	})
	if _, err := f.post(f.Config(), "templates", "fedora", subresources.Create, named("allowed"), "dryRun=All"); err != nil {
		t.Error(err)
	}
}

// mutations holds that the cluster's MutatingAdmissionPolicies change the parameters of create.
func (f *fixture) mutations(t *testing.T) {
	served, err := f.Client().RESTMapper().KindsFor(admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies"))
	if err != nil && !meta.IsNoMatchError(err) {
		t.Fatal(err)
	}
	if len(served) == 0 {
		t.Skip("this version of Kubernetes does not serve MutatingAdmissionPolicies of admissionregistration.k8s.io/v1")
	}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "prefixes"}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{subresources.Group}, APIVersions: []string{"*"}, Resources: []string{"virtualmachinetemplates/create"}},
		}}}},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "short", Expression: "object.?parameters[?'NAME'].orValue('') == 'short'"}},
		Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
			Expression: `[JSONPatch{op: "replace", path: "/parameters/NAME", value: "site-short"}]`,
		}}},
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
	}}
	f.ensure(policy, &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "prefixes"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
		PolicyName: "prefixes",
	}})
	await.Until(t, func() error {
		answer, err := f.post(f.Config(), "templates", "fedora", subresources.Create, named("short"), "dryRun=All")
		if err != nil {
			return err
		}
		if answer.VirtualMachine.Name != "site-short" {
			return fmt.Errorf("the name is %s", answer.VirtualMachine.Name)
		}
		return nil
	})
}

func (f *fixture) answers(t *testing.T) {
	_, err := f.post(f.Config(), "templates", "fedora", subresources.Create, &subresources.ProcessOptions{Parameters: map[string]string{"OTHER": "1"}}, "")
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	if s, ok := err.(apierrors.APIStatus); ok {
		status = s
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	if got := strings.Join(fields, " "); got != "parameters[OTHER] spec.parameters[0].value" || status.Status().Details.Kind != "VirtualMachineTemplate" {
		t.Errorf("causes at %s of %+v", got, status.Status().Details)
	}
	absent := named("web")
	absent.TargetNamespace = "absent"
	if _, err := f.post(f.Config(), "templates", "fedora", subresources.Create, absent, ""); !apierrors.IsNotFound(err) {
		t.Errorf("in a namespace that does not exist: %v", err)
	}
	if _, err := f.post(f.Config(), "templates", "fedora", subresources.Create, named("Not A Name"), ""); !apierrors.IsInvalid(err) {
		t.Errorf("with a name that is none: %v", err)
	}
}

func (f *fixture) discovery(t *testing.T) {
	config := rest.CopyConfig(f.Config())
	config.GroupVersion, config.NegotiatedSerializer = &subresources.V1Beta1, scheme.Codecs.WithoutConversion()
	config.APIPath = "/apis"
	c, err := rest.RESTClientFor(config)
	f.must(err)
	for path, want := range map[string]string{
		"/apis/" + subresources.Group + "/v1beta1":                                                `"name":"virtualmachinetemplates/create"`,
		"/apis/" + subresources.Group + "/v1alpha1":                                               `"name":"virtualmachinetemplates/process"`,
		"/openapi/v3/apis/" + subresources.Group + "/v1beta1":                                     "targetNamespace",
		"/apis/template.kubevirt.io/v1alpha1/namespaces/templates/virtualmachinetemplates/fedora": "made ${NAME}",
	} {
		await.Until(t, func() error { // OpenAPI follows discovery
			body, err := c.Get().AbsPath(path).Do(t.Context()).Raw()
			if err == nil && !bytes.Contains(body, []byte(want)) {
				return fmt.Errorf("%s: %.300s", path, body)
			}
			return err
		})
	}
}
