package variants_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/variants"
	"github.com/virtward/virtward/test/kills"
)

// cluster is a fake API server with templates, and the events of the controllers.
type cluster struct {
	server   client.WithWatch
	catalogs client.Reader
	told     []string
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, v1alpha1.AddToScheme} {
		must(t, add(scheme))
	}
	c := &cluster{server: kills.Server(scheme, clocktesting.NewFakePassiveClock(time.Unix(1_770_000_000, 0)), []client.Object{&v1alpha1.GoldenImageCatalog{}}, objects...)}
	c.catalogs = c.server
	return c
}

// reconcile reconciles a template with a new controller.
func (c *cluster) reconcile(t *testing.T, name string, connection *kills.Connection) (reconcile.Result, error) {
	t.Helper()
	r := variants.New(variants.Options{Client: connection.Fake(c.server), Catalogs: c.catalogs, Tell: func(of *v1beta1.VirtualMachineTemplate, e events.Event) {
		c.told = append(c.told, of.Name+": "+e.String())
	}})
	return r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}})
}

// lines has a line for each template: its name, its DataSource, its architecture and its message.
func (c *cluster) lines(t *testing.T) (lines []string) {
	t.Helper()
	list := &v1beta1.VirtualMachineTemplateList{}
	must(t, c.server.List(t.Context(), list, client.InNamespace("shop")))
	for i := range list.Items {
		item := &list.Items[i]
		architecture := "-"
		if _, after, found := strings.Cut(string(item.Spec.VirtualMachine.Raw), `"architecture":"`); found {
			architecture, _, _ = strings.Cut(after, `"`)
		}
		line := item.Name + " " + item.Spec.Parameters[0].Value + " " + architecture
		if item.Spec.Message != "" {
			line += " " + item.Spec.Message
		}
		lines = append(lines, line)
	}
	return lines
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// templateOf is a template that clones an image.
func templateOf(name, image string) *v1beta1.VirtualMachineTemplate {
	const vm = `{"spec":{"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"${SOURCE}","namespace":"images"}}}],"template":{"spec":{"domain":{}}}}}`
	t := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1alpha1.PerArchitectureLabel: image, "team": "a"},
	}}
	t.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(vm)}
	t.Spec.Parameters = []v1beta1.Parameter{{Name: "SOURCE", Value: image}}
	return t
}

// variantOf is the variant of an architecture as the controller creates it.
func variantOf(t *testing.T, source *v1beta1.VirtualMachineTemplate, architecture string) *v1beta1.VirtualMachineTemplate {
	t.Helper()
	c := newCluster(t, source.DeepCopy(), catalogOf(architecture))
	_, err := c.reconcile(t, source.Name, &kills.Connection{Left: -1})
	must(t, err)
	variant := &v1beta1.VirtualMachineTemplate{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: source.Name + "-" + architecture}, variant))
	variant.ResourceVersion = ""
	return variant
}

// catalogOf is a catalog whose image fedora is imported for architectures.
func catalogOf(architectures ...string) *v1alpha1.GoldenImageCatalog {
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.Namespace = "images"
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{{ObjectMeta: metav1.ObjectMeta{Name: "fedora-cron"}, Spec: &cdiv1beta1.DataImportCronSpec{ManagedDataSource: "fedora"}}}
	image := v1alpha1.Image{Name: "fedora-cron", DataSource: "fedora"}
	for _, a := range architectures {
		image.Imports = append(image.Imports, v1alpha1.Import{Architecture: a, DataImportCron: "fedora-cron-" + a, DataSource: "fedora-" + a})
	}
	catalog.Status.Images = []v1alpha1.Image{image}
	return catalog
}

const (
	plain = "server fedora -"
	amd64 = "server-amd64 fedora-amd64 amd64"
	arm64 = "server-arm64 fedora-arm64 arm64"
	s390x = "server-s390x fedora-s390x s390x"
)

