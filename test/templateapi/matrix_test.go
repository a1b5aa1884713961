package templateapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/build"
)

// The template of the matrix. SELECTOR and TEXT are not of type object, and TEXT has no constraint.
const parameterized = `
message: Log in.
virtualMachine:
  metadata: {name: "${NAME}"}
  spec:
    runStrategy: Halted
    template:
      spec:
        domain: {memory: {guest: 1Gi}, devices: {}}
        nodeSelector: "${{SELECTOR}}"
        volumes: [{name: init, cloudInitNoCloud: {userData: "#cloud-config\nhostname: ${TEXT}"}}]
parameters:
- {name: NAME, required: true}
- {name: SELECTOR, value: "{}"}
- {name: TEXT, value: db}
`

// matrix is a cluster with a catalogue of templates, an approved-only namespace and another one, and a user for each role.
type matrix struct {
	*fixture

	users map[string]*rest.Config
}

// TestRoles sends each action as each user, with the ClusterRoles and the guards of the chart.
func TestRoles(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	all := []string{"viewer", "user", "author", "approver", "tenant", "outsider"}
	for _, action := range []struct {
		name string
		do   func(user string) error
		// allowed are the users who may. denied is a part of the message to the user of templates and to the tenant, who
		// has every right on virtual machines of the approved-only namespace; it is empty if RBAC denies.
		allowed []string
		denied  string
	}{
		{"read a template", m.reads, []string{"viewer", "user", "author", "approver", "tenant"}, ""},
		{"process a template", func(u string) error { return m.uses(u, subresources.Process, "approved", named("x")) }, []string{"user", "author", "approver", "tenant"}, ""},
		{"create a VM directly", m.creates, nil, "approved-only: metadata.name"},
		{"create a VM directly elsewhere", func(u string) error { return m.createsIn(u, "loose", nil) }, []string{"tenant"}, ""},
		{"create from a template", func(u string) error { return m.uses(u, subresources.Create, "approved", m.strict("made-by-"+u)) }, []string{"user", "tenant"}, ""},
		{"create from one that is not approved", m.from("unapproved"), nil, "namespace strict requires approved templates, and template catalogue/unapproved is not approved"},
		{"create from one that was edited", m.from("edited"), nil, "template catalogue/edited changed after its approval"},
		{"create from one whose approval was revoked", m.from("revoked"), nil, "template catalogue/revoked is not approved"},
		{"create from one that was created again", m.from("recreated"), nil, "template catalogue/recreated is not approved"},
		{"create from one that is not trusted", m.untrusted, nil, "namespace strict does not trust templates of namespace loose"},
		{"smuggle a field", m.given("SELECTOR", `{"kubernetes.io/hostname":"node-1"}`), nil, "parameters[SELECTOR]"},
		{"smuggle a line", m.given("TEXT", "db\nruncmd: [reboot]"), nil, "parameters[TEXT]"},
		{"give a parameter that there is not", m.given("OTHER", "1"), nil, "parameters[OTHER]"},
		{"approve", m.approves, []string{"approver"}, ""},
		{"approve by the status", m.patches("catalogue", "VirtualMachineTemplate", "unapproved", "status", `{"status":{"approval":{"digest":"sha256:1","approvedBy":"x","approvedAt":"2026-01-01T00:00:00Z"}}}`), nil, ""},
		{"edit a template", m.patches("catalogue", "VirtualMachineTemplate", "unapproved", "", `{"spec":{"message":"x"}}`), []string{"author"}, ""},
		{"forge the provenance at the creation", func(u string) error {
			return m.createsIn(u, "loose", map[string]string{subresources.RequesterAnnotation: "admin"})
		}, nil, "template-provenance"},
		{"forge the provenance later", m.patches("loose", "VirtualMachine", "own", "", `{"metadata":{"annotations":{"`+subresources.RequesterAnnotation+`":"admin"}}}`), nil, "template-provenance"},
		{"remove the provenance", m.patches("loose", "VirtualMachine", "own", "", `{"metadata":{"annotations":{"`+subresources.DigestAnnotation+`":null}}}`), nil, "template-provenance"},
		{"start the VM", m.patches("strict", "VirtualMachine", "web", "", `{"spec":{"runStrategy":"Always"}}`), []string{"tenant"}, ""},
		{"change the VM", m.patches("strict", "VirtualMachine", "web", "", `{"spec":{"template":{"spec":{"hostname":"x"}}}}`), nil, "approved-only: spec"},
		{"let the VM wait for another guest", m.patches("strict", "VirtualMachine", "web", "", `{"spec":{"runStrategy":"WaitAsReceiver"}}`), nil, "approved-only: spec.runStrategy"},
		{"migrate the VM", m.migrates(map[string]any{"vmiName": "web"}), []string{"tenant"}, ""},
		{"receive another guest", m.migrates(map[string]any{"vmiName": "web", "receive": map[string]any{"migrationID": "m"}}), nil, "approved-only: spec"},
		{"send the VM away", m.migrates(map[string]any{"vmiName": "web", "sendTo": map[string]any{"migrationID": "m", "connectURL": "192.0.2.1:9185"}}), nil, "approved-only: spec"},
		{"open the namespace", m.patches("", "Namespace", "strict", "", `{"metadata":{"labels":{"`+v1beta1.ApprovedOnlyLabel+`":"false"}}}`), nil, "approved-only-namespace"},
		{"trust another namespace", m.patches("", "Namespace", "strict", "", `{"metadata":{"annotations":{"`+v1beta1.TrustedNamespacesAnnotation+`":"catalogue,loose"}}}`), nil, "approved-only-namespace"},
	} {
		t.Run(action.name, func(t *testing.T) {
			for _, user := range all {
				err := action.do(user)
				switch may := slices.Contains(action.allowed, user); {
				case may && err != nil:
					t.Errorf("%s is denied: %v", user, err)
				case !may && err == nil:
					t.Errorf("%s is allowed", user)
				case !may && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
					t.Errorf("%s: %v", user, err)
				case !may && user == "tenant" && !strings.Contains(err.Error(), action.denied):
					t.Errorf("%s: got %v, want %s", user, err, action.denied)
				}
			}
		})
	}
	t.Run("copies have no provenance", m.copiesHaveNoProvenance)
	t.Run("policies see the requester", m.policiesSeeTheRequester)
	t.Run("approvals and edits at the same time", m.races)
	t.Run("the VM says who requested it", func(t *testing.T) {
		vm := m.machine("strict", "made-by-user")
		if vm == nil || vm.Annotations[subresources.RequesterAnnotation] != "user" || vm.Annotations[subresources.TemplateAnnotation] != "catalogue/approved" {
			t.Errorf("created %+v", vm)
		}
	})
}

