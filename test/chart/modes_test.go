package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
	charts "github.com/virtward/virtward/test/chart/helm"
	"github.com/virtward/virtward/test/controlplane"
)

// virtOperator is the field manager of KubeVirt's operator, and the value of its label.
const virtOperator = "virt-operator"

// sourceRole is the role of virt-template that the chart installs where it is absent.
const sourceRole = "virt-template-virtualmachinetemplaterequest-source-role"

// TestTemplateModes transfers VM templates from virt-operator to Virtward and back, as docs/template-api.md describes, on a
// real API server. No template is lost, and there is one manager at each moment.
func TestTemplateModes(t *testing.T) {
	started := pool.Take(t)
	m := &modes{installation: &installation{ctx: t.Context(), controlPlane: started, client: started.Client()}}
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"virt-operator installs templates", m.virtOperatorInstalls},
		{"auto observes, and says so", m.observes},
		{"manage fails, and changes nothing", m.cannotManage},
		{"approval needs Virtward's API", m.cannotApprove},
		{"templates are transferred to Virtward", m.toVirtward},
		{"an upgrade keeps them", m.upgrades},
		{"templates are transferred to virt-operator", m.toVirtOperator},
		{"uninstalling keeps virt-operator's", m.uninstalls},
	} {
		if !t.Run(step.name, step.do) {
			return // what follows builds on it
		}
	}
}

// modes is an installation beside a simulated virt-operator.
type modes struct {
	*installation

	template apitypes.UID
}

func templateNames() (definitions, services []string) {
	return []string{"virtualmachinetemplates.template.kubevirt.io", "virtualmachinetemplaterequests.template.kubevirt.io"},
		[]string{"v1alpha1.subresources.template.kubevirt.io", "v1beta1.subresources.template.kubevirt.io"}
}

// virtOperatorInstalls applies what virt-operator installs: definitions without Virtward's fields, and APIServices.
func (m *modes) virtOperatorInstalls(t *testing.T) {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	files, err := filepath.Glob(filepath.Join(root, folder, "template-definitions", "*.yaml"))
	must(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		must(t, yaml.UnmarshalStrict(content, definition))
		m.reduce(definition)
		definitions = append(definitions, definition)
	}
	must(t, m.controlPlane.InstallCRDs(m.ctx, definitions...))
	m.createServices(t)
	template := untyped("template.kubevirt.io/v1beta1", "VirtualMachineTemplate", "kept")
	template.SetNamespace(metav1.NamespaceDefault)
	template.Object["spec"] = map[string]any{"virtualMachine": map[string]any{"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}}}}
	must(t, m.client.Create(m.ctx, template))
	m.template = template.GetUID()
}

// reduce turns a definition into one of virt-operator.
func (m *modes) reduce(definition *apiextensionsv1.CustomResourceDefinition) {
	definition.Labels = map[string]string{"app.kubernetes.io/managed-by": virtOperator}
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		delete(version.Schema.OpenAPIV3Schema.Properties["status"].Properties, "approval")
		version.AdditionalPrinterColumns = nil
	}
}

func (m *modes) createServices(t *testing.T) {
	t.Helper()
	_, services := templateNames()
	for _, name := range services {
		service := untyped("apiregistration.k8s.io/v1", "APIService", name)
		service.SetLabels(map[string]string{"app.kubernetes.io/managed-by": virtOperator})
		version, group, _ := strings.Cut(name, ".")
		service.Object["spec"] = map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "kubevirt", "name": "virt-template-apiserver"},
		}
		must(t, m.client.Create(m.ctx, service, client.FieldOwner(virtOperator)))
	}
}

func (m *modes) observes(t *testing.T) {
	must(t, m.controlPlane.EnsureNamespace(m.ctx, namespace))
	must(t, m.client.Create(m.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "closed", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}}}))
	m.install(t, nil)
	m.isObserving(t)
	notes := m.helm(t, "get", "notes", release, "--namespace", namespace)
	for _, want := range []string{
		"VIRTWARD DOES NOT SERVE VM TEMPLATES", "CustomResourceDefinition virtualmachinetemplates.template.kubevirt.io (managed by virt-operator)",
		"APIService v1beta1.subresources.template.kubevirt.io (managed by virt-operator)", "configuration.virtTemplateDeployment.enabled: false",
		"THESE NAMESPACES ARE APPROVED-ONLY, AND VIRTWARD DOES NOT SERVE TEMPLATES: closed.",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q, but:\n%s", want, notes)
		}
	}
}

