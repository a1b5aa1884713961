package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/pages"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/soak"
)

// instead are the commands that cannot run on the sandbox as they are printed: it has installed the chart with the ports of its
// processes, and other pages need it.
func instead(t *testing.T) []pages.Replacement {
	t.Helper()
	folder, err := filepath.Abs(root)
	must(t, err)
	return []pages.Replacement{
		{Words: "make sandbox", With: "cat sandbox.out", SameOutput: true},
		{Words: "make", With: "make --dry-run --directory " + folder},
		{Words: "helm install virtward", With: "helm template virtward"},
		{Words: "helm upgrade virtward", With: "helm upgrade virtward --dry-run=server"},
		{Words: "helm upgrade --install virtward", With: "helm template virtward"},
		{Words: "helm uninstall virtward", With: "helm uninstall virtward --dry-run"},
		{Words: "kind", Why: "it needs another cluster"},
		{Words: "sudo k3s", Why: "it needs another cluster"},
	}
}

// root is the folder of the repository.
const root = "../../../.."

// newShell has a folder of its own with the files of the repository that commands name, because some write files. It has the variables
// that the sandbox prints.
func newShell(t *testing.T, s *sandbox) *pages.Shell {
	t.Helper()
	sh := &pages.Shell{Folder: t.TempDir(), Instead: instead(t), Before: noticed}
	for _, name := range []string{"charts", "examples"} {
		if err := os.CopyFS(filepath.Join(sh.Folder, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.WriteFile(filepath.Join(sh.Folder, "sandbox.out"), []byte(s.out.String()), 0o600))
	programs := t.TempDir()
	this, err := os.Executable()
	must(t, err)
	must(t, os.Symlink(this, filepath.Join(programs, program)))
	path := programs + ":" + strings.ReplaceAll(s.variable(t, "PATH"), "$PATH", os.Getenv("PATH"))
	sh.Environment = []string{"HOME=" + s.home, "PATH=" + path, "KUBECONFIG=" + s.kubeconfig, "IMAGES=" + s.variable(t, "IMAGES")}
	return sh
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noticed waits until the API server has noticed what the commands before changed, such as a policy: until a dry run of an apply
// succeeds or fails as the page shows. A reader needs longer to go on.
func noticed(t *testing.T, sh *pages.Shell, command string, succeeds bool) {
	t.Helper()
	if !strings.HasPrefix(command, "kubectl apply ") || strings.ContainsAny(command, "\n&|;") {
		return
	}
	await.Until(t, func() error {
		output, err := sh.Run(t.Context(), command+" --dry-run=server")
		if (err == nil) != succeeds {
			return fmt.Errorf("$ %s --dry-run=server\nsuccess is %v, but %v in the page\n%s", command, err == nil, succeeds, output)
		}
		return nil
	})
}

// TestPages runs the blocks of the pages from top to bottom, as a reader does in a fresh shell. What a page leaves is deleted before the
// next one. Slow pages are left out.
func TestPages(t *testing.T) { runPages(t, func(page *pages.Document) bool { return !page.Slow }) }

// TestSoakPages runs the slow pages. Only it finds a command of theirs that does not do what the page shows.
func TestSoakPages(t *testing.T) {
	soak.Only(t)
	runPages(t, func(page *pages.Document) bool { return page.Slow })
}

func runPages(t *testing.T, selected func(*pages.Document) bool) {
	t.Helper()
	planes.Skip(t)
	s := startSandbox(t)
	defer s.stop(t)
	c := newCluster(t, s)
	documents, err := pages.Documents(root)
	must(t, err)
	for _, page := range documents {
		if page.Lane != pages.Sandbox || !page.Runs() || !selected(&page) {
			continue
		}
		t.Run(page.Path, func(t *testing.T) {
			sh := newShell(t, s)
			sh.Objects = c.admits
			sh.Page(t, page.Blocks)
			if page.Path == "README.md" { // README.md uses most of Virtward
				testMetrics(t, sh, c.Client)
			}
			c.restore(t)
		})
	}
}

// cluster is that of a sandbox, with what it has before a page.
type cluster struct {
	client.Client

	had map[string]bool
}

func newCluster(t *testing.T, s *sandbox) *cluster {
	t.Helper()
	c := &cluster{Client: adminOf(t, s.kubeconfig), had: map[string]bool{}}
	for _, o := range c.list(t) {
		c.had[nameOf(&o)] = true
	}
	return c
}

// admits creates the objects of a YAML block in a dry run. A namespace that the sandbox does not have is that of the page.
func (c *cluster) admits(t *testing.T, text string) error {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mapping, err := c.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			return err
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			o.SetNamespace(metav1.NamespaceDefault)
		}
		if err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
			return err
		}
	}
}

// kinds are those of the objects that pages create, in the order in which they are deleted: those that decide about requests first, and
// namespaces last.
var kinds = []schema.GroupVersionKind{
	{Group: "policy.virtward.io", Version: "v1alpha1", Kind: "VirtualMachinePolicy"},
	{Group: "policy.virtward.io", Version: "v1alpha1", Kind: "VirtualMachinePolicyException"},
	{Group: "policy.virtward.io", Version: "v1alpha1", Kind: "RuleSettings"},
	{Group: "policy.virtward.io", Version: "v1alpha1", Kind: "VirtualMachineDefaults"},
	{Group: "rollout.virtward.io", Version: "v1alpha1", Kind: "VirtualMachineRollout"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"},
	{Group: "template.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachineTemplateRequest"},
	{Group: "template.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachineTemplate"},
	{Group: "kupenstack.io", Version: "v1alpha1", Kind: "VirtualImage"},
	{Group: "image.virtward.io", Version: "v1alpha1", Kind: "GoldenImageCatalog"},
	{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataImportCron"},
	{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataSource"},
	{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Version: "v1", Kind: "Namespace"},
}

func nameOf(o *metav1.PartialObjectMetadata) string {
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// list returns the objects of the kinds, in their order.
func (c *cluster) list(t *testing.T) (found []metav1.PartialObjectMetadata) {
	t.Helper()
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		must(t, c.List(t.Context(), list))
		for _, o := range list.Items {
			o.SetGroupVersionKind(kind)
			found = append(found, o)
		}
	}
	return found
}

// restore deletes the objects that a page created, and waits until they are gone. No process of the sandbox protects volumes.
func (c *cluster) restore(t *testing.T) {
	t.Helper()
	next := time.Now()
	await.Until(t, func() error {
		time.Sleep(time.Until(next)) // the lists cost processor time
		next = time.Now().Add(300 * time.Millisecond)
		var left error
		for _, o := range c.list(t) {
			if c.had[nameOf(&o)] {
				continue
			}
			left = fmt.Errorf("%s is there", nameOf(&o))
			switch {
			case o.DeletionTimestamp == nil:
				if err := client.IgnoreNotFound(c.Delete(t.Context(), &o)); err != nil {
					left = fmt.Errorf("%s: %w", nameOf(&o), err)
				}
			case o.Kind == "PersistentVolumeClaim":
				if err := client.IgnoreNotFound(c.Patch(t.Context(), &o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))); err != nil {
					left = err
				}
			case o.Kind == "Namespace":
				n := &corev1.Namespace{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(&o), n); err == nil {
					left = fmt.Errorf("namespace %s: %v", o.Name, n.Status.Conditions)
				}
			}
		}
		return left
	})
}