// requesterPolicy denies two names: one to the user, and one to the account of the API.
const requesterPolicy = `
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: requesters}
spec:
  enforcement: Deny
  validations:
  - expression: "object.metadata.name != 'not-for-user' || requester != 'user'"
    message: user may not use this name
  - expression: "object.metadata.name != 'not-for-the-account' || !request.userInfo.username.endsWith(':virtward-apiserver')"
    message: the account may not use this name
`

// policiesSeeTheRequester holds that Virtward's policies evaluate the user of the API, and not its account.
func (m *matrix) policiesSeeTheRequester(t *testing.T) {
	policy := &unstructured.Unstructured{}
	m.must(yaml.Unmarshal([]byte(requesterPolicy), &policy.Object))
	m.ensure(policy)
	creates := func(user, name string) error {
		options := m.strict(name)
		_, err := m.post(m.users[user], "catalogue", "approved", subresources.Create, options, "dryRun=All")
		return err
	}
	await.Until(t, func() error {
		if err := creates("user", "not-for-user"); err == nil || !strings.Contains(err.Error(), "user may not use this name") {
			return fmt.Errorf("not denied yet: %w", err)
		}
		return nil
	})
	if err := creates("tenant", "not-for-user"); err != nil {
		t.Errorf("another user: %v", err)
	}
	if err := creates("user", "not-for-the-account"); err != nil {
		t.Errorf("the account counts as the user: %v", err)
	}
}

// copiesHaveNoProvenance creates a VM with the annotations as KubeVirt's controller, as for a clone.
func (m *matrix) copiesHaveNoProvenance(t *testing.T) {
	config, err := m.UserConfig("system:serviceaccount:kubevirt:kubevirt-controller", "system:masters")
	m.must(err)
	controller, err := client.New(config, client.Options{Scheme: m.templates().Scheme()})
	m.must(err)
	vm := build.VM("copied").Obj()
	vm.Namespace = "strict"
	vm.Annotations = map[string]string{"kept": "yes", subresources.TemplateAnnotation: "catalogue/approved", subresources.DigestAnnotation: "sha256:1", subresources.RequesterAnnotation: "user"}
	if err := controller.Create(t.Context(), vm, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if len(vm.Annotations) != 1 || vm.Annotations["kept"] != "yes" {
		t.Errorf("annotations %v", vm.Annotations)
	}
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	f := start(t, map[string]any{})
	f.namespaces("catalogue", "loose")
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}, Annotations: map[string]string{v1beta1.TrustedNamespacesAnnotation: "catalogue"},
	}})
	m := &matrix{f, map[string]*rest.Config{}}
	for _, name := range []string{"viewer", "user", "author", "approver", "tenant", "outsider"} {
		config, err := f.UserConfig(name)
		f.must(err)
		m.users[name] = config
	}
	m.bind("viewer", "catalogue", "virtward-template-viewer")
	m.bind("user", "catalogue", "virtward-template-user")
	m.bind("user", "strict", "virtward-template-user")
	m.bind("author", "catalogue", "virtward-template-author")
	m.bind("approver", "catalogue", "virtward-template-approver")
	m.bind("tenant", "catalogue", "virtward-template-user")
	m.bind("tenant", "loose", "virtward-template-author")
	m.bind("tenant", "strict", "virtward-template-author")
	machines := []rbacv1.PolicyRule{rule("get,list,create,update,patch,delete", "kubevirt.io", "*"), rule("create", "subresources.kubevirt.io", "*")}
	f.grant("tenant", machines, "strict", "loose")
	f.ensure(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "namespaces"}, Rules: []rbacv1.PolicyRule{rule("get,patch", "", "namespaces")}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant-namespaces"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "namespaces"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}}},
	)
	m.fillCatalogue()
	return m
}