// isObserving fails if Virtward writes or serves anything of templates, or a template is lost.
func (m *modes) isObserving(t *testing.T) {
	t.Helper()
	m.isManagedBy(t, virtOperator, "virt-template-apiserver")
	for _, name := range []string{"virtward-apiserver", "virtward-templates"} {
		if err := m.client.Get(m.ctx, client.ObjectKey{Namespace: namespace, Name: name}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
			t.Errorf("Deployment %s: %v", name, err)
		}
		if err := m.client.Get(m.ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ServiceAccount{}); !apierrors.IsNotFound(err) {
			t.Errorf("ServiceAccount %s: %v", name, err)
		}
	}
	got := strings.Join(m.labelled(t), "\n")
	for _, guard := range []string{"capture", "request-labels"} {
		if strings.Contains(got, "virtward-template-"+guard) {
			t.Errorf("the guard %s would deny virt-template's controllers", guard)
		}
	}
	m.guardsStatuses(t)
	if !strings.Contains(got, "virtward-template-approved-only") {
		t.Error("approved-only namespaces are open")
	}
}

// guardsStatuses fails unless virt-template's controllers can write statuses, and no user the condition Approved.
func (m *modes) guardsStatuses(t *testing.T) {
	t.Helper()
	write := func(condition string) error {
		template := untyped("template.kubevirt.io/v1beta1", "VirtualMachineTemplate", "kept")
		template.SetNamespace(metav1.NamespaceDefault)
		status := `{"status":{"conditions":[{"type":"` + condition + `","status":"True","reason":"Tested","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
		return m.client.Status().Patch(m.ctx, template, client.RawPatch(apitypes.MergePatchType, []byte(status)), client.DryRunAll)
	}
	await.Until(t, func() error {
		if err := write(v1beta1.TemplateApproved); err == nil || !strings.Contains(err.Error(), "template-status-approval: ") {
			return fmt.Errorf("a user approves: %w", err)
		}
		return write(v1beta1.TemplateReady)
	})
}

// isManagedBy fails unless a manager has all objects of templates, the APIServices call its Service, and the template is
// there.
func (m *modes) isManagedBy(t *testing.T, manager, service string) {
	t.Helper()
	definitions, services := templateNames()
	for _, name := range definitions {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		must(t, m.client.Get(m.ctx, client.ObjectKey{Name: name}, definition))
		if got := definition.Labels["app.kubernetes.io/managed-by"]; got != manager || definition.DeletionTimestamp != nil {
			t.Errorf("%s: managed by %s, deleted at %v", name, got, definition.DeletionTimestamp)
		}
		_, approval := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["approval"]
		if strings.HasPrefix(name, "virtualmachinetemplates.") && approval != (manager == "Helm") {
			t.Errorf("%s: the schema has an approval: %v", name, approval)
		}
	}
	for _, name := range services {
		object := untyped("apiregistration.k8s.io/v1", "APIService", name)
		must(t, m.client.Get(m.ctx, client.ObjectKey{Name: name}, object))
		if got, _, _ := unstructured.NestedString(object.Object, "spec", "service", "name"); got != service || object.GetLabels()["app.kubernetes.io/managed-by"] != manager {
			t.Errorf("%s: Service %s, labels %v", name, got, object.GetLabels())
		}
	}
	m.isKept(t)
}

func (m *modes) isKept(t *testing.T) {
	t.Helper()
	template := untyped("template.kubevirt.io/v1beta1", "VirtualMachineTemplate", "kept")
	must(t, m.client.Get(m.ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kept"}, template))
	if template.GetUID() != m.template {
		t.Error("the template was created again")
	}
}

// upgrade runs helm upgrade with words, and returns what it says and whether it failed.
func (m *modes) upgrade(t *testing.T, words ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(m.ctx, filepath.Join("bin", "tools", "helm"), charts.WithImage(append([]string{"upgrade", release, folder, "--namespace", namespace}, words...))...)
	command.Dir = root
	command.Env = m.controlPlane.Environment(m.controlPlane.Kubeconfig())
	output, err := command.CombinedOutput()
	return string(output), err
}

func (m *modes) fails(t *testing.T, want string, words ...string) {
	t.Helper()
	said, err := m.upgrade(t, words...)
	if err == nil || !strings.Contains(said, want) {
		t.Errorf("%v, %s, want %s", err, said, want)
	}
	m.isObserving(t)
}

func (m *modes) cannotManage(t *testing.T) {
	m.fails(t, "templates.mode is manage, but another component manages the objects of VM templates", "--set", "templates.mode=manage")
}

func (m *modes) cannotApprove(t *testing.T) {
	m.fails(t, "templates.requireApproval needs Virtward to serve VM templates, but another component manages them", "--set", "templates.requireApproval=true")
}

// documented runs the kubectl commands of a section of docs/template-api.md.
func (m *modes) documented(t *testing.T, heading string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "template-api.md"))
	must(t, err)
	_, section, found := strings.Cut(string(page), "\n### "+heading+"\n")
	section, _, ended := strings.Cut(section, "\n##")
	commands := regexp.MustCompile(`(?m)kubectl (label|annotate) .*$`).FindAllString(section, -1)
	if !found || !ended || len(commands) != 2 {
		t.Fatalf("the section %q has the commands %v, not two", heading, commands)
	}
	for _, command := range commands {
		words := strings.Fields(strings.NewReplacer("RELEASE", release, "NAMESPACE", namespace).Replace(command))
		m.run(t, filepath.Join(root, "bin", "sandbox", "kubectl"), words[1:]...)
	}
}

// toVirtward follows the section. When templates are switched off, virt-operator deletes what has its label.
func (m *modes) toVirtward(t *testing.T) {
	m.documented(t, "From KubeVirt to Virtward")
	m.install(t, nil) // too early: the APIServices are virt-operator's
	m.isKept(t)
	if said := m.helm(t, "get", "notes", release, "--namespace", namespace); !strings.Contains(said, "VIRTWARD DOES NOT SERVE VM TEMPLATES") {
		t.Errorf("it manages too early:\n%s", said)
	}
	m.virtOperatorRemoves(t)
	m.isKept(t)
	foreign := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: sourceRole, Labels: map[string]string{"app.kubernetes.io/managed-by": virtOperator}}}
	must(t, m.client.Create(m.ctx, foreign))
	said, err := m.upgrade(t, "--force-conflicts")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	m.isManagedBy(t, "Helm", "virtward-apiserver")
	if rules := m.sourceRole(t); len(rules) > 0 {
		t.Errorf("the role of another component has the rules %v", rules)
	}
	must(t, m.client.Delete(m.ctx, foreign))
	must(t, m.client.Get(m.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-apiserver"}, &appsv1.Deployment{}))
}

// virtOperatorRemoves deletes the objects with virt-operator's label that it does not install.
func (m *modes) virtOperatorRemoves(t *testing.T) {
	t.Helper()
	definitions, services := templateNames()
	for kind, names := range map[string][]string{"apiextensions.k8s.io/v1 CustomResourceDefinition": definitions, "apiregistration.k8s.io/v1 APIService": services} {
		version, kind, _ := strings.Cut(kind, " ")
		for _, name := range names {
			object := untyped(version, kind, name)
			must(t, m.client.Get(m.ctx, client.ObjectKey{Name: name}, object))
			if object.GetLabels()["app.kubernetes.io/managed-by"] == virtOperator {
				must(t, m.client.Delete(m.ctx, object))
			}
		}
	}
}

func (m *modes) upgrades(t *testing.T) {
	for range 2 { // an upgrade keeps the role that the release before installed
		m.install(t, map[string]any{"templates": map[string]any{"mode": "manage", "requireApproval": true}})
		m.isManagedBy(t, "Helm", "virtward-apiserver")
		want := []rbacv1.PolicyRule{{APIGroups: []string{"template.kubevirt.io"}, Resources: []string{"virtualmachinetemplaterequests/source"}, Verbs: []string{"create"}}}
		if diff := cmp.Diff(want, m.sourceRole(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sourceRole, diff)
		}
	}
}

// sourceRole returns the rules of the role that clients of virt-template bind.
func (m *modes) sourceRole(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	must(t, m.client.Get(m.ctx, client.ObjectKey{Name: sourceRole}, role))
	return role.Rules
}

func (m *modes) toVirtOperator(t *testing.T) {
	m.install(t, map[string]any{"templates": map[string]any{"mode": "observe"}})
	m.isKept(t)
	if err := m.client.Get(m.ctx, client.ObjectKey{Name: sourceRole}, &rbacv1.ClusterRole{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: %v", sourceRole, err)
	}
	_, services := templateNames()
	for _, name := range services {
		if err := m.client.Get(m.ctx, client.ObjectKey{Name: name}, untyped("apiregistration.k8s.io/v1", "APIService", name)); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.documented(t, "From Virtward to KubeVirt")
	definitions, _ := templateNames()
	for _, name := range definitions { // virt-operator replaces the spec of the definitions with its label
		definition := &apiextensionsv1.CustomResourceDefinition{}
		must(t, m.client.Get(m.ctx, client.ObjectKey{Name: name}, definition))
		m.reduce(definition)
		must(t, m.client.Update(m.ctx, definition, client.FieldOwner(virtOperator)))
	}
	m.createServices(t)
	m.install(t, nil)
	m.isObserving(t)
}

func (m *modes) uninstalls(t *testing.T) {
	must(t, m.controlPlane.UninstallChart(m.ctx, controlplane.Chart{Release: release, Namespace: namespace}))
	m.isManagedBy(t, virtOperator, "virt-template-apiserver")
}
