package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

var _ = Describe("A request for a VMI", func() {
	It("may leave the name to the API server", func(ctx SpecContext) {
		vmi := build.VMI("").Obj()
		vmi.GenerateName = "one-of-many-"
		cleanUp(vmi)
		Expect(alice.Create(ctx, vmi)).To(Succeed())
		Expect(vmi.Name).To(HavePrefix("one-of-many-"))
		Expect(vmi.Spec.Domain.CPU.Model).To(Equal("host-model"))
	})

	It("may be written in the oldest version of the API", func(ctx SpecContext) {
		vmi := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1alpha3", "kind": "VirtualMachineInstance",
			"metadata": map[string]any{"name": "old", "namespace": "default"},
			"spec":     map[string]any{"domain": map[string]any{"devices": map[string]any{}, "memory": map[string]any{"guest": "1Gi"}}},
		}}
		Expect(alice.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		Expect(vmi.GetAPIVersion()).To(Equal("kubevirt.io/v1alpha3"))
		cpu, _, err := unstructured.NestedString(vmi.Object, "spec", "domain", "cpu", "model")
		Expect(err).NotTo(HaveOccurred())
		Expect(cpu).To(Equal("host-model"))
	})

	It("is not evaluated in Virtward's own namespace", func(ctx SpecContext) {
		vmi := build.VMI("own").Namespace(controlplane.VirtwardNamespace).Obj()
		Expect(admin.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		Expect(vmi.Spec.Domain.CPU).To(BeNil())
	})
})

var _ = Describe("The metrics", func() {
	It("count requests by verdict and findings by rule, and report the age of the facts and the expiry of the certificate", func(ctx SpecContext) {
		before := scrape(ctx)
		Expect(alice.Create(ctx, build.VMI("counted").Obj(), client.DryRunAll)).To(Succeed())
		undecodable := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
			"metadata": map[string]any{"name": "undecodable", "namespace": "default"},
			"spec":     map[string]any{"domain": map[string]any{"devices": map[string]any{}, "cpu": map[string]any{"cores": "two"}}},
		}}
		Expect(alice.Create(ctx, undecodable, client.DryRunAll)).NotTo(Succeed())
		Expect(causes(alice.Create(ctx, impossible("counted"), client.DryRunAll))).To(HaveLen(2))
		Expect(post(ctx, "/mutate", []byte("no review"))).To(Equal(http.StatusBadRequest))
		Expect(post(ctx, "/validate", []byte("no review"))).To(Equal(http.StatusBadRequest))
		update, err := json.Marshal(admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{
				UID: "a", Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte("{}")},
				Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(post(ctx, "/mutate", update)).To(Equal(http.StatusOK))
		after := scrape(ctx)

		const requests = "virtward_admission_requests_total"
		for _, labels := range []map[string]string{
			{"webhook": "mutate", "kind": "VirtualMachineInstance", "operation": "CREATE", "verdict": "patched"},
			{"webhook": "mutate", "kind": "VirtualMachineInstance", "operation": "CREATE", "verdict": "unchanged"},
			{"webhook": "mutate", "kind": "VirtualMachine", "operation": "UPDATE", "verdict": "ignored"},
			{"webhook": "mutate", "kind": "none", "operation": "none", "verdict": "malformed"},
			{"webhook": "validate", "kind": "VirtualMachineInstance", "operation": "CREATE", "verdict": "allowed"},
			{"webhook": "validate", "kind": "VirtualMachineInstance", "operation": "CREATE", "verdict": "denied"},
			{"webhook": "validate", "kind": "none", "operation": "none", "verdict": "malformed"},
		} {
			grown := after.sum(requests, labels) - before.sum(requests, labels)
			Expect(grown).To(BeNumerically(">=", 1), "%v", labels)
		}
		failed := map[string]string{"verdict": "failed"}
		Expect(after.sum(requests, failed)).To(Equal(before.sum(requests, failed)))
		for _, rule := range []string{"arm64-bios", "arm64-disk-bus"} {
			found := map[string]string{"rule": rule, "kind": "VirtualMachineInstance", "severity": "Deny"}
			Expect(after.sum("virtward_findings_total", found)-before.sum("virtward_findings_total", found)).To(Equal(1.0), rule)
		}
		Expect(after.sum("virtward_facts_age_seconds", nil)).To(BeNumerically(">", 0))
		Expect(after.sum("virtward_certificate_expiry_timestamp_seconds", nil)).To(BeNumerically(">", time.Now().Unix()))

		durations := after["virtward_admission_duration_seconds"]
		Expect(durations.GetType()).To(Equal(dto.MetricType_HISTOGRAM))
		created := map[string]string{"kind": "VirtualMachineInstance", "operation": "CREATE"}
		answered := uint64(0)
		for _, sample := range durations.GetMetric() {
			if has(sample, created) {
				answered += sample.GetHistogram().GetSampleCount()
				Expect(sample.GetHistogram().GetSampleSum()).To(BeNumerically(">", 0))
				Expect(len(sample.GetHistogram().GetBucket())).To(BeNumerically(">", 5))
			}
		}
		Expect(float64(answered)).To(Equal(after.sum(requests, created)), "every answer is timed")
	}, Serial)
})

// exposition returns the metrics by name.
type exposition map[string]*dto.MetricFamily

// scrape reads the metrics of the server as Prometheus does.
func scrape(ctx context.Context) exposition {
	GinkgoHelper()
	const flag = "--metrics-address="
	address := ""
	for _, argument := range virtward.Args() {
		if rest, found := strings.CutPrefix(argument, flag); found {
			address = "http://127.0.0.1" + rest + "/metrics"
		}
	}
	Expect(address).NotTo(BeEmpty(), "%v", virtward.Args())
	return scrapeAt(ctx, address)
}

// scrapeAt reads the metrics of a process.
func scrapeAt(ctx context.Context, address string) exposition {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return families
}

// sum adds up the counters or gauges of a name that have these labels.
func (e exposition) sum(name string, labels map[string]string) float64 {
	total := 0.0
	for _, sample := range e[name].GetMetric() {
		if has(sample, labels) {
			total += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
		}
	}
	return total
}

func has(sample *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, label := range sample.GetLabel() {
		if value, isWanted := labels[label.GetName()]; isWanted && value == label.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// post sends bytes to a path of the webhook, with its token, as the API server would, and returns the status.
func post(ctx context.Context, path string, body []byte) int {
	GinkgoHelper()
	address, roots := endpoint(ctx)
	caller := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+path+"/"+token(ctx), bytes.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	response, err := caller.Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode
}