// fillCatalogue creates a template for each state of an approval, and a VM of an approved one.
func (m *matrix) fillCatalogue() {
	m.t.Helper()
	for _, name := range []string{"approved", "unapproved", "edited", "revoked", "recreated"} {
		m.make("catalogue", name, parameterized)
	}
	m.make("loose", "mine", parameterized)
	approver := m.users["approver"]
	for _, name := range []string{"approved", "edited", "revoked", "recreated"} {
		await.Until(m.t, func() error { // the API server reads new roles a moment later
			_, err := m.review(approver, "catalogue", name, subresources.Approve, subresources.ApproveOptions{}, true)
			return err
		})
		m.approve(approver, "catalogue", name)
	}
	m.approve(m.Config(), "loose", "mine")
	admin := m.templates()
	edited := m.read("catalogue", "edited")
	edited.Spec.Message = "Log in as root."
	m.must(admin.Update(m.t.Context(), edited))
	_, err := m.review(approver, "catalogue", "revoked", subresources.Revoke, subresources.RevokeOptions{}, false)
	m.must(err)
	old := m.read("catalogue", "recreated")
	m.must(admin.Delete(m.t.Context(), old))
	await.Until(m.t, func() error {
		again := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "recreated"}, Spec: old.Spec}
		return admin.Create(m.t.Context(), again)
	})
	await.Until(m.t, func() error { return m.uses("user", subresources.Create, "approved", m.strict("web")) })
	await.Until(m.t, func() error {
		_, err := m.post(m.users["tenant"], "loose", "mine", subresources.Create, named("own"), "")
		return err
	})
}

// migrates creates a migration in the approved-only namespace.
func (m *matrix) migrates(spec map[string]any) func(user string) error {
	return func(user string) error {
		migration := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		migration.SetAPIVersion("kubevirt.io/v1")
		migration.SetKind("VirtualMachineInstanceMigration")
		migration.SetNamespace("strict")
		migration.SetName("of-" + user)
		return m.client(user).Create(m.t.Context(), migration, client.DryRunAll)
	}
}

func (m *matrix) bind(user, namespace, role string) {
	m.t.Helper()
	m.ensure(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user + "-" + role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

func (m *matrix) client(user string) client.Client {
	m.t.Helper()
	c, err := client.New(m.users[user], client.Options{Scheme: m.templates().Scheme()})
	m.must(err)
	return c
}

// strict are values for a VM in the approved-only namespace.
func (m *matrix) strict(name string) *subresources.ProcessOptions {
	options := named(name)
	options.TargetNamespace = "strict"
	return options
}

func (m *matrix) reads(user string) error {
	return m.client(user).Get(m.t.Context(), client.ObjectKey{Namespace: "catalogue", Name: "approved"}, &v1beta1.VirtualMachineTemplate{})
}

func (m *matrix) uses(user, subresource, template string, options *subresources.ProcessOptions) error {
	_, err := m.post(m.users[user], "catalogue", template, subresource, options, "")
	return err
}

// from creates a VM of a template in the approved-only namespace.
func (m *matrix) from(template string) func(string) error {
	return func(user string) error {
		return m.uses(user, subresources.Create, template, m.strict("made-of-"+template))
	}
}

func (m *matrix) untrusted(user string) error {
	_, err := m.post(m.users[user], "loose", "mine", subresources.Create, m.strict("made-of-mine"), "")
	return err
}

// given creates a VM of the approved template with one more value.
func (m *matrix) given(parameter, value string) func(string) error {
	return func(user string) error {
		options := m.strict("smuggled")
		options.Parameters[parameter] = value
		return m.uses(user, subresources.Create, "approved", options)
	}
}

func (m *matrix) creates(user string) error { return m.createsIn(user, "strict", nil) }

func (m *matrix) createsIn(user, namespace string, annotations map[string]string) error {
	vm := build.VM("direct").Obj()
	vm.Namespace, vm.Annotations = namespace, annotations
	return m.client(user).Create(m.t.Context(), vm, client.DryRunAll)
}

func (m *matrix) approves(user string) error {
	_, err := m.review(m.users[user], "catalogue", "approved", subresources.Approve, subresources.ApproveOptions{}, true)
	return err
}

// patches sends a merge patch of an object or of its subresource.
func (m *matrix) patches(namespace, kind, name, subresource, patch string) func(string) error {
	version := map[string]string{"VirtualMachineTemplate": "template.kubevirt.io/v1beta1", "VirtualMachine": "kubevirt.io/v1", "Namespace": "v1"}[kind]
	return func(user string) error {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
		object.SetNamespace(namespace)
		object.SetName(name)
		merge := client.RawPatch(types.MergePatchType, []byte(patch))
		if subresource == "" {
			return m.client(user).Patch(m.t.Context(), object, merge, client.DryRunAll)
		}
		return m.client(user).SubResource(subresource).Patch(m.t.Context(), object, merge, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
	}
}
