package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
)

// update is an AdmissionReview for a VM whose host name changes, as an API server sends it.
func update(tb testing.TB, vm *v1.VirtualMachine) []byte {
	tb.Helper()
	object := func(vm *v1.VirtualMachine) runtime.RawExtension {
		data, err := json.Marshal(vm)
		if err != nil {
			tb.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	changed := vm.DeepCopy()
	changed.Generation++
	changed.Spec.Template.Spec.Hostname = "changed"
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Name: vm.Name, Namespace: vm.Namespace, Operation: admissionv1.Update,
			Kind:     metav1.GroupVersionKind(apikinds.VirtualMachines.GroupVersionKind),
			Resource: metav1.GroupVersionResource(apikinds.VirtualMachines.GroupVersionResource()),
			UserInfo: authenticationv1.UserInfo{Username: "alice", Groups: []string{"dev", "system:authenticated"}},
			Object:   object(changed), OldObject: object(vm),
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// runningVM is a VM that runs, with its instance and the revision of its start.
func runningVM(tb testing.TB) (*v1.VirtualMachine, []*unstructured.Unstructured) {
	tb.Helper()
	in := rollout(tb)
	vm, vmi := in.Desired, in.Running
	vm.TypeMeta = metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine"}
	vm.Spec, vm.UID, vm.Generation, vm.Status.Created = *in.LastStarted, "vm-1", 1, true
	vmi.TypeMeta = metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance"}
	vmi.Name, vmi.Namespace, vmi.Status.VirtualMachineRevisionName = vm.Name, vm.Namespace, "start"
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: vm.Name, UID: vm.UID, Controller: ptr.To(true)}}
	var objects []*unstructured.Unstructured
	for _, object := range []any{vmi, map[string]any{
		"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": map[string]any{"name": "start", "namespace": vm.Namespace}, "data": map[string]any{"spec": vm.Spec},
	}} {
		data, err := json.Marshal(object)
		if err != nil {
			tb.Fatal(err)
		}
		found := &unstructured.Unstructured{}
		if err := found.UnmarshalJSON(data); err != nil {
			tb.Fatal(err)
		}
		objects = append(objects, found)
	}
	return vm, objects
}

// answers is a transport that answers reads of objects, as an API server does, but without a connection.
func answers(tb testing.TB, objects []*unstructured.Unstructured) http.RoundTripper {
	tb.Helper()
	bodies := map[string][]byte{}
	for _, object := range objects {
		data, err := object.MarshalJSON()
		if err != nil {
			tb.Fatal(err)
		}
		plural := apikinds.VirtualMachineInstances.Plural
		if object.GetKind() == apikinds.ControllerRevisions.Kind {
			plural = apikinds.ControllerRevisions.Plural
		}
		bodies["/apis/"+object.GetAPIVersion()+"/namespaces/"+object.GetNamespace()+"/"+plural+"/"+object.GetName()] = data
	}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(bytes.NewReader(bodies[r.URL.Path]))}
		if bodies[r.URL.Path] == nil {
			response.StatusCode = http.StatusNotFound
		}
		return response, nil
	})
}

// otherEachTime changes the termination grace period in the spec of each instance that is read. The digits are written in
// place, so that the transport costs no time.
func otherEachTime(tb testing.TB, from http.RoundTripper) http.RoundTripper {
	tb.Helper()
	const field, digits = `"terminationGracePeriodSeconds":`, 9
	var instance []byte
	at, period := 0, 100_000_000
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := from.RoundTrip(r)
		if err != nil || !strings.Contains(r.URL.Path, apikinds.VirtualMachineInstances.Plural) {
			return response, err
		}
		if instance == nil {
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return nil, err
			}
			before, after, ok := bytes.Cut(body, []byte(`"spec":{`))
			if !ok || bytes.Contains(body, []byte(field)) {
				tb.Errorf("the instance cannot be changed: %s", body)
			}
			at = len(before) + len(`"spec":{`) + len(field)
			instance = slices.Concat(before, []byte(`"spec":{`+field+strings.Repeat("0", digits)+","), after)
		}
		period++
		strconv.AppendInt(instance[at:at], int64(period), 10)
		response.Body = io.NopCloser(bytes.NewReader(instance))
		return response, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// BenchmarkUpdate is a request to change a VM that runs. The instance is read for each request, and the spec of its start
// is cached. x-stopped is the CPU time relative to the same change of a stopped VM, of which nothing is planned. Before
// the first request about a VM, the webhook has not decoded the spec of the instance.
func BenchmarkUpdate(b *testing.B) {
	b.Run("first", func(b *testing.B) { updates(b, true) })
	b.Run("again", func(b *testing.B) { updates(b, false) })
}

// updates measures requests about one VM. If each is the first one, the instance has another spec each time.
func updates(b *testing.B, first bool) {
	running, stopped := ofUpdates(b, first)
	review := func(run func() error) time.Duration {
		began := cpuTime(b)
		for range 100 {
			if err := run(); err != nil {
				b.Fatal(err)
			}
		}
		return cpuTime(b) - began
	}
	var planned, floor time.Duration
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		planned += review(running)
		b.StopTimer()
		floor += review(stopped)
		b.StartTimer()
		n += 100
	}
	b.ReportMetric(float64(planned.Nanoseconds())/float64(n), "cpu-ns/request")
	b.ReportMetric(float64(planned)/float64(floor), "x-stopped")
}

// ofUpdates returns the request about a VM that runs, and the same about a stopped one.
func ofUpdates(b *testing.B, first bool) (running, stopped func() error) {
	b.Helper()
	vm, objects := runningVM(b)
	v := validator(b)
	transport := answers(b, objects)
	if first {
		transport = otherEachTime(b, transport)
	}
	var err error
	if v.Evaluator.References, err = platform.NewObjects(&rest.Config{Host: "http://cluster.test", Transport: transport, QPS: -1}); err != nil {
		b.Fatal(err)
	}
	review := func(data []byte, warned bool) func() error {
		return func() error {
			answer, err := v.Review(context.Background(), data)
			if err == nil && (!bytes.Contains(answer, []byte(`"allowed":true`)) || bytes.Contains(answer, []byte("when the VM restarts")) != warned) {
				err = errors.New(string(answer))
			}
			return err
		}
	}
	running = review(update(b, vm), true)
	vm.Status.Created, vm.Spec.RunStrategy = false, ptr.To(v1.RunStrategyHalted)
	return running, review(update(b, vm), false)
}
