package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// BenchmarkProcess processes a template of the cluster through kube-apiserver and the aggregated API: one request at a time,
// and eight. The metrics are the median, the 99th percentile, the requests per second, and the processor time of all servers.
func BenchmarkProcess(b *testing.B) {
	cluster := planes.Start(b, controlplane.Options{})
	if _, err := cluster.InstallVirtward(b.Context(), map[string]any{"templates": map[string]any{"mode": "manage"}}, controlplane.Workload{}); err != nil {
		b.Fatal(err)
	}
	pid := cluster.VirtwardAPIServerProcess().PID()
	b.Logf("memory of the server at the start: %s", anonymous(pid))
	process := processor(b, cluster)
	if pid > 0 {
		b.Cleanup(func() { b.Logf("memory of the server at the end: %s", anonymous(pid)) })
	}
	for _, clients := range []int{1, 8} {
		b.Run(strconv.Itoa(clients)+"-clients", func(b *testing.B) {
			var next atomic.Int64
			took := make([]time.Duration, b.N)
			b.ResetTimer()
			used, began := processorTime(b, cluster), time.Now()
			done := make(chan error, clients)
			for range clients {
				go func() {
					for {
						i := next.Add(1) - 1
						if i >= int64(b.N) {
							done <- nil
							return
						}
						start := time.Now()
						if err := process(b.Context()); err != nil {
							done <- err
							return
						}
						took[i] = time.Since(start)
					}
				}()
			}
			for range clients {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			elapsed := time.Since(began)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(b.N)/elapsed.Seconds(), "requests/s")
			b.ReportMetric((processorTime(b, cluster)-used).Seconds()*1000/float64(b.N), "cpu-ms/request")
		})
	}
}

// processor creates the template of BenchmarkRender, and returns what processes it.
func processor(b *testing.B, cluster *controlplane.ControlPlane) func(context.Context) error {
	b.Helper()
	known := cluster.Client().Scheme()
	if err := v1beta1.AddToScheme(known); err != nil {
		b.Fatal(err)
	}
	admin, err := client.New(cluster.Config(), client.Options{Scheme: known})
	if err != nil {
		b.Fatal(err)
	}
	spec := processedTemplate(b)
	if err := admin.Create(b.Context(), &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fedora"}, Spec: spec}); err != nil {
		b.Fatal(err)
	}
	transport, err := rest.TransportFor(cluster.Config())
	if err != nil {
		b.Fatal(err)
	}
	web := &http.Client{Transport: transport}
	body, err := json.Marshal(&subresources.ProcessOptions{Parameters: map[string]string{"NAME": "web"}})
	if err != nil {
		b.Fatal(err)
	}
	url := cluster.Config().Host + "/apis/" + subresources.V1Beta1.String() + "/namespaces/default/virtualmachinetemplates/fedora/process"
	process := func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := web.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusCreated {
			err = &answerError{response.StatusCode, string(answer)}
		}
		return err
	}
	await.Until(b, func() error { return process(b.Context()) })
	return process
}

// answerError is an answer other than the expected one.
type answerError struct {
	code int
	body string
}

func (e *answerError) Error() string { return http.StatusText(e.code) + ": " + e.body }

// processedTemplate is the example of VEP 76 in the form of BenchmarkRender.
func processedTemplate(b *testing.B) v1beta1.VirtualMachineTemplateSpec {
	b.Helper()
	return v1beta1.VirtualMachineTemplateSpec{
		Message: "Log in to ${NAME}.",
		VirtualMachine: &runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Always","instancetype":{"name":"${INSTANCETYPE}"},"preference":{"name":"${PREFERENCE}"},
"dataVolumeTemplates":[{"metadata":{"name":"${NAME}"},"spec":{"storage":{},"sourceRef":{"kind":"DataSource","name":"${DATA_SOURCE_NAME}","namespace":"${DATA_SOURCE_NAMESPACE}"}}}],
"template":{"spec":{"domain":{"devices":{}},"volumes":[{"name":"${NAME}","dataVolume":{"name":"${NAME}"}},{"name":"cloudinit","cloudInitNoCloud":{"userData":"#cloud-config\nuser: fedora\npassword: ${CLOUD_USER_PASSWORD}\nchpasswd: { expire: False }"}}]}}}}`)},
		Parameters: []v1beta1.Parameter{
			{Name: "NAME", Generate: v1beta1.GenerateExpression, From: "fedora-[a-z0-9]{16}"},
			{Name: "INSTANCETYPE", Value: "u1.medium"},
			{Name: "PREFERENCE", Value: "fedora"},
			{Name: "DATA_SOURCE_NAME", Value: "fedora"},
			{Name: "DATA_SOURCE_NAMESPACE", Value: "images"},
			{Name: "CLOUD_USER_PASSWORD", Generate: v1beta1.GenerateExpression, From: "[a-z0-9]{4}-[a-z0-9]{4}-[a-z0-9]{4}"},
		},
	}
}

// processorTime is what the servers, from etcd to Virtward's, have used. It does not depend on other load of the machine.
func processorTime(b *testing.B, cluster *controlplane.ControlPlane) time.Duration {
	b.Helper()
	pids := []int{cluster.VirtwardAPIServerProcess().PID()}
	for _, pid := range cluster.Processes() {
		pids = append(pids, pid)
	}
	const perSecond = 100 // the unit of /proc
	ticks := 0
	for _, pid := range pids {
		content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(content), ") ") // the name can have spaces
		fields := strings.Fields(rest)
		for _, field := range fields[11:13] { // user and system
			n, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / perSecond
}

// anonymous is the memory of a process that the kernel cannot reclaim.
func anonymous(pid int) string {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(content)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
