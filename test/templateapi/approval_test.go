package templateapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
)

// review calls approve or revoke.
func (f *fixture) review(config *rest.Config, namespace, name, subresource string, options any, dry bool) (*subresources.TemplateReview, error) {
	body, err := json.Marshal(options)
	f.must(err)
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &subresources.V1Beta1, "/apis", scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	f.must(err)
	request := c.Post().Namespace(namespace).Resource(subresources.Resource).Name(name).SubResource(subresource).Body(body).SetHeader("Content-Type", "application/json")
	if dry {
		request.Param("dryRun", "All")
	}
	result := request.Do(f.t.Context())
	if err := result.Error(); err != nil {
		return nil, err
	}
	answer, err := result.Raw()
	f.must(err)
	review := &subresources.TemplateReview{}
	f.must(json.Unmarshal(answer, review))
	return review, nil
}

// approve reviews a template, and approves what it has reviewed.
func (f *fixture) approve(config *rest.Config, namespace, name string, objects ...string) *subresources.TemplateReview {
	f.t.Helper()
	review, err := f.review(config, namespace, name, subresources.Approve, subresources.ApproveOptions{}, true)
	f.must(err)
	review, err = f.review(config, namespace, name, subresources.Approve, subresources.ApproveOptions{Digest: review.Digest, Message: "reviewed", ObjectParameters: objects}, false)
	f.must(err)
	return review
}

func (f *fixture) read(namespace, name string) *v1beta1.VirtualMachineTemplate {
	f.t.Helper()
	template := &v1beta1.VirtualMachineTemplate{}
	f.must(f.templates().Get(f.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, template))
	return template
}

// templates is an admin's client that knows templates.
func (f *fixture) templates() client.Client {
	f.t.Helper()
	known := f.Client().Scheme()
	f.must(v1beta1.AddToScheme(known))
	c, err := client.New(f.Config(), client.Options{Scheme: known})
	f.must(err)
	return c
}

// make creates a template with parameters in YAML.
func (f *fixture) make(namespace, name, spec string) {
	f.t.Helper()
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.must(yaml.UnmarshalStrict([]byte(spec), &template.Spec))
	f.must(f.templates().Create(f.t.Context(), template))
}

const reviewed = `
virtualMachine:
  metadata: {name: "${NAME}"}
  spec:
    runStrategy: Halted
    instancetype: {name: u1.small}
    template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}, nodeSelector: "${{SELECTOR}}", volumes: [{name: a, containerDisk: {image: "quay.io/fedora:42"}}]}}
parameters:
- {name: NAME, required: true}
- {name: SELECTOR, type: object, value: "{}"}
`

// TestApproval approves and revokes templates, and creates VirtualMachines where approval is required.
func TestApproval(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{})
	f.namespaces("catalogue", "private")
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}, Annotations: map[string]string{v1beta1.TrustedNamespacesAnnotation: "catalogue"},
	}})
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "secluded", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}}})
	t.Run("approving", f.approving)
	t.Run("permission to approve", f.approvers)
	t.Run("names of users", f.userNames)
	t.Run("enforcement", f.enforcement)
	t.Run("trusted namespaces", f.trusted)
	t.Run("given values", f.restrictions)
	t.Run("values in texts", f.structures)
	t.Run("another field manager", f.otherManager)
}

