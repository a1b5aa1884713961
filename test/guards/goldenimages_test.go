package guards

import (
	"encoding/json"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

// TestGoldenImages sends the requests of all cases, as users with RBAC permissions.
func TestGoldenImages(t *testing.T) {
	catalogs, err := admissionpolicies.GoldenImageCases()
	must(t, err)
	pointers, err := admissionpolicies.PointerCases()
	must(t, err)
	c := newImageCluster(t)
	for i := range catalogs {
		if catalogs[i].Old != nil {
			c.create(t, c.catalog(t, &catalogs[i], i, catalogs[i].Old))
		}
	}
	for i := range pointers {
		if pointers[i].Old != nil {
			c.create(t, pointer(i, pointers[i].Old))
		}
	}
	c.guard(t)
	for i := range catalogs {
		t.Run(catalogs[i].Name, func(t *testing.T) {
			guard := admissionpolicies.GoldenImageCatalogs
			if catalogs[i].Status {
				guard = admissionpolicies.GoldenImageStatus
			}
			expectTemplate(t, c.send(t, &catalogs[i], i), guard, catalogs[i].Denied)
		})
	}
	t.Run("pointers", func(t *testing.T) {
		for i := range pointers {
			t.Run(pointers[i].Name, func(t *testing.T) {
				expectTemplate(t, c.point(t, &pointers[i], i), admissionpolicies.GoldenImagePointers, pointers[i].Denied)
			})
		}
	})
	for _, guard := range []string{admissionpolicies.GoldenImageCatalogs, admissionpolicies.GoldenImageStatus, admissionpolicies.GoldenImagePointers} {
		c.typeChecks(t, guard)
	}
	t.Run("the largest catalog", c.largest)
}

// imageCluster has the definitions of Virtward and of CDI, and the users of the cases.
type imageCluster struct{ *templateCluster }

func newImageCluster(t *testing.T) *imageCluster {
	t.Helper()
	started := pool.Take(t)
	c := &imageCluster{&templateCluster{&userCluster{ControlPlane: started, users: map[string]client.Client{}}}}
	c.admin = c.client(t, "an-admin", "system:masters")
	for _, name := range []string{"images", "shop", "store", "elsewhere"} {
		c.create(t, untypedOf("v1", "Namespace", "", name))
	}
	c.role(t, "", "catalogs", rule("get,list,create,update,patch,delete", v1alpha1.GroupVersion.Group, "goldenimagecatalogs,goldenimagecatalogs/status"),
		rule("get,list,create,update,patch,delete", "cdi.kubevirt.io", "datavolumes"))
	const writes = "create,update,delete"
	crons, sources := rule(writes, "cdi.kubevirt.io", "dataimportcrons"), rule(writes, "cdi.kubevirt.io", "datasources")
	some, all := rule("get", "", "secrets", "a", "b", "c", "d"), rule("get", "", "secrets,configmaps")
	importer := []rbacv1.PolicyRule{crons, sources, some, rule("get", "", "configmaps", "a", "b")}
	clone := rule("create", "cdi.kubevirt.io", "datavolumes/source")
	for user, rights := range map[string]struct {
		name, namespace string
		rules           []rbacv1.PolicyRule
	}{
		"importer":   {"importer", "images", importer},
		"reader":     {"reader", "images", []rbacv1.PolicyRule{crons, sources, all}},
		"cloner":     {"cloner", "images", importer},
		"everywhere": {"everywhere", "images", importer},
		"no-delete":  {"no-delete", "images", []rbacv1.PolicyRule{crons, rule("create,update", "cdi.kubevirt.io", "datasources"), some}},
		"crons-only": {"crons-only", "images", []rbacv1.PolicyRule{crons, some}},
		"bystander":  {"bystander", "images", nil},
		"elsewhere":  {"elsewhere", "elsewhere", importer},
		"controller": {"system:serviceaccount:virtward-system:virtward-images", "images", []rbacv1.PolicyRule{crons, sources, all}},
		"imposter":   {"system:serviceaccount:elsewhere:virtward-images", "images", []rbacv1.PolicyRule{crons, sources, all}},
	} {
		c.users[user] = c.client(t, rights.name)
		c.bind(t, "", "catalogs", rights.name)
		c.role(t, rights.namespace, user, rights.rules...)
		c.bind(t, rights.namespace, user, rights.name)
	}
	for _, namespace := range []string{"shop", "store"} {
		c.role(t, namespace, "clone", clone)
		c.bind(t, namespace, "clone", "cloner")
	}
	c.role(t, "", "clone", clone)
	c.bind(t, "", "clone", "everywhere")
	return c
}

// catalog is the catalog of a case. Its entries need not be valid.
func (c *imageCluster) catalog(t *testing.T, each *admissionpolicies.GoldenImageCase, i int, images *admissionpolicies.GoldenImages) *unstructured.Unstructured {
	t.Helper()
	object := untypedOf(v1alpha1.GroupVersion.String(), "GoldenImageCatalog", "", fmt.Sprintf("case-%d", i))
	object.Object["spec"] = catalogSpec(images)
	switch each.Namespace {
	case "default-of-the-kind":
	case "":
		must(t, unstructured.SetNestedField(object.Object, "images", "spec", "namespace"))
	default:
		must(t, unstructured.SetNestedField(object.Object, each.Namespace, "spec", "namespace"))
	}
	return object
}

func catalogSpec(images *admissionpolicies.GoldenImages) map[string]any {
	entries := []any{}
	add := func(source map[string]any) {
		entries = append(entries, map[string]any{
			"metadata": map[string]any{"name": fmt.Sprintf("image-%d", len(entries))},
			"spec": map[string]any{
				"schedule": "", "managedDataSource": fmt.Sprintf("image-%d", len(entries)),
				"template": map[string]any{"spec": map[string]any{"source": source}},
			},
		})
	}
	for _, secret := range images.Secrets {
		registry := map[string]any{"url": "docker://registry.example/image"}
		if secret != "" {
			registry["secretRef"] = secret
		}
		add(map[string]any{"registry": registry})
	}
	for _, authorities := range images.ConfigMaps {
		add(map[string]any{"registry": map[string]any{"url": "docker://registry.example/image", "certConfigMap": authorities}})
	}
	for _, namespace := range images.Claims {
		add(map[string]any{"pvc": map[string]any{"namespace": namespace, "name": "disk"}})
	}
	spec := map[string]any{"dataImportCronTemplates": entries}
	if images.MultiArch != nil {
		spec["multiArch"] = *images.MultiArch
	}
	return spec
}

// send sends the request of a case, as a dry run.
func (c *imageCluster) send(t *testing.T, each *admissionpolicies.GoldenImageCase, i int) error {
	t.Helper()
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	if each.Old == nil {
		return user.Create(t.Context(), c.catalog(t, each, i, each.New), client.DryRunAll)
	}
	object := untypedOf(v1alpha1.GroupVersion.String(), "GoldenImageCatalog", "", fmt.Sprintf("case-%d", i))
	switch {
	case each.Delete:
		return user.Delete(t.Context(), object, client.DryRunAll)
	case each.Status:
		return user.Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`)))
	}
	change := map[string]any{"metadata": map[string]any{"labels": map[string]string{"changed": "yes"}}}
	if each.New != nil {
		change["spec"] = catalogSpec(each.New)
	}
	return c.patch(t, user, object, change)
}

func (c *imageCluster) patch(t *testing.T, user client.Client, object client.Object, change map[string]any) error {
	t.Helper()
	data, err := json.Marshal(change)
	must(t, err)
	return user.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, data), client.DryRunAll)
}

// pointer is the DataSource of a case. Those that exist before the request have a name each, so theirs replaces "pointer".
func pointer(i int, spec map[string]any) *unstructured.Unstructured {
	name := fmt.Sprintf("pointer-%d", i)
	object := untypedOf("cdi.kubevirt.io/v1beta1", "DataSource", "images", name)
	object.Object["spec"] = spec
	if target, found, _ := unstructured.NestedString(spec, "source", "dataSource", "name"); found && target == "pointer" {
		_ = unstructured.SetNestedField(object.Object, name, "spec", "source", "dataSource", "name")
	}
	return object
}

// point sends the request of a case, as a dry run.
func (c *imageCluster) point(t *testing.T, each *admissionpolicies.PointerCase, i int) error {
	t.Helper()
	object := pointer(i, each.New)
	switch {
	case each.Old == nil:
		return c.admin.Create(t.Context(), object, client.DryRunAll)
	case each.New == nil:
		return c.patch(t, c.admin, object, map[string]any{"metadata": map[string]any{"labels": map[string]string{"changed": "yes"}}})
	}
	return c.patch(t, c.admin, object, map[string]any{"spec": object.Object["spec"]})
}

// largest: the guard stays within its cost limit for a catalog with as many entries, Secrets and namespaces as it can have.
func (c *imageCluster) largest(t *testing.T) {
	images := &admissionpolicies.GoldenImages{}
	for i := range 100 {
		images.Secrets = append(images.Secrets, fmt.Sprintf("secret-%d", i))
		images.Claims = append(images.Claims, fmt.Sprintf("namespace-%d", i))
	}
	c.bind(t, "images", "reader", "everywhere")
	each := &admissionpolicies.GoldenImageCase{User: "everywhere", New: images}
	eventually(t, "the permission", func() bool { return c.send(t, each, 9000) == nil })
}
