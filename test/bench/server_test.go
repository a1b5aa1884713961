package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // else controller-runtime complains in the middle of the figures
	os.Exit(m.Run())
}

// exempt is a namespace that the webhook does not see, for the figures without it.
const exempt = "bench-exempt"

// installed is a control plane with Virtward's chart, and of KubeVirt only its definitions.
type installed struct {
	cluster  *controlplane.ControlPlane
	virtward *controlplane.Virtward
	url      string
	client   *http.Client
}

func install(b *testing.B) *installed {
	b.Helper()
	ctx := context.Background()
	cluster := planes.Start(b, controlplane.Options{})
	virtward, err := cluster.InstallVirtward(ctx, map[string]any{"webhook": map[string]any{"exemptNamespaces": []any{exempt}}}, controlplane.Workload{})
	if err != nil {
		b.Fatal(err)
	}
	if err := cluster.EnsureNamespace(ctx, exempt); err != nil {
		b.Fatal(err)
	}
	i := &installed{cluster: cluster, virtward: virtward}
	i.waitUntilCalled(b)
	i.target(b)
	return i
}

// target returns the URL at which the API server calls the webhook, and a client that trusts it as the API server does.
func (i *installed) target(b *testing.B) {
	b.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := i.cluster.Client().Get(context.Background(), client.ObjectKey{Name: "mutate.virtward.io"}, configuration); err != nil {
		b.Fatal(err)
	}
	called := configuration.Webhooks[0].ClientConfig
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(called.CABundle)
	i.url = "https://" + net.JoinHostPort("localhost", strconv.Itoa(int(*called.Service.Port))) + *called.Service.Path
	i.client = &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{
			RootCAs: roots, MinVersion: tls.VersionTLS12,
			ServerName: controlplane.VirtwardService + "." + controlplane.VirtwardNamespace + ".svc",
		},
	}}
}

func (i *installed) waitUntilCalled(b *testing.B) {
	b.Helper()
	for range 200 {
		vmi := build.VMI("probe").Obj()
		if err := i.cluster.Client().Create(context.Background(), vmi, client.DryRunAll); err != nil {
			b.Fatal(err)
		}
		if vmi.Spec.Domain.Machine != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.Fatal("the API server does not call the webhook")
}

func (i *installed) admit(body []byte) error {
	response, err := i.client.Post(i.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"allowed":true`))) {
		err = fmt.Errorf("%d %s", response.StatusCode, answer)
	}
	return err
}

// anonymousMemory returns RssAnon of a process in MB, which does not include the pages of the binary.
func anonymousMemory(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("the memory of a process is read from /proc: ", err)
	}
	match := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		b.Fatal("/proc tells no RssAnon")
	}
	kB, err := strconv.Atoi(string(match[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kB) / 1024
}

func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*p))]
}

// BenchmarkServe is the real server, called over HTTPS as the API server calls it, by eight callers on the
// same machine. It reports admissions per second, the percentiles of one call, and the server's memory after
// at least 10,000 admissions.
func BenchmarkServe(b *testing.B) {
	i, body, admitted := install(b), review(b, typicalVMI(b)), 0
	b.Run("sequential", func(b *testing.B) {
		for b.Loop() {
			if err := i.admit(body); err != nil {
				b.Fatal(err)
			}
			admitted++
		}
	})
	b.Run("https", func(b *testing.B) {
		all := i.admitInParallel(b, body)
		admitted += len(all)
		slices.Sort(all)
		b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "admissions/s")
		b.ReportMetric(float64(percentile(all, .5).Microseconds()), "p50-µs")
		b.ReportMetric(float64(percentile(all, .99).Microseconds()), "p99-µs")
		for ; admitted < 10_000; admitted++ {
			if err := i.admit(body); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(anonymousMemory(b, i.virtward.PID()), "RssAnon-MB")
	})
}

// admitInParallel returns how long each call took.
func (i *installed) admitInParallel(b *testing.B, body []byte) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var mine []time.Duration
		for pb.Next() {
			started := time.Now()
			if err := i.admit(body); err != nil {
				b.Error(err)
				return
			}
			mine = append(mine, time.Since(started))
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, mine...)
	})
	b.StopTimer()
	if len(all) == 0 {
		b.Fatal("no call was answered")
	}
	return all
}

// BenchmarkCreate is a create through the API server, with the webhook and, in turn, without. It reports the
// medians of both and of the paired difference.
func BenchmarkCreate(b *testing.B) {
	i := install(b)
	admin := i.cluster.Client()
	create := func(namespace string, n int) time.Duration {
		vmi := build.Typical("bench-" + strconv.Itoa(n)).Namespace(namespace).Obj()
		started := time.Now()
		if err := admin.Create(context.Background(), vmi); err != nil {
			b.Fatal(err)
		}
		return time.Since(started)
	}
	n := 0
	for ; n < 100; n++ { // warm
		create("default", n)
		create(exempt, n)
	}
	b.Run("paired", func(b *testing.B) {
		var with, without, difference []time.Duration
		for b.Loop() {
			w, o := create("default", n), create(exempt, n)
			with, without, difference = append(with, w), append(without, o), append(difference, w-o)
			n++
		}
		for name, values := range map[string][]time.Duration{"with-p50-µs": with, "without-p50-µs": without, "delta-p50-µs": difference} {
			slices.Sort(values)
			b.ReportMetric(float64(percentile(values, .5).Microseconds()), name)
		}
		b.ReportMetric(float64(percentile(difference, .99).Microseconds()), "delta-p99-µs")
	})
}

// BenchmarkReady is the time from the start of the server to its readiness, the KubeVirt facts present.
func BenchmarkReady(b *testing.B) {
	i := install(b)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			i.virtward.Kill()
			b.StartTimer()
			if err := i.virtward.Start(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