func (f *fixture) approving(t *testing.T) {
	f.t = t
	f.make("catalogue", "reviewed", reviewed)
	admin := f.Config()
	shown, err := f.review(admin, "catalogue", "reviewed", subresources.Approve, subresources.ApproveOptions{}, true)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, u := range shown.Uncovered {
		paths = append(paths, u.Path)
	}
	if got := strings.Join(paths, " "); got != "spec.virtualMachine.spec.instancetype spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image" {
		t.Errorf("uncovered: %s", got)
	}
	if shown.Approved || strings.Join(shown.ObjectParameters, " ") != "SELECTOR" || !strings.HasPrefix(shown.Digest, "sha256:") || shown.TemplateRef.Name != "reviewed" || shown.Kind != "TemplateReview" {
		t.Errorf("the review %+v", shown)
	}
	if status := f.read("catalogue", "reviewed").Status; status.Approval != nil || len(status.Conditions) > 0 {
		t.Errorf("the dry run wrote %+v", status)
	}
	for name, tc := range map[string]struct {
		options subresources.ApproveOptions
		check   func(error) bool
		want    string
	}{
		"no digest":            {subresources.ApproveOptions{ObjectParameters: []string{"SELECTOR"}}, apierrors.IsInvalid, "digest: "},
		"another digest":       {subresources.ApproveOptions{Digest: "sha256:abc", ObjectParameters: []string{"SELECTOR"}}, apierrors.IsConflict, "its digest is " + shown.Digest},
		"no acknowledgement":   {subresources.ApproveOptions{Digest: shown.Digest}, apierrors.IsInvalid, "objectParameters: acknowledge parameter SELECTOR"},
		"another parameter":    {subresources.ApproveOptions{Digest: shown.Digest, ObjectParameters: []string{"SELECTOR", "NAME"}}, apierrors.IsInvalid, "objectParameters[1]: NAME is not a parameter of type object"},
		"a message too long":   {subresources.ApproveOptions{Digest: shown.Digest, ObjectParameters: []string{"SELECTOR"}, Message: strings.Repeat("a", 1025)}, apierrors.IsInvalid, "message: "},
		"a body of other kind": {subresources.ApproveOptions{TypeMeta: metav1.TypeMeta{APIVersion: subresources.V1Beta1.String(), Kind: "ProcessOptions"}}, apierrors.IsBadRequest, ""},
	} {
		if _, err := f.review(admin, "catalogue", "reviewed", subresources.Approve, tc.options, false); !tc.check(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.review(admin, "catalogue", "absent", subresources.Approve, subresources.ApproveOptions{Digest: "sha256:abc"}, false); !apierrors.IsNotFound(err) {
		t.Errorf("a template that does not exist: %v", err)
	}
	answer := f.approve(admin, "catalogue", "reviewed", "SELECTOR")
	template := f.read("catalogue", "reviewed")
	if a := template.Status.Approval; !answer.Approved || a == nil || a.Digest != shown.Digest || a.ApprovedBy != "sandbox-admin" || a.Message != "reviewed" || a.ApprovedAt.IsZero() {
		t.Errorf("answer %+v, status %+v", answer, template.Status)
	}
	if c := template.Status.Conditions; len(c) != 1 || c[0].Type != "Approved" || c[0].Status != metav1.ConditionTrue || c[0].ObservedGeneration != template.Generation {
		t.Errorf("conditions %+v", c)
	}
	for _, entry := range template.ManagedFields {
		if entry.Subresource == "status" && entry.Manager != v1beta1.ApprovalFieldOwner {
			t.Errorf("the status has the manager %s", entry.Manager)
		}
	}
	f.awaitEvent("catalogue", "reviewed", "Approved", "sandbox-admin approved the digest "+shown.Digest)

	revoked, err := f.review(admin, "catalogue", "reviewed", subresources.Revoke, subresources.RevokeOptions{Message: "old image"}, false)
	if err != nil || revoked.Approved || revoked.Approval != nil {
		t.Errorf("revoked: %+v, %v", revoked, err)
	}
	template = f.read("catalogue", "reviewed")
	if c := template.Status.Conditions; template.Status.Approval != nil || len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != "Revoked" || !strings.Contains(c[0].Message, "old image") {
		t.Errorf("after the end of the approval: %+v", template.Status)
	}
	f.awaitEvent("catalogue", "reviewed", "Revoked", "old image")
}

func (f *fixture) awaitEvent(namespace, name, reason, text string) {
	f.t.Helper()
	await.Until(f.t, func() error {
		list := &corev1.EventList{}
		if err := f.Client().List(f.t.Context(), list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s among %d", reason, len(list.Items))
	})
}

// approvers holds that approving and revoking need permissions of their own, which can be for some templates only.
func (f *fixture) approvers(t *testing.T) {
	f.t = t
	f.make("catalogue", "one", reviewed)
	f.make("catalogue", "two", reviewed)
	user := f.user("author", []rbacv1.PolicyRule{
		rule("*", "template.kubevirt.io", "virtualmachinetemplates"), rule("create", subresources.Group, "virtualmachinetemplates/process,virtualmachinetemplates/create"),
	}, "catalogue")
	approver := f.user("approver", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/approve", "one")}, "catalogue")
	for _, subresource := range []string{subresources.Approve, subresources.Revoke} {
		if _, err := f.review(user, "catalogue", "one", subresource, map[string]any{}, true); !apierrors.IsForbidden(err) {
			t.Errorf("%s by an author: %v", subresource, err)
		}
	}
	f.approve(approver, "catalogue", "one", "SELECTOR")
	if by := f.read("catalogue", "one").Status.Approval.ApprovedBy; by != "approver" {
		t.Errorf("approved by %s", by)
	}
	if _, err := f.review(approver, "catalogue", "two", subresources.Approve, subresources.ApproveOptions{}, true); !apierrors.IsForbidden(err) {
		t.Errorf("another template: %v", err)
	}
	if _, err := f.review(approver, "catalogue", "one", subresources.Revoke, subresources.RevokeOptions{}, false); !apierrors.IsForbidden(err) {
		t.Errorf("revoking without its permission: %v", err)
	}
}

// into creates a VirtualMachine in a namespace.
func (f *fixture) into(config *rest.Config, template, target string, values map[string]string) error {
	namespace, name, _ := strings.Cut(template, "/")
	_, err := f.post(config, namespace, name, subresources.Create, &subresources.ProcessOptions{Parameters: values, TargetNamespace: target}, "")
	return err
}

// userNames holds that a user whose name cannot be stored as it is neither creates, approves nor revokes anything: policies would compare
// the beginning of the name.
func (f *fixture) userNames(t *testing.T) {
	f.t = t
	f.make("catalogue", "names", reviewed)
	digest := f.approve(f.Config(), "catalogue", "names", "SELECTOR").Digest
	named := func(name string) *rest.Config {
		config := rest.CopyConfig(f.Config())
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
		return config
	}
	longest, longer := strings.Repeat("u", 1011)+"@example.com", strings.Repeat("u", 1088)+"@example.com"
	if err := f.into(named(longest[:1023]), "catalogue/names", "private", map[string]string{"NAME": "longest"}); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	if vm := f.machine("private", "longest"); vm == nil || vm.Annotations[subresources.RequesterAnnotation] != longest[:1023] {
		t.Errorf("created %+v", vm)
	}
	if err := f.into(named(longer), "catalogue/names", "private", map[string]string{"NAME": "longer"}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "user.name: your user name has 1100 bytes") || f.machine("private", "longer") != nil {
		t.Errorf("create: %v", err)
	}
	for subresource, options := range map[string]any{subresources.Approve: subresources.ApproveOptions{Digest: digest, ObjectParameters: []string{"SELECTOR"}}, subresources.Revoke: subresources.RevokeOptions{}} {
		if _, err := f.review(named(longer), "catalogue", "names", subresource, options, false); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "user.name: your user name has 1100 bytes") {
			t.Errorf("%s: %v", subresource, err)
		}
	}
	if approval := f.read("catalogue", "names").Status.Approval; approval == nil || strings.HasPrefix(approval.ApprovedBy, "u") {
		t.Errorf("the approval is now %+v", approval)
	}
}

// enforcement holds that nothing but the approved spec makes a VirtualMachine where approval is required.
func (f *fixture) enforcement(t *testing.T) {
	f.t = t
	f.make("catalogue", "enforced", reviewed)
	user := f.user("joe", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/create")}, "catalogue")
	f.grant("joe", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/instantiate")}, "strict", "private")
	denied := func(step, name, want string) {
		t.Helper()
		err := f.into(user, "catalogue/enforced", "strict", map[string]string{"NAME": name})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) || f.machine("strict", name) != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	denied("never approved", "never", "namespace strict requires approved templates, and template catalogue/enforced is not approved; an approver must approve the digest sha256:")
	if err := f.into(user, "catalogue/enforced", "private", map[string]string{"NAME": "free"}); err != nil {
		t.Errorf("where no approval is required: %v", err)
	}
	f.approve(f.Config(), "catalogue", "enforced", "SELECTOR")
	if err := f.into(user, "catalogue/enforced", "strict", map[string]string{"NAME": "approved"}); err != nil {
		t.Errorf("approved: %v", err)
	}
	if vm := f.machine("strict", "approved"); vm == nil || vm.Annotations[subresources.RequesterAnnotation] != "joe" {
		t.Errorf("created %+v", vm)
	}
	template := f.read("catalogue", "enforced")
	template.Labels = map[string]string{"a": "b"}
	f.must(f.templates().Update(t.Context(), template))
	if err := f.into(user, "catalogue/enforced", "strict", map[string]string{"NAME": "labelled"}); err != nil {
		t.Errorf("with another label: %v", err)
	}
	original := template.Spec.Message
	template.Spec.Message = "edited"
	f.must(f.templates().Update(t.Context(), template))
	denied("edited after the approval", "edited", "template catalogue/enforced changed after its approval")
	template = f.read("catalogue", "enforced")
	if c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateApproved); c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1beta1.ReasonChanged || template.Status.Approval == nil {
		t.Errorf("the condition after an edit: %+v", template.Status)
	}
	template.Spec.Message = original
	f.must(f.templates().Update(t.Context(), template))
	if err := f.into(user, "catalogue/enforced", "strict", map[string]string{"NAME": "restored"}); err != nil {
		t.Errorf("with the approved spec again: %v", err)
	}
	if _, err := f.review(f.Config(), "catalogue", "enforced", subresources.Revoke, subresources.RevokeOptions{}, false); err != nil {
		t.Fatal(err)
	}
	denied("after the end of the approval", "revoked", "is not approved")
	f.approve(f.Config(), "catalogue", "enforced", "SELECTOR")
	// A template of the same name and spec, with the status of the approved one.
	approved := f.read("catalogue", "enforced")
	f.must(f.templates().Delete(t.Context(), approved))
	again := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "enforced"}, Spec: approved.Spec}
	f.must(f.templates().Create(t.Context(), again))
	again.Status = approved.Status
	f.unguarded(func() error { return f.templates().Status().Update(t.Context(), again) })
	denied("created again", "again", "its signature is not valid for this template and this approval")
	if err := f.into(user, "catalogue/enforced", "absent", map[string]string{"NAME": "a"}); !apierrors.IsForbidden(err) {
		t.Errorf("a namespace without permission, which does not exist: %v", err)
	}
	for _, target := range []string{"../strict", "Strict", strings.Repeat("a", 64)} {
		if err := f.into(f.Config(), "catalogue/enforced", target, map[string]string{"NAME": "a"}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "targetNamespace") {
			t.Errorf("namespace %s: %v", target, err)
		}
	}
}

// unguarded writes the status of a template, which the guard denies, as in a cluster without it.
func (f *fixture) unguarded(write func() error) {
	f.t.Helper()
	if err := write(); err == nil {
		return
	} else if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only Virtward writes") {
		f.t.Fatalf("the guard answers %v", err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "virtward-template-status"}}
	f.must(f.Client().Delete(f.t.Context(), binding))
	await.Until(f.t, write)
}

// trusted holds which namespaces' templates a namespace takes.
func (f *fixture) trusted(t *testing.T) {
	f.t = t
	for _, namespace := range []string{"private", "secluded", "strict"} {
		f.make(namespace, "own", reviewed)
		f.approve(f.Config(), namespace, "own", "SELECTOR")
	}
	f.make("catalogue", "own", reviewed)
	f.approve(f.Config(), "catalogue", "own", "SELECTOR")
	for _, tc := range []struct {
		from, to string
		denied   string
	}{
		{"catalogue", "strict", ""},
		{"strict", "strict", ""},
		{"secluded", "secluded", ""},
		{"private", "private", ""},
		{"private", "strict", "namespace strict does not trust templates of namespace private; it trusts: strict, catalogue"},
		{"catalogue", "secluded", "namespace secluded does not trust templates of namespace catalogue; it trusts: secluded"},
	} {
		err := f.into(f.Config(), tc.from+"/own", tc.to, map[string]string{"NAME": "from-" + tc.from})
		if tc.denied == "" && err != nil || tc.denied != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.denied)) {
			t.Errorf("from %s to %s: %v", tc.from, tc.to, err)
		}
	}
	// A template can name the namespace of its VirtualMachine.
	f.make("private", "named", strings.Replace(reviewed, `metadata: {name: "${NAME}"}`, `metadata: {name: "${NAME}", namespace: "${NS}"}`, 1)+"- {name: NS, value: strict}\n")
	f.approve(f.Config(), "private", "named", "SELECTOR")
	if err := f.into(f.Config(), "private/named", "", map[string]string{"NAME": "named"}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not trust") {
		t.Errorf("into the namespace of the rendered VirtualMachine: %v", err)
	}
}

