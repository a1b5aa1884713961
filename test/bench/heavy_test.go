package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/pages"
)

// The VMs of BenchmarkAuditHeavy: as many as once took more than the memory of the controller.
const (
	heavyMachines = 1700
	heavyBytes    = 255 << 10
	// mostHeavy is 60 % of the limit of the chart, 512Mi, in MB.
	mostHeavy = 307
)

// heavy is an API server of VMs with long annotations. It writes them one by one, and keeps none.
type heavy struct{ *machines }

func (h *heavy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/virtualmachines") {
		fmt.Fprint(w, `{"metadata":{},"items":[]}`)
		return
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue")) // none is 0
	to, next := from+limit, strconv.Itoa(from+limit)
	if to >= h.count {
		to, next = h.count, ""
	}
	bulk := `"metadata":{"annotations":{"example.com/bulk":"` + strings.Repeat("x", heavyBytes) + `"},`
	fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[`, next)
	for i := from; i < to; i++ {
		if i > from {
			fmt.Fprint(w, ",")
		}
		if _, err := fmt.Fprint(w, strings.Replace(string(h.at(i)), `"metadata":{`, bulk, 1)); err != nil {
			return // the client hangs up
		}
	}
	fmt.Fprint(w, "]}")
}

// BenchmarkAuditHeavy evaluates 1,700 VMs with annotations of 255 kB each, read over HTTP, by 20 policies. It reports the
// most memory of the whole process, that of the server included.
func BenchmarkAuditHeavy(b *testing.B) {
	server := httptest.NewServer(&heavy{newMachines(b, heavyMachines)})
	b.Cleanup(server.Close)
	reader, err := pages.NewReader(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		b.Fatal(err)
	}
	to := &written{}
	a := auditor(b, twenty(b), audit.NewAPI(reader), to)
	debug.FreeOSMemory()
	peak := 0.0
	for b.Loop() {
		peak = max(peak, audited(b, a, to, heavyMachines))
	}
	if peak > mostHeavy {
		b.Errorf("the audit takes %.0f MB, and %d MB are allowed", peak, mostHeavy)
	}
	b.ReportMetric(peak, "RssAnon-MB")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/audit")
}
