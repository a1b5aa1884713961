package virtualimages

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/virtualimages"
)

// statusOf has conditions, each as TYPE STATUS REASON.
func statusOf(ready bool, conditions ...string) *v1alpha1.VirtualImageStatus {
	s := &v1alpha1.VirtualImageStatus{Ready: ready}
	for _, c := range conditions {
		words := strings.Fields(c)
		s.Conditions = append(s.Conditions, metav1.Condition{Type: words[0], Status: metav1.ConditionStatus(words[1]), Reason: words[2]})
	}
	return s
}

func TestStates(t *testing.T) {
	for _, c := range []struct {
		deleting bool
		status   *v1alpha1.VirtualImageStatus
		want     string
	}{
		{false, statusOf(false), statePending},
		{false, statusOf(false, "Imported False Pending", "Ready False Pending"), statePending},
		{false, statusOf(false, "Imported False LimitExceeded", "Ready False LimitExceeded"), statePending},
		{false, statusOf(false, "Imported False Importing", "Ready False Importing"), stateImporting},
		{false, statusOf(false, "Imported False Retrying", "Ready False Retrying"), stateRetrying},
		{false, statusOf(false, "Imported False ImportFailed", "Ready False FormatMismatch"), stateFailed},
		{false, statusOf(false, "Imported False ClassNotFound", "Ready False ClassNotFound"), stateFailed},
		{false, statusOf(false, "Imported False NameTaken", "Ready False NameTaken"), stateFailed},
		{false, statusOf(false, "Imported False Importing", "Ready False BackendUnreachable"), stateUnreachable},
		{false, statusOf(false, "Imported False Pending", "Ready False CredentialsRejected"), stateUnreachable},
		{false, statusOf(true, "Imported True Imported", "Ready True Ready"), stateReady},
		{false, statusOf(false, "Imported True Imported", "Ready False Removed"), stateUnavailable},
		{true, statusOf(true, "Imported True Imported", "Ready True Ready", "Deleting True InUse"), stateDeleting},
		{true, statusOf(false, "Imported True Imported", "Ready False Deleting", "Deleting True Blocked"), stateDeletionBlocked},
	} {
		if got := stateOf(c.deleting, c.status); got != c.want {
			t.Errorf("%+v: %s, want %s", c.status, got, c.want)
		}
	}
}

func named(name string) *v1alpha1.VirtualImage {
	return &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}}
}

