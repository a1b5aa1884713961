package templateapi

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/test/await"
)

// cloning is a template whose volume has a source.
func cloning(source, volumes string) string {
	return fmt.Sprintf(`
virtualMachine:
  metadata: {name: "${NAME}"}
  spec:
    runStrategy: Halted
    dataVolumeTemplates: [{metadata: {name: "${NAME}"}, spec: {%s, storage: {}}}]
    template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}, volumes: [{name: a, dataVolume: {name: "${NAME}"}}%s]}}
parameters: [{name: NAME, required: true}]
`, source, volumes)
}

// TestClones holds that create checks whether the VirtualMachine's service account may clone the sources of its volumes, as CDI
// checks it when the volumes are created.
func TestClones(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{})
	f.namespaces("images", "shop", "catalogue")
	for name, source := range map[string]cdiv1beta1.DataSourceSource{
		"fedora":   {PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "images", Name: "fedora-disk"}},
		"snapshot": {Snapshot: &cdiv1beta1.DataVolumeSourceSnapshot{Namespace: "images", Name: "fedora-snapshot"}},
		"empty":    {},
	} {
		f.ensure(&cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: name}, Spec: cdiv1beta1.DataSourceSpec{Source: source}})
	}
	for name, spec := range map[string]string{
		"datasource": cloning("sourceRef: {kind: DataSource, namespace: images, name: fedora}", ""),
		"snapshot":   cloning("sourceRef: {kind: DataSource, namespace: images, name: snapshot}", ""),
		"empty":      cloning("sourceRef: {kind: DataSource, namespace: images, name: empty}", ""),
		"absent":     cloning("sourceRef: {kind: DataSource, namespace: images, name: absent}", ""),
		"pvc":        cloning("source: {pvc: {namespace: images, name: other}}", ""),
		"own":        cloning("source: {pvc: {namespace: shop, name: other}}", ""),
		"http":       cloning("source: {http: {url: 'http://example.org/disk'}}", ""),
		"account":    cloning("source: {pvc: {namespace: images, name: other}}", ", {name: s, serviceAccount: {serviceAccountName: runner}}"),
	} {
		f.make("catalogue", name, spec)
	}
	create := func(template string) error {
		return f.into(f.Config(), "catalogue/"+template, "shop", map[string]string{"NAME": "vm-" + template})
	}
	const missing = `create a RoleBinding in namespace images that allows it to create resource "datavolumes/source" in API group "cdi.kubevirt.io"`
	for template, denied := range map[string]string{
		"datasource": "service account default of namespace shop cannot clone persistentvolumeclaims fedora-disk of namespace images for volume vm-datasource; " + missing,
		"snapshot":   "service account default of namespace shop cannot clone volumesnapshots fedora-snapshot of namespace images for volume vm-snapshot; " + missing,
		"pvc":        "service account default of namespace shop cannot clone persistentvolumeclaims other of namespace images for volume vm-pvc; " + missing,
		"account":    "service account runner of namespace shop cannot clone persistentvolumeclaims other of namespace images for volume vm-account; " + missing,
		"empty":      "", "absent": "", "own": "", "http": "",
	} {
		err := create(template)
		if denied == "" && err != nil || denied != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"`+template+`" is forbidden: `+denied) || f.machine("shop", "vm-"+template) != nil) {
			t.Errorf("%s: %v", template, err)
		}
	}
	f.ensure(
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "clone"}, Rules: []rbacv1.PolicyRule{rule("create", "cdi.kubevirt.io", "datavolumes/source")}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "clone"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "clone"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: "default"}},
		},
	)
	for _, template := range []string{"datasource", "snapshot", "pvc"} {
		await.Until(t, func() error { return create(template) }) // a denial is cached for ten seconds
	}
	if err := create("account"); !apierrors.IsForbidden(err) {
		t.Errorf("the permission of another service account: %v", err)
	}
}
