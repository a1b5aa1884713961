package goldenimages

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/test/controlplane"
)

// TestUpgradeAndRollback switches goldenImages.enabled off and on by an upgrade of the chart. The images stay, the DataSource stays
// ready, and nothing is written.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")
	f.watchReady(t)
	f.catalog(t, entry("fedora", "amd64,arm64"))
	f.conditionOf(t, "Ready", metav1.ConditionTrue, "Imported")
	f.calm(t)
	before := f.versions(t)

	t.Log("off")
	must(t, f.process.Stop())
	off, err := f.VirtwardChart(map[string]any{"goldenImages": map[string]any{"enabled": false}})
	must(t, err)
	must(t, f.InstallChart(t.Context(), off))
	time.Sleep(5 * time.Second)
	if diff := cmp.Diff(before, f.versions(t)); diff != "" {
		t.Errorf("off (-before +after):\n%s", diff)
	}

	t.Log("on")
	on, err := f.VirtwardChart(map[string]any{"goldenImages": map[string]any{"enabled": true}})
	must(t, err)
	must(t, f.InstallChart(t.Context(), on))
	f.process, err = f.RunVirtward(t.Context(), controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardImages, Args: []string{controlplane.ShortLease},
	})
	must(t, err)
	f.passes(t, "images", 0)
	f.calm(t)
	if diff := cmp.Diff(before, f.versions(t)); diff != "" {
		t.Errorf("on again (-before +after):\n%s", diff)
	}
	objects := f.cdiVersions(t)
	f.node(t, "z1", "s390x", "node-role.kubernetes.io/worker")
	f.nodesBecome(t, "amd64=1 arm64=1 s390x=1", "amd64=1", "", "amd64")
	f.calm(t)
	if diff := cmp.Diff(objects, f.cdiVersions(t)); diff != "" {
		t.Errorf("a node that no image names (-before +after):\n%s", diff)
	}
	if was := f.interrupted.Load(); was != nil {
		t.Errorf("the DataSource fedora was not ready: %s", *was)
	}

	t.Log("without the guard")
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: admissionpolicies.GoldenImageCatalogs}}
	must(t, f.client.Delete(t.Context(), binding))
	webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "validate.virtward.io"}}
	must(t, f.client.Delete(t.Context(), webhooks)) // no webhook is served here
	state, err := f.state(t.Context())
	must(t, err)
	catalog := f.conditionOf(t, "Ready", metav1.ConditionTrue, "Imported")
	catalog.Spec.DataImportCronTemplates = append(catalog.Spec.DataImportCronTemplates, entry("smuggled", "amd64"))
	must(t, f.client.Update(t.Context(), catalog))
	f.conditionOf(t, "Ready", metav1.ConditionFalse, guarded.Reason)
	after, err := f.state(t.Context())
	must(t, err)
	if diff := cmp.Diff(state, after); diff != "" {
		t.Errorf("a catalog that no guard has checked (-before +after):\n%s", diff)
	}
}