func TestMetrics(t *testing.T) {
	l := newLedger([]string{"cluster"}, 20)
	last := map[string]v1alpha1.VirtualImageStatus{}
	for _, s := range []struct {
		name, class string
		status      *v1alpha1.VirtualImageStatus
		reason      string
	}{
		{"a", "cluster", statusOf(false, "Imported False Importing"), ""},
		{"a", "cluster", statusOf(false, "Imported False Retrying"), "Interrupted"},
		{"a", "cluster", statusOf(false, "Imported False Retrying"), "Interrupted"}, // the same failure
		{"a", "cluster", statusOf(false, "Imported False Importing"), ""},
		{"a", "cluster", statusOf(true, "Imported True Imported"), ""},
		{"a", "cluster", statusOf(true, "Imported True Imported"), ""},
		{"b", "mine", statusOf(false, "Imported False ImportFailed"), "FormatMismatch"},
		{"c", "cluster", statusOf(false, "Imported False ImportFailed"), ""},
	} {
		image, before := named(s.name), last[s.name]
		s.status.SizeBytes = 100
		image.Status, last[s.name] = *s.status, *s.status
		l.note(s.class, image, s.status)
		l.transition(&virtualimages.Input{Image: image, Class: s.class, Observation: &virtualimages.Observation{Reason: s.reason}, Now: metav1.NewTime(time.Unix(1090, 0))}, &before)
	}
	l.forget(types.NamespacedName{Namespace: "team", Name: "c"})
	const want = `
# HELP virtward_virtual_image_bytes Bytes of the stored VirtualImages by their class.
# TYPE virtward_virtual_image_bytes gauge
virtward_virtual_image_bytes{class="cluster"} 100
virtward_virtual_image_bytes{class="unknown"} 100
# HELP virtward_virtual_image_import_failures_total Failures of imports of VirtualImages by their class and reason, also of those that are tried again.
# TYPE virtward_virtual_image_import_failures_total counter
virtward_virtual_image_import_failures_total{class="cluster",reason="ImportFailed"} 1
virtward_virtual_image_import_failures_total{class="cluster",reason="Interrupted"} 1
virtward_virtual_image_import_failures_total{class="unknown",reason="FormatMismatch"} 1
# HELP virtward_virtual_image_imports_limit VirtualImages that are imported at the same time at most.
# TYPE virtward_virtual_image_imports_limit gauge
virtward_virtual_image_imports_limit 20
# HELP virtward_virtual_image_imports_total Imports of VirtualImages that ended, by their class and result: imported, failed.
# TYPE virtward_virtual_image_imports_total counter
virtward_virtual_image_imports_total{class="cluster",result="failed"} 1
virtward_virtual_image_imports_total{class="cluster",result="imported"} 1
virtward_virtual_image_imports_total{class="unknown",result="failed"} 1
`
	if err := testutil.CollectAndCompare(l, strings.NewReader(want), "virtward_virtual_image_bytes", "virtward_virtual_image_import_failures_total", "virtward_virtual_image_imports_limit", "virtward_virtual_image_imports_total"); err != nil {
		t.Error(err)
	}
	text := exposed(t, l)
	for _, line := range []string{
		`virtward_virtual_images{class="cluster",state="Ready"} 1`, `virtward_virtual_images{class="unknown",state="Failed"} 1`, `virtward_virtual_images{class="cluster",state="Failed"} 0`,
		`virtward_virtual_image_import_seconds_sum{class="cluster"} 90`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if problems, err := testutil.CollectAndLint(l); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func exposed(t *testing.T, l *ledger) string {
	t.Helper()
	text, err := testutil.CollectAndFormat(l, expfmt.TypeTextPlain, "virtward_virtual_images", "virtward_virtual_images_uncounted", "virtward_virtual_image_import_failures_total", "virtward_virtual_image_import_seconds")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBoundedMetrics: users choose the number of images and the names of their classes.
func TestBoundedMetrics(t *testing.T) {
	l := newLedger([]string{"cluster"}, 20)
	for i := range maxCounted + 5 {
		l.note(fmt.Sprintf("class-%d", i), named(fmt.Sprintf("i-%d", i)), statusOf(true))
	}
	for i := range maxReasons + 5 {
		l.fails("cluster", &virtualimages.Observation{Reason: fmt.Sprintf("Reason%d", i)})
	}
	text := exposed(t, l)
	for _, line := range []string{fmt.Sprintf(`virtward_virtual_images{class="unknown",state="Ready"} %d`, maxCounted), "virtward_virtual_images_uncounted 5", `virtward_virtual_image_import_failures_total{class="cluster",reason="Other"} 5`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	for i := range maxCounted + 5 {
		l.forget(types.NamespacedName{Namespace: "team", Name: fmt.Sprintf("i-%d", i)})
	}
	if len(l.images)+len(l.uncounted) > 0 {
		t.Error("images that are deleted are counted")
	}
}

// TestDocumented: the page of metrics lists the metrics, and no others.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger([]string{"cluster"}, 20)
	described := make(chan *prometheus.Desc, 20)
	l.Describe(described)
	close(described)
	count := 0
	for d := range described {
		count++
		name := regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1]
		if !regexp.MustCompile("(?m)^\\| `" + name + "[`{]").Match(page) {
			t.Errorf("the page lacks %s", name)
		}
	}
	if listed := regexp.MustCompile("(?m)^\\| `virtward_virtual_image").FindAll(page, -1); len(listed) != count {
		t.Errorf("the page lists %d metrics, there are %d", len(listed), count)
	}
}
