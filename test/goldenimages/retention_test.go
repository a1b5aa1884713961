package goldenimages

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// stored waits until the claims and DataVolumes of CDI are those of a list: each has a DataVolume of its name.
func (f *fixture) stored(t *testing.T, want ...string) {
	t.Helper()
	var diff string
	var seen []string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		claims, volumes := &corev1.PersistentVolumeClaimList{}, &cdiv1beta1.DataVolumeList{}
		must(t, f.client.List(t.Context(), claims, client.InNamespace(namespace)))
		must(t, f.client.List(t.Context(), volumes, client.InNamespace(namespace)))
		var got []string
		seen = nil
		for i := range claims.Items {
			got = append(got, "claim of "+claims.Items[i].Labels["cdi.kubevirt.io/dataImportCron"])
			seen = append(seen, fmt.Sprintf("%s %v %v %v", claims.Items[i].Name, claims.Items[i].Labels, claims.Items[i].Finalizers, claims.Items[i].DeletionTimestamp))
		}
		for i := range volumes.Items {
			got = append(got, "volume of "+volumes.Items[i].Labels["cdi.kubevirt.io/dataImportCron"])
		}
		slices.Sort(got)
		if diff = cmp.Diff(want, got); diff == "" {
			return
		}
	}
	t.Fatalf("-want +got:\n%s\n%q", diff, seen)
}

// TestRetentionNone deletes images whose retention policy is None, when nothing refers to them.
func TestRetentionNone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")
	f.watchReady(t)
	e, none := entry("fedora", "amd64,arm64"), cdiv1beta1.DataImportCronRetainNone
	e.Spec.RetentionPolicy = &none
	f.catalog(t, e)
	both := []string{"cron fedora-cron-amd64", "cron fedora-cron-arm64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready"}
	f.becomes(t, both...)
	f.stored(t, "claim of fedora-cron-amd64", "claim of fedora-cron-arm64", "volume of fedora-cron-amd64", "volume of fedora-cron-arm64")

	t.Log("off, while a DataSource of another namespace refers to an image")
	must(t, f.EnsureNamespace(t.Context(), "elsewhere"))
	arm64 := &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fedora-arm64"}, arm64))
	theirs := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "theirs"}}
	theirs.Spec.Source.PVC = arm64.Spec.Source.PVC
	must(t, f.client.Create(t.Context(), theirs))
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.MultiArch = new(false) })
	f.becomes(t, "cron fedora-cron", "source fedora ready")
	f.stored(t, "claim of fedora-cron", "claim of fedora-cron-arm64", "volume of fedora-cron", "volume of fedora-cron-arm64")
	must(t, f.client.Delete(t.Context(), theirs))
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.MultiArch = new(true) })
	f.becomes(t, both...)
	f.stored(t, "claim of fedora-cron-amd64", "claim of fedora-cron-arm64", "volume of fedora-cron-amd64", "volume of fedora-cron-arm64")

	t.Log("a schedule and a URL change, and the image is kept until the next one is imported")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.DataImportCronTemplates[0].Spec.Schedule = "7 7 * * *" })
	f.cronsHave(t, func(c *cdiv1beta1.DataImportCron) bool { return c.Spec.Schedule == "7 7 * * *" })
	f.cdi.Hold(true)
	url := "docker://registry.example/other"
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		c.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &url
	})
	f.cronsHave(t, func(c *cdiv1beta1.DataImportCron) bool {
		return *c.Spec.Template.Spec.Source.Registry.URL == url
	})
	time.Sleep(3 * time.Second)
	f.becomes(t, both...)
	f.cdi.Hold(false)
	f.becomes(t, both...)
	if was := f.interrupted.Load(); was != nil {
		t.Errorf("the DataSource fedora was not ready: %s", *was)
	}

	t.Log("the account deletes no other volumes")
	account, err := f.ServiceAccountConfig(t.Context(), controlplane.VirtwardNamespace, "virtward-images")
	must(t, err)
	stolen, err := client.New(account, client.Options{Scheme: f.client.Scheme()})
	must(t, err)
	disk := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "disk", Labels: map[string]string{"cdi.kubevirt.io/dataImportCron": "fedora-cron"}}}
	disk.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	disk.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	must(t, f.client.Create(t.Context(), disk))
	volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "disk"}}
	must(t, f.client.Create(t.Context(), volume))
	for _, object := range []client.Object{disk, volume} {
		if err := stolen.Delete(t.Context(), object); err == nil || !strings.Contains(err.Error(), "golden-image-deletes: metadata.labels: the account of the controller") {
			t.Errorf("%T: %v", object, err)
		}
		must(t, f.client.Delete(t.Context(), object))
	}

	t.Log("the entry is removed")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.DataImportCronTemplates = nil })
	f.becomes(t)
	f.stored(t)
}

// cronsHave waits until all crons have something.
func (f *fixture) cronsHave(t *testing.T, has func(*cdiv1beta1.DataImportCron) bool) {
	t.Helper()
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		crons := &cdiv1beta1.DataImportCronList{}
		must(t, f.client.List(t.Context(), crons, client.InNamespace(namespace)))
		if len(crons.Items) == 2 && has(&crons.Items[0]) && has(&crons.Items[1]) {
			return
		}
	}
	t.Fatal("the crons do not change")
}
