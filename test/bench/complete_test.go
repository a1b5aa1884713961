package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/webhooks"
)

// typicalVMI is the object that every figure is about: 3 disks and 2 interfaces, as an API server sends it.
func typicalVMI(tb testing.TB) []byte {
	tb.Helper()
	vmi := build.Typical("db").Obj()
	vmi.UID = "6f1c7a0a-5b7e-4d7e-9f0a-0f2b1b1c2d3e"
	vmi.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	vmi.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "kubevirt.io/v1",
		Time: &vmi.CreationTimestamp, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{".":{},"f:domain":{".":{},"f:cpu":{".":{},"f:cores":{}},"f:devices":{".":{},"f:disks":{},"f:interfaces":{}},"f:memory":{".":{},"f:guest":{}}},"f:networks":{},"f:volumes":{}}}`),
	}}
	data, err := json.Marshal(vmi)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// review wraps an object as the API server does.
func review(tb testing.TB, object []byte) []byte {
	tb.Helper()
	gvk := metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"}
	gvr := metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Kind: gvk, Resource: gvr, RequestKind: &gvk, RequestResource: &gvr,
			Name: "db", Namespace: "default", Operation: admissionv1.Create,
			UserInfo: authenticationv1.UserInfo{Username: "alice", Groups: []string{"dev", "system:authenticated"}},
			Object:   runtime.RawExtension{Raw: object},
			Options:  runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-client-side-apply"}`)},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func pipeline(tb testing.TB) *effective.Pipeline {
	tb.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		tb.Fatal(err)
	}
	return effective.NewPipeline(registry)
}

func mutator(tb testing.TB) *webhooks.Mutator {
	tb.Helper()
	facts := platform.Defaults(platform.Settings{})
	objects, err := references.NewMemory("default")
	if err != nil {
		tb.Fatal(err)
	}
	metrics, err := webhooks.NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return webhooks.NewMutator(webhooks.Mutator{
		Evaluator: evaluator.New(pipeline(tb), objects, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}),
		Metrics:   metrics, Log: logr.Discard(), Clock: clock.RealClock{},
	})
}

// BenchmarkDecode only decodes the object, as the lower bound.
func BenchmarkDecode(b *testing.B) {
	data := typicalVMI(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var vmi v1.VirtualMachineInstance
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &vmi); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkComplete is the pure pipeline: typed object in, verdict out.
func BenchmarkComplete(b *testing.B) {
	p, facts, vmi := pipeline(b), platform.Defaults(platform.Settings{}), build.Typical("db").Obj()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Complete(effective.Input{VMI: vmi, Facts: facts}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMutateRequest is one admission request: the bytes of the review in, the bytes of the answer out.
func BenchmarkMutateRequest(b *testing.B) {
	m, data := mutator(b), review(b, typicalVMI(b))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Review(context.Background(), data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMutateSite10 is the same in a namespace with ten VirtualMachineDefaults, half of which select it.
func BenchmarkMutateSite10(b *testing.B) {
	m, data, site := mutator(b), review(b, typicalVMI(b)), tenDefaults(b)
	live(m.Evaluator).GetSite = func() *mutators.Site { return site }
	labels := k8slabels.Set{"env": "prod"}
	live(m.Evaluator).GetNamespaceLabels = func(context.Context, string) (k8slabels.Set, error) { return labels, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Review(context.Background(), data); err != nil {
			b.Fatal(err)
		}
	}
}

func tenDefaults(tb testing.TB) *mutators.Site {
	tb.Helper()
	var objects []policyv1alpha1.VirtualMachineDefaults
	for i := range 10 {
		object := policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: "defaults-" + strconv.Itoa(i)}}
		if i%2 == 0 {
			object.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
		}
		object.Spec.Template.Raw = fmt.Appendf(nil, `{"nodeSelector":{"pool-%d":"vms"},"tolerations":[{"key":"vms","operator":"Exists"}],"terminationGracePeriodSeconds":%d,
			"domain":{"cpu":{"model":"host-model"},"memory":{"maxGuest":"16Gi"},"devices":{"rng":{},"autoattachMemBalloon":false}}}`, i, 60+i)
		objects = append(objects, object)
	}
	site, notes := mutators.NewSite(objects...)
	if len(notes) > 0 {
		tb.Fatal(notes)
	}
	return site
}

// BenchmarkMutateLargest is an object as large as is completed, made of as many volumes without a disk as fit,
// each of which gets one.
func BenchmarkMutateLargest(b *testing.B) {
	vmi := build.VMI("largest")
	for i := range 2_400 {
		vmi.Volume("v"+strconv.Itoa(i), "a")
	}
	object, err := json.Marshal(vmi.Obj())
	if err != nil {
		b.Fatal(err)
	}
	m, data := mutator(b), review(b, object)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if answer, err := m.Review(context.Background(), data); err != nil || !bytes.Contains(answer, []byte(`"patch":`)) {
			b.Fatalf("%v: %.300s", err, answer)
		}
	}
}
