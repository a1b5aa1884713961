package goldenimages

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/limits/parallel"
	"github.com/virtward/virtward/test/soak"
)

// cost is what the process used so far: processor time, and anonymous memory in MB.
func (f *fixture) cost(t *testing.T) (cpu time.Duration, memory int) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", f.process.PID()))
	must(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		ticks, err := strconv.Atoi(field)
		must(t, err)
		cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.process.PID()))
	must(t, err)
	_, rest, _ = strings.Cut(string(status), "RssAnon:")
	memory, err = strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return cpu, memory >> 10
}

// cdiVersions are the versions of the objects of CDI.
func (f *fixture) cdiVersions(t *testing.T) map[string]string {
	t.Helper()
	versions := f.versions(t)
	for name := range versions {
		if strings.Contains(name, "GoldenImageCatalog") {
			delete(versions, name)
		}
	}
	return versions
}

// TestFlappingNodes lets 200 nodes come and go, and change their labels, taints and readiness. No object of CDI is written.
func TestFlappingNodes(t *testing.T) {
	t.Parallel()
	flappingNodes(t, 200, 300)
}

// TestSoakFlappingNodes is TestFlappingNodes with more nodes and changes.
func TestSoakFlappingNodes(t *testing.T) {
	soak.Only(t)
	flappingNodes(t, 1000, 6000)
}

func flappingNodes(t *testing.T, count, changes int) {
	f := start(t)
	architectures := []string{"amd64", "arm64", "s390x"}
	create := func(i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i), Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
		if i%100 == 0 {
			node.Labels["node-role.kubernetes.io/control-plane"] = ""
		}
		if err := f.client.Create(t.Context(), node); err != nil {
			return err
		}
		node.Status.NodeInfo.Architecture = architectures[i%len(architectures)]
		return f.client.Status().Update(t.Context(), node)
	}
	must(t, parallel.Each(t.Context(), count, create))
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("fedora", "amd64,arm64,s390x"), entry("debian", "arm64")}
	must(t, f.client.Create(t.Context(), catalog))
	f.conditionOf(t, "Ready", metav1.ConditionTrue, "Imported")
	f.calm(t)

	before, begin := f.cdiVersions(t), time.Now()
	cpu, _ := f.cost(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same changes each time
	patch := func(i int, text string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i)}}
		must(t, client.IgnoreNotFound(f.client.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(text)))))
	}
	most := 0
	for change := range changes {
		i := random.IntN(count)
		switch random.IntN(4) {
		case 0:
			patch(i, fmt.Sprintf(`{"metadata":{"labels":{"flap":"%d"}}}`, change))
		case 1:
			patch(i, `{"spec":{"unschedulable":true,"taints":[{"key":"dedicated","effect":"NoSchedule"}]}}`)
		case 2:
			patch(i, `{"spec":{"unschedulable":null,"taints":null}}`)
		case 3: // all nodes of an architecture leave for a moment
			must(t, client.IgnoreNotFound(f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i)}})))
			must(t, create(i))
		}
		if change%50 == 0 {
			_, memory := f.cost(t)
			most = max(most, memory)
		}
	}
	if diff := cmp.Diff(before, f.cdiVersions(t)); diff != "" {
		t.Errorf("written while nodes flap (-before +after):\n%s", diff)
	}
	after, _ := f.cost(t)
	t.Logf("%d changes of %d nodes in %s: %s of processor time, at most %d MB", changes, count, time.Since(begin).Round(time.Second), after-cpu, most)
	if most > 150 {
		t.Errorf("%d MB", most)
	}
}

// calm waits until nothing is written for some seconds, twice: on a busy machine, writers can stop for seconds.
func (f *fixture) calm(t *testing.T) {
	t.Helper()
	before, diff, quiet := f.versions(t), "", 0
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		time.Sleep(4 * time.Second)
		after := f.versions(t)
		if diff = cmp.Diff(before, after); diff != "" {
			before, quiet = after, 0
			continue
		}
		if quiet++; quiet == 2 {
			return
		}
	}
	t.Fatalf("still written:\n%s", diff)
}