func TestReconcile(t *testing.T) {
	const idle = 10 * time.Minute
	change := func(template *v1beta1.VirtualMachineTemplate, how func(*v1beta1.VirtualMachineTemplate)) *v1beta1.VirtualMachineTemplate {
		changed := template.DeepCopy()
		how(changed)
		return changed
	}
	source := templateOf("server", "fedora")
	made := func(architecture string) *v1beta1.VirtualMachineTemplate { return variantOf(t, source, architecture) }
	post, put, remove := "POST VirtualMachineTemplate/shop/server-", "PUT VirtualMachineTemplate/shop/server-", "DELETE VirtualMachineTemplate/shop/server-"
	for name, test := range map[string]struct {
		stored              []client.Object
		lines, writes, told []string
		again               time.Duration
		denies              error
	}{
		"create": {stored: []client.Object{source, catalogOf("amd64", "arm64")}, lines: []string{plain, amd64, arm64}, writes: []string{post + "amd64", post + "arm64"}, again: idle},
		"no change": {
			stored: []client.Object{source, catalogOf("amd64", "arm64"), made("amd64"), made("arm64")},
			lines:  []string{plain, amd64, arm64}, again: idle,
		},
		"another architecture": {
			stored: []client.Object{source, catalogOf("arm64", "s390x"), made("amd64"), made("arm64")},
			lines:  []string{plain, arm64, s390x}, writes: []string{remove + "amd64", post + "s390x"}, again: idle,
		},
		"the template changed": {
			stored: []client.Object{change(source, func(s *v1beta1.VirtualMachineTemplate) { s.Spec.Message = "Welcome" }), catalogOf("amd64"), made("amd64")},
			lines:  []string{plain + " Welcome", amd64 + " Welcome"}, writes: []string{put + "amd64"}, again: idle,
		},
		"a variant was edited": {
			stored: []client.Object{source, catalogOf("amd64"), change(made("amd64"), func(s *v1beta1.VirtualMachineTemplate) { s.Spec.Message = "edited" })},
			lines:  []string{plain, amd64}, writes: []string{put + "amd64"}, again: idle,
		},
		"the label was removed": {
			stored: []client.Object{change(source, func(s *v1beta1.VirtualMachineTemplate) { s.Labels = nil }), catalogOf("amd64"), made("amd64")},
			lines:  []string{plain}, writes: []string{remove + "amd64"},
		},
		"another template has the name": {
			stored: []client.Object{source, catalogOf("amd64", "arm64"), change(templateOf("server-amd64", "foreign"), func(s *v1beta1.VirtualMachineTemplate) { s.Labels = nil })},
			lines:  []string{plain, "server-amd64 foreign -", arm64}, writes: []string{post + "arm64"},
			told: []string{`server: Warning NameTaken: the template "server-amd64" exists, and is not a variant of this one`}, again: idle,
		},
		"a variant of a template that was deleted": {
			stored: []client.Object{source, catalogOf("amd64"), change(made("amd64"), func(s *v1beta1.VirtualMachineTemplate) { s.OwnerReferences[0].UID = "before" })},
			lines:  []string{plain, amd64},
			told:   []string{`server: Warning NameTaken: the template "server-amd64" exists, and is not a variant of this one`}, again: idle,
		},
		"no catalog has the image": {
			stored: []client.Object{source}, lines: []string{plain}, again: idle,
			told: []string{`server: Warning NoImage: no catalog has the image "fedora" in the namespace "images"`},
		},
		"the template does not clone the image": {
			stored: []client.Object{change(source, func(s *v1beta1.VirtualMachineTemplate) { s.Labels[v1alpha1.PerArchitectureLabel] = "debian" }), catalogOf("amd64")},
			lines:  []string{plain}, again: idle,
			told: []string{`server: Warning NoDataSource: no dataVolumeTemplate of the virtual machine clones the DataSource "debian" of the label image.virtward.io/per-architecture`},
		},
		"an admission policy denies": {
			stored: []client.Object{source, catalogOf("amd64", "arm64")}, denies: apierrors.NewForbidden(schema.GroupResource{Resource: "templates"}, "server-amd64", errors.New("no")),
			lines: []string{plain, arm64}, writes: []string{post + "arm64"}, again: idle,
			told: []string{`server: Warning VariantInvalid: templates "server-amd64" is forbidden: no`},
		},
		"the template is deleted": {
			stored: []client.Object{change(source, func(s *v1beta1.VirtualMachineTemplate) {
				s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
			}), catalogOf("arm64"), made("amd64")},
			lines: []string{plain, amd64},
		},
		"the template does not exist": {stored: []client.Object{catalogOf("amd64")}},
	} {
		t.Run(name, func(t *testing.T) {
			c, all := newCluster(t, test.stored...), &kills.Connection{Left: -1}
			if test.denies != nil {
				c.server = interceptor.NewClient(c.server, interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if object.GetName() == "server-amd64" {
						return test.denies
					}
					return to.Create(ctx, object, options...)
				}})
			}
			result, err := c.reconcile(t, "server", all)
			must(t, err)
			if result != (reconcile.Result{RequeueAfter: test.again}) {
				t.Errorf("%+v, want another reconciliation after %s", result, test.again)
			}
			for what, pair := range map[string][2][]string{"templates": {test.lines, c.lines(t)}, "writes": {test.writes, all.Accepted()}, "events": {test.told, c.told}} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// TestVariant holds what a new variant has.
func TestVariant(t *testing.T) {
	source := templateOf("server", "fedora")
	variant := variantOf(t, source, "arm64")
	if !metav1.IsControlledBy(variant, source) {
		t.Errorf("its owners are %+v", variant.OwnerReferences)
	}
	want := map[string]string{v1alpha1.VariantLabel: "true", v1alpha1.ArchitectureLabel: "arm64", v1alpha1.DataSourceNameLabel: "fedora", "app.kubernetes.io/managed-by": "virtward", "team": "a"}
	if diff := cmp.Diff(want, variant.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestConflicts holds that a variant that another process wrote is planned again after a moment, and that the others are written.
func TestConflicts(t *testing.T) {
	templates := schema.GroupResource{Group: "template.kubevirt.io", Resource: "virtualmachinetemplates"}
	for name, conflict := range map[string]error{
		"updated": apierrors.NewConflict(templates, "server-amd64", errors.New("it changed")),
		"created": apierrors.NewAlreadyExists(templates, "server-amd64"),
	} {
		c := newCluster(t, templateOf("server", "fedora"), catalogOf("amd64", "arm64"))
		server := c.server
		c.server = interceptor.NewClient(server, interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if object.GetName() == "server-amd64" {
				return conflict
			}
			return to.Create(ctx, object, options...)
		}})
		result, err := c.reconcile(t, "server", &kills.Connection{Left: -1})
		if err != nil || result != (reconcile.Result{RequeueAfter: time.Second}) || len(c.told) > 0 {
			t.Errorf("%s: %+v, %v, events %q", name, result, err, c.told)
		}
		if diff := cmp.Diff([]string{plain, arm64}, c.lines(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		c.server = server
		_, err = c.reconcile(t, "server", &kills.Connection{Left: -1})
		must(t, err)
		if diff := cmp.Diff([]string{plain, amd64, arm64}, c.lines(t)); diff != "" {
			t.Errorf("%s, after another reconciliation (-want +got):\n%s", name, diff)
		}
	}
}

// TestFails holds that a failed write of one variant does not keep the others from being written, and that it is repeated.
func TestFails(t *testing.T) {
	c := newCluster(t, templateOf("server", "fedora"), catalogOf("amd64", "arm64"))
	server, fails := c.server, true
	c.server = interceptor.NewClient(server, interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if fails && object.GetName() == "server-amd64" {
			return apierrors.NewInternalError(errors.New("no leader"))
		}
		return to.Create(ctx, object, options...)
	}})
	_, err := c.reconcile(t, "server", &kills.Connection{Left: -1})
	if want := "Create VirtualMachineTemplate shop/server-amd64: Internal error occurred: no leader"; err == nil || !strings.EqualFold(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if diff := cmp.Diff([]string{plain, arm64}, c.lines(t)); diff != "" {
		t.Errorf("after the failure (-want +got):\n%s", diff)
	}
	fails = false
	_, err = c.reconcile(t, "server", &kills.Connection{Left: -1})
	must(t, err)
	if diff := cmp.Diff([]string{plain, amd64, arm64}, c.lines(t)); diff != "" {
		t.Errorf("after another reconciliation (-want +got):\n%s", diff)
	}
	if len(c.told) > 0 {
		t.Errorf("events %q", c.told)
	}
}

// TestCatalogsUnread holds that nothing is written while the catalogs cannot be read.
func TestCatalogsUnread(t *testing.T) {
	c := newCluster(t, templateOf("server", "fedora"), variantOf(t, templateOf("server", "fedora"), "amd64"))
	c.catalogs = (&kills.Connection{Left: 1}).Fake(c.server)
	must(t, c.catalogs.(client.Client).Create(t.Context(), templateOf("other", "fedora"))) // its connection ends
	all := &kills.Connection{Left: -1}
	if _, err := c.reconcile(t, "server", all); err == nil || !strings.HasPrefix(err.Error(), "reading the catalogs:") {
		t.Errorf("error %v", err)
	}
	if writes := all.Writes(); len(writes) > 0 {
		t.Errorf("writes %q", writes)
	}
}

// TestKilled kills the controller before and after each of its writes. The next one completes the work.
func TestKilled(t *testing.T) {
	counts := map[string]int{}
	for step := range 5 {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d, lost %t", step, lost), func(t *testing.T) {
				c := newCluster(t, templateOf("server", "fedora"), catalogOf("amd64", "arm64"))
				counts["create"] = max(counts["create"], c.killed(t, &kills.Connection{Left: step, Lost: lost}, plain, amd64, arm64))

				must(t, c.server.Delete(t.Context(), catalogOf()))
				must(t, c.server.Create(t.Context(), catalogOf("arm64", "s390x")))
				source := &v1beta1.VirtualMachineTemplate{}
				must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "server"}, source))
				source.Spec.Message = "changed"
				must(t, c.server.Update(t.Context(), source))
				counts["change"] = max(counts["change"], c.killed(t, &kills.Connection{Left: step, Lost: lost}, plain+" changed", arm64+" changed", s390x+" changed"))

				source = &v1beta1.VirtualMachineTemplate{}
				must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "server"}, source))
				source.Labels = nil
				must(t, c.server.Update(t.Context(), source))
				counts["delete"] = max(counts["delete"], c.killed(t, &kills.Connection{Left: step, Lost: lost}, plain+" changed"))
				if len(c.told) > 0 {
					t.Errorf("events %q", c.told)
				}
			})
		}
	}
	if diff := cmp.Diff(map[string]int{"create": 2, "change": 3, "delete": 2}, counts); diff != "" {
		t.Errorf("most writes of a phase (-want +got):\n%s", diff)
	}
}

// killed reconciles with a connection that ends, and then with one that does not. It returns the writes of the first one.
func (c *cluster) killed(t *testing.T, ends *kills.Connection, want ...string) int {
	t.Helper()
	if _, err := c.reconcile(t, "server", ends); err != nil && !errors.Is(err, kills.Err) {
		t.Error(err)
	}
	_, err := c.reconcile(t, "server", &kills.Connection{Left: -1})
	must(t, err)
	if diff := cmp.Diff(want, c.lines(t)); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
	nothing := &kills.Connection{Left: -1}
	_, err = c.reconcile(t, "server", nothing)
	must(t, err)
	if writes := nothing.Writes(); len(writes) > 0 {
		t.Errorf("without a change it writes %q", writes)
	}
	return len(ends.Accepted())
}