// restrictions holds that given values cannot change an approved template's VirtualMachine beyond its parameters.
func (f *fixture) restrictions(t *testing.T) {
	f.t = t
	f.make("catalogue", "values", strings.Replace(reviewed, "instancetype: {name: u1.small}", `instancetype: "${{TYPE}}"`, 1)+"- {name: TYPE, value: '{\"name\": \"u1.small\"}'}\n")
	f.approve(f.Config(), "catalogue", "values", "SELECTOR")
	smuggled := map[string]string{"NAME": "smuggled", "TYPE": `{"name":"u1.small","kind":"VirtualMachineInstancetype"}`}
	if err := f.into(f.Config(), "catalogue/values", "strict", smuggled); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "parameters[TYPE]") {
		t.Errorf("a value that adds fields: %v", err)
	}
	if err := f.into(f.Config(), "catalogue/values", "private", smuggled); err != nil {
		t.Errorf("where no approval is required: %v", err)
	}
	if err := f.into(f.Config(), "catalogue/values", "strict", map[string]string{"NAME": "selected", "SELECTOR": `{"kubernetes.io/arch":"amd64"}`}); err != nil {
		t.Errorf("a parameter of type object: %v", err)
	}
	if vm := f.machine("strict", "selected"); vm == nil || vm.Spec.Template.Spec.NodeSelector["kubernetes.io/arch"] != "amd64" {
		t.Errorf("created %+v", vm)
	}
}

