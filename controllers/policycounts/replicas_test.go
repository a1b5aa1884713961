package policycounts

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policycounts"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// replica is a server with a certificate for example.com.
func replica(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = nil
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// counting is the handler of a webhook whose policy failed so often.
func counting(instance string, failures int) http.Handler {
	tally := policycounts.NewTally()
	for range failures {
		tally.Record(policies.Outcome{At: now, Namespace: "a", Failures: []policies.Failure{{Field: expression, Reason: policies.ReasonFailed}}})
	}
	source := &policycounts.Source{Instance: instance, Started: now, Policies: func() []policycounts.Counted {
		return []policycounts.Counted{{UID: policy.UID, Generation: policy.Generation, Tally: tally}}
	}}
	mux := http.NewServeMux()
	mux.Handle("GET "+policycounts.Path, source)
	return mux
}

func bundle(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func endpoints(t *testing.T, name, service string, servers ...*httptest.Server) *discoveryv1.EndpointSlice {
	t.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "virtward-system", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, server := range servers {
		host, text, err := net.SplitHostPort(server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		s.Ports = []discoveryv1.EndpointPort{{Name: new("other"), Port: new(int32(1))}, {Name: new(PortName), Port: new(int32(port))}}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}})
	}
	return s
}

func configuration(bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mutate.virtward.io"},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: bundle}}},
	}
}

func replicas(objects ...runtime.Object) *Replicas {
	return &Replicas{
		Client: fake.NewClientset(objects...), Namespace: "virtward-system", Service: "counts", ServerName: "example.com",
		Configuration: "mutate.virtward.io", Now: func() time.Time { return now },
	}
}

func TestReplicas(t *testing.T) {
	a, b := replica(t, counting("instance-a", 2)), replica(t, counting("instance-b", 3))
	other := replica(t, counting("instance-c", 3))
	read := func(t *testing.T, r *Replicas, want ...string) {
		t.Helper()
		reports, errs := r.Read(t.Context())
		var got []string
		for i := range reports {
			got = append(got, fmt.Sprintf("%s %d", reports[i].Instance, reports[i].Policies[0].Failures[0].Count))
		}
		for _, err := range errs {
			got = append(got, err.Error())
		}
		if len(got) != len(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		for i := range want {
			found := false
			for j := range got {
				found = found || strings.Contains(got[j], want[i])
			}
			if !found {
				t.Errorf("got %q, want %q", got, want[i])
			}
		}
	}
	t.Run("the replicas of the Service", func(t *testing.T) {
		read(t, replicas(configuration(bundle(a)), endpoints(t, "s1", "counts", a), endpoints(t, "s2", "counts", b), endpoints(t, "s3", "else", other)), "instance-a 2", "instance-b 3")
	})
	t.Run("a replica in two EndpointSlices", func(t *testing.T) {
		read(t, replicas(configuration(bundle(a)), endpoints(t, "s1", "counts", a), endpoints(t, "s2", "counts", a)), "instance-a 2")
	})
	t.Run("one that does not answer", func(t *testing.T) {
		down := replica(t, counting("instance-d", 1))
		slice := endpoints(t, "s2", "counts", down)
		down.Close()
		read(t, replicas(configuration(bundle(a)), endpoints(t, "s1", "counts", a), slice), "instance-a 2", "connection refused")
	})
	t.Run("no replicas", func(t *testing.T) {
		read(t, replicas(configuration(bundle(a))))
	})
	t.Run("a port of another name", func(t *testing.T) {
		slice := endpoints(t, "s1", "counts", a)
		slice.Ports = slice.Ports[:1]
		read(t, replicas(configuration(bundle(a)), slice))
	})
	t.Run("no CA bundle", func(t *testing.T) {
		read(t, replicas(configuration(nil), endpoints(t, "s1", "counts", a)), "it has no CA bundle yet")
	})
	t.Run("no webhook configuration", func(t *testing.T) {
		read(t, replicas(endpoints(t, "s1", "counts", a)), "not found")
	})
	t.Run("a server with the certificate of another Service", func(t *testing.T) {
		r := replicas(configuration(bundle(a)), endpoints(t, "s1", "counts", a))
		r.ServerName = "virtward-webhook.virtward-system.svc"
		read(t, r, "certificate is valid for")
	})
	t.Run("a server with a certificate that the bundle does not verify", func(t *testing.T) {
		authority := replica(t, counting("instance-e", 1))
		r := replicas(configuration([]byte(unrelated)), endpoints(t, "s1", "counts", authority))
		read(t, r, "certificate")
	})
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a redirect to another server": {func(w http.ResponseWriter, request *http.Request) {
			http.Redirect(w, request, other.URL+policycounts.Path, http.StatusFound)
		}, "HTTP status 302"},
		"an endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
					return
				}
			}
		}, "more than 2097152 bytes"},
		"an answer that is no report": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }, "invalid character"},
		"another version":             {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":3}`)) }, "another version"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := replica(t, c.answer)
			read(t, replicas(configuration(bundle(a)), endpoints(t, "s1", "counts", a), endpoints(t, "s2", "counts", bad)), "instance-a 2", c.want)
		})
	}
}

