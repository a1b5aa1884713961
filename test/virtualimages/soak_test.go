package virtualimages

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/soak"
)

// TestSoakRace deletes 1,000 images, and creates a virtual machine for each.
func TestSoakRace(t *testing.T) {
	soak.Only(t)
	f := startWaiting(t, map[string]any{"limits": map[string]any{"imagesPerNamespace": 0, "bytesPerNamespace": "0", "imports": 400}}, 40*time.Second, func(*controlplane.ControlPlane) {})
	f.race(t, 1000)
}

// TestSoakMany creates 500 images at once, in ten namespaces. No more than the limit are imported at the same time.
func TestSoakMany(t *testing.T) {
	soak.Only(t)
	const images, namespaces, limit, most = 500, 10, 20, 100_000
	f := start(t, map[string]any{"limits": map[string]any{"imagesPerNamespace": 100, "bytesPerNamespace": "1Ti", "imports": limit}})
	url := f.web.serve("many.qcow2", qcow2(1<<30))
	for i := range namespaces {
		must(t, f.EnsureNamespace(t.Context(), fmt.Sprint("many-", i)))
	}
	began := time.Now()
	for i := range images {
		must(t, f.Client().Create(t.Context(), &v1alpha1.VirtualImage{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("many-", i%namespaces), Name: fmt.Sprint("image-", i)},
			Spec:       v1alpha1.VirtualImageSpec{Src: url, Format: v1alpha1.FormatQCOW2},
		}))
	}
	created := time.Since(began)
	memory, flight := 0, 0
	watched := func() {
		memory = max(memory, resident(t, f.process.PID()))
		volumes, now := &cdiv1beta1.DataVolumeList{}, 0
		must(t, f.Client().List(t.Context(), volumes, client.HasLabels{v1alpha1.LabelImage}))
		for i := range volumes.Items {
			if volumes.Items[i].Status.Phase != cdiv1beta1.Succeeded {
				now++
			}
		}
		flight = max(flight, now)
	}
	f.within(t, patience(images), "the imports", func() error { watched(); return f.ready(t, "image-", images) })
	ready := time.Since(began)
	for i := range namespaces {
		must(t, f.Client().DeleteAllOf(t.Context(), &v1alpha1.VirtualImage{}, client.InNamespace(fmt.Sprint("many-", i))))
	}
	f.within(t, patience(images), "the deletions", func() error {
		watched()
		list := &v1alpha1.VirtualImageList{}
		must(t, f.Client().List(t.Context(), list))
		if len(list.Items) > 0 {
			return fmt.Errorf("%d images", len(list.Items))
		}
		return nil
	})
	t.Logf("%d images: created in %s, ready after %s, deleted after %s; at most %d imports at the same time, RssAnon at most %d MB",
		images, created.Round(time.Second), ready.Round(time.Second), time.Since(began).Round(time.Second), flight, memory/1000)
	if flight > limit || memory > most {
		t.Errorf("%d imports, %d kB", flight, memory)
	}
}

// resident is the memory of a process in kB, without its binary.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return kilobytes
}