const guest = `
virtualMachine:
  metadata: {name: "${NAME}"}
  spec:
    runStrategy: Halted
    template:
      metadata: {annotations: {example.com/users: '[{"name":"${CORE}"}]'}}
      spec:
        domain: {memory: {guest: 1Gi}, devices: {}}
        hostname: "${{HOST}}"
        volumes:
        - name: config
          cloudInitNoCloud:
            userData: |
              #cloud-config
              users:
              - ${USER}
              - {name: joe, plain_text_passwd: "${PASSWORD}"}
            networkDataBase64: ${NETWORK}
        - name: script
          cloudInitConfigDrive: {userData: "${{SCRIPT}}"}
parameters:
- {name: NAME, required: true, pattern: '[a-z]+'}
- {name: CORE, value: core}
- {name: HOST, value: a, pattern: '[a-z]+'}
- {name: USER, value: ann}
- {name: PASSWORD, value: secret}
- {name: NETWORK, value: dmVyc2lvbjogMg==, pattern: '[A-Za-z0-9+/=]*'}
- {name: SCRIPT, value: '"#!/bin/sh\necho hello"', pattern: '(?s)#!/bin/sh\necho [a-z ]*'}
`

// structures holds that given values are validated as they are used, and change no structure of a text where approval is
// required.
func (f *fixture) structures(t *testing.T) {
	f.t = t
	f.make("catalogue", "guest", guest)
	shown := f.approve(f.Config(), "catalogue", "guest")
	var lines []string
	for _, u := range shown.Uncovered {
		lines = append(lines, u.Path+": "+u.Reason)
	}
	const limits = "no type, enum or pattern limits what users write in this text with "
	want := []string{
		"spec.virtualMachine.spec.template.metadata.annotations[example.com/users]: " + limits + "CORE",
		"spec.virtualMachine.spec.template.spec.volumes[0].cloudInitNoCloud.userData: " + limits + "PASSWORD, USER",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the review (-want +got):\n%s", diff)
	}
	for i, tc := range []struct{ parameter, value, denied string }{
		{"SCRIPT", `"#!/bin/sh\ncurl http://a \u007csh"`, "it must match"},
		{"HOST", `"A"`, "it must match"},
		{"HOST", `"\u0041"`, "it must match"},
		{"USER", "{name: root2, sudo: 'ALL=(ALL) NOPASSWD:ALL'}", "it changes the structure of the text: spec.virtualMachine.spec.template.spec.volumes[0].cloudInitNoCloud.userData"},
		{"USER", "[a, b]", "it changes the structure of the text"},
		{"PASSWORD", `a", sudo: "ALL`, "it changes the structure of the text"},
		{"PASSWORD", `a\nb`, "it is read as another text"},
		{"CORE", `core","groups":"sudo`, "it changes the structure of the text"},
		{"NETWORK", "dmVyc2lvbjogMQo=", "only values of an enum are allowed"},
		{"USER", "eve", ""},
		{"PASSWORD", "it's: {fine} #1", ""},
		{"CORE", "core 2", ""},
		{"HOST", `"b"`, ""},
		{"SCRIPT", `"#!/bin/sh\necho good morning"`, ""},
	} {
		name := "guest" + strings.Repeat("x", i)
		values := map[string]string{"NAME": name, tc.parameter: tc.value}
		err := f.into(f.Config(), "catalogue/guest", "strict", values)
		switch {
		case tc.denied == "":
			if err != nil {
				t.Errorf("%s=%s: %v", tc.parameter, tc.value, err)
			}
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "parameters["+tc.parameter+"]") || !strings.Contains(err.Error(), tc.denied) || f.machine("strict", name) != nil:
			t.Errorf("%s=%s: %v", tc.parameter, tc.value, err)
		}
	}
	if err := f.into(f.Config(), "catalogue/guest", "private", map[string]string{"NAME": "unlimited", "USER": "{name: root2}", "CORE": `core","groups":"sudo`}); err != nil {
		t.Errorf("where no approval is required: %v", err)
	}
}