// Each read reaches the statuses if something changed, and the metrics count the replicas.
func TestReader(t *testing.T) {
	tally := policycounts.NewTally()
	fail := func() {
		tally.Record(policies.Outcome{At: now, Namespace: "a", Failures: []policies.Failure{{Field: "spec", Reason: policies.ReasonSkipped}}})
	}
	var active []policycounts.Counted
	a := replica(t, counting("instance-a", 2))
	registry := prometheus.NewRegistry()
	measured, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	var got []Counts
	r := New(Options{
		Replicas: replicas(configuration(bundle(a)), endpoints(t, "s1", "counts", a)),
		Own:      &policycounts.Source{Instance: "own-instance", Started: now, Policies: func() []policycounts.Counted { return active }},
		Counted:  func(c Counts) { got = append(got, c) }, Interval: time.Minute, Metrics: measured,
		Clock: clocktesting.NewFakeClock(now), Log: logr.Discard(),
	})
	r.Once(t.Context())
	if len(got) != 0 {
		t.Errorf("counts before the policies are known: %+v", got)
	}
	active = []policycounts.Counted{{UID: policy.UID, Generation: policy.Generation, Tally: tally}}
	for range 2 {
		r.Once(t.Context())
	}
	if len(got) != 1 || !got[0].Read || len(got[0].Policies[policy].Failures) != 1 || got[0].Policies[policy].Failures[0].Reported != 2 {
		t.Fatalf("counts %+v", got)
	}
	fail()
	r.Once(t.Context())
	if len(got) != 2 || len(got[1].Policies[policy].Failures) != 2 {
		t.Fatalf("counts %+v", got)
	}
	a.Close()
	r.Once(t.Context())
	if len(got) != 3 || got[2].Read {
		t.Fatalf("counts %+v", got)
	}
	want := `
# HELP virtward_policy_counts_reads_total Reads of the counts of policies from replicas of the webhook, by result: read, other-version (a replica of another release, as during an upgrade), failed.
# TYPE virtward_policy_counts_reads_total counter
virtward_policy_counts_reads_total{result="failed"} 1
virtward_policy_counts_reads_total{result="other-version"} 0
virtward_policy_counts_reads_total{result="read"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r.Once(ended)
	if len(got) != 3 {
		t.Errorf("a read that was canceled is reported: %+v", got[3:])
	}
}

// unrelated is a certificate of another authority.
const unrelated = `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUBNEn+X4YwjJBR6kF1LoIyWKjk4IwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJdW5yZWxhdGVkMCAXDTI2MTEyMzE5NTY0N1oYDzIxMjYxMDMw
MTk1NjQ3WjAUMRIwEAYDVQQDDAl1bnJlbGF0ZWQwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARSjR0AhDlffmPGqiYK0Jpwmixb08SfeisvGopy+YvREkNHywCcyEwC
fXvs1dglX5HTgpBZR0LsWcyUfnBfFRaAo1MwUTAdBgNVHQ4EFgQUA+Ox1VJUyTwO
hEHEEiuGIww71EgwHwYDVR0jBBgwFoAUA+Ox1VJUyTwOhEHEEiuGIww71EgwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBDXlkDNF000xCNinAcjDTH
YpNZ7A4xbh9479UpXY0LIwIgL6+2nGeyQnXIx3gGRsgOb/6A7NkOn9AqR5PRtSQC
f50=
-----END CERTIFICATE-----
`
