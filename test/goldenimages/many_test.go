package goldenimages

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/soak"
)

// TestSoakManyImages plans 200 images of three architectures, in one catalog and in four, and changes the nodes.
func TestSoakManyImages(t *testing.T) {
	soak.Only(t)
	for _, catalogs := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d catalogs", catalogs), func(t *testing.T) { manyImages(t, 200, catalogs) })
	}
}

func manyImages(t *testing.T, images, catalogs int) {
	f := start(t)
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")
	for c := range catalogs {
		catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", c)}}
		catalog.Spec.RemovalDelay = &metav1.Duration{}
		for i := range images / catalogs {
			catalog.Spec.DataImportCronTemplates = append(catalog.Spec.DataImportCronTemplates, entry(fmt.Sprintf("image-%d-%03d", c, i), "amd64,arm64,s390x"))
		}
		must(t, f.client.Create(t.Context(), catalog))
	}
	f.crons(t, 2*images, 5*time.Minute)
	f.calm(t)

	cpu, _ := f.cost(t)
	f.node(t, "z1", "s390x", "node-role.kubernetes.io/worker")
	joined := f.crons(t, 3*images, 5*time.Minute)
	f.calm(t)
	must(t, f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}))
	left := f.crons(t, 2*images, 5*time.Minute)
	f.calm(t)
	after, memory := f.cost(t)
	t.Logf("%d images in %d catalogs: the third architecture joins in %s, another one leaves in %s; %s of processor time, %d MB", images, catalogs,
		joined.Round(100*time.Millisecond), left.Round(100*time.Millisecond), after-cpu, memory)
	if memory > 200 {
		t.Errorf("%d MB", memory)
	}

	t.Log("nothing is written without a change, and nodes that report their state are no change")
	before := f.versions(t)
	for begin := time.Now(); time.Since(begin) < 15*time.Second; time.Sleep(100 * time.Millisecond) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
		must(t, f.client.Status().Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"images":[{"names":["%d"]}]}}`, time.Now().UnixNano())))))
	}
	if diff := cmp.Diff(before, f.versions(t)); diff != "" {
		t.Errorf("written without a change (-before +after):\n%s", diff)
	}
}

// crons waits for a number of DataImportCrons. It returns how long that took.
func (f *fixture) crons(t *testing.T, want int, within time.Duration) time.Duration {
	t.Helper()
	begin, got := time.Now(), 0
	for time.Since(begin) < within {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(cdiv1beta1.SchemeGroupVersion.WithKind("DataImportCronList"))
		must(t, f.client.List(t.Context(), list, client.InNamespace(namespace)))
		if got = len(list.Items); got == want {
			return time.Since(begin)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%d DataImportCrons, want %d", got, want)
	return 0
}