// otherManager holds that the end of an approval does not depend on who else wrote it.
func (f *fixture) otherManager(t *testing.T) {
	f.t = t
	f.make("catalogue", "shared", reviewed)
	f.approve(f.Config(), "catalogue", "shared", "SELECTOR")
	template := f.read("catalogue", "shared")
	body, err := json.Marshal(map[string]any{"status": map[string]any{"approval": map[string]any{"message": "also mine"}}})
	f.must(err)
	f.unguarded(func() error {
		return f.templates().Status().Patch(t.Context(), template, client.RawPatch(types.MergePatchType, body), client.FieldOwner("kubectl-edit"))
	})
	if _, err := f.review(f.Config(), "catalogue", "shared", subresources.Revoke, subresources.RevokeOptions{}, false); err != nil {
		t.Fatal(err)
	}
	if a := f.read("catalogue", "shared").Status.Approval; a != nil {
		t.Errorf("the approval stays: %+v", a)
	}
}

// TestRequireApproval holds that the setting of the cluster requires approval in every namespace.
func TestRequireApproval(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{"requireApproval": true})
	f.namespaces("catalogue", "private")
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "listing", Annotations: map[string]string{v1beta1.TrustedNamespacesAnnotation: "catalogue"}}})
	f.make("catalogue", "one", reviewed)
	f.make("private", "one", reviewed)
	for step, tc := range map[string]struct{ from, to string }{"its own namespace": {"private", ""}, "another namespace": {"catalogue", "private"}} {
		if err := f.into(f.Config(), tc.from+"/one", tc.to, map[string]string{"NAME": "a"}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "this cluster requires approved templates") {
			t.Errorf("%s: %v", step, err)
		}
	}
	f.approve(f.Config(), "catalogue", "one", "SELECTOR")
	f.approve(f.Config(), "private", "one", "SELECTOR")
	for _, tc := range []struct {
		from, to string
		denied   bool
	}{{"catalogue", "private", false}, {"private", "private", false}, {"catalogue", "listing", false}, {"private", "listing", true}} {
		if err := f.into(f.Config(), tc.from+"/one", tc.to, map[string]string{"NAME": "from-" + tc.from}); tc.denied != apierrors.IsForbidden(err) || !tc.denied && err != nil {
			t.Errorf("from %s to %s: %v", tc.from, tc.to, err)
		}
	}
}
