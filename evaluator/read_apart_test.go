package evaluator

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/test/build"
)

// sameAsWhole compares an object whose spec is decoded apart with the object that is decoded as a whole.
func sameAsWhole(t *testing.T, object string, empty func() any) (apart bool) {
	t.Helper()
	got, want := empty(), empty()
	p, read := new(parts), []byte(object)
	if apart = p.decode(read, got); !apart {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.200s: something is left behind:\n%s", object, diff)
		}
		return false
	}
	for _, used := range [][]byte{read, p.rest} { // as by another object
		copy(used, bytes.Repeat([]byte("x"), len(used)))
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts([]byte(object), want); err != nil {
		t.Errorf("%.200s: %v, and no error apart", object, err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%.200s (-want +got):\n%s", object, cmp.Diff(want, got))
	}
	return true
}

func emptyVM() any  { return &v1.VirtualMachine{} }
func emptyVMI() any { return &v1.VirtualMachineInstance{} }

func TestDecodeApart(t *testing.T) {
	vmi := build.Typical("db").Label("team", "blue").With(func(s *v1.VirtualMachineInstanceSpec) {
		s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"010.0.0.1", "::1"}}
	})
	encoded := func(object any) string {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		object string
		empty  func() any
	}{
		"an instance":          {encoded(vmi.Obj()), emptyVMI},
		"a virtual machine":    {encoded(build.VMOf(vmi).Obj()), emptyVM},
		"spaces":               {` { "spec" : { "hostname" : "a" } , "metadata" : { "name" : "b" } } `, emptyVMI},
		"fields of two cases":  {`{"spec":{"HOSTNAME":"a"},"Spec":{"hostname":"b"}}`, emptyVMI},
		"the spec comes first": {`{"spec":{"template":{"spec":{"hostname":"a"},"metadata":{"labels":{"a":"b"}}},"running":true},"status":{"ready":true}}`, emptyVM},
		"two specs in turn":    {`{"spec":{"template":{"spec":{"hostname":"a"}}},"spec":{"running":true,"template":{}}}`, emptyVM},
		"specs elsewhere":      {`{"metadata":{"annotations":{"spec":"a"}},"spec":{"template":{"spec":{"hostname":"a","domain":{"cpu":{"model":"spec"}}}}}}`, emptyVM},
	} {
		if !sameAsWhole(t, c.object, c.empty) {
			t.Errorf("%s is not decoded apart", name)
		}
	}
	for name, c := range map[string]struct {
		object string
		empty  func() any
	}{
		"a spec twice":         {`{"spec":{"hostname":"a"},"spec":{"subdomain":"b"}}`, emptyVMI},
		"no spec":              {`{"metadata":{"name":"a"}}`, emptyVMI},
		"null":                 {`{"spec":null}`, emptyVMI},
		"a list":               {`{"spec":[]}`, emptyVMI},
		"no template":          {`{"metadata":{"name":"a"},"spec":{"running":true}}`, emptyVM},
		"a template that ends": {`{"metadata":{"name":"a"},"spec":{"template":{"spec":{"hostname":"a"}},"template":null}}`, emptyVM},
		"a wrong type":         {`{"metadata":{"name":"a"},"spec":{"hostname":1}}`, emptyVMI},
		"a wrong type around":  {`{"spec":{"hostname":"a"},"metadata":{"name":1}}`, emptyVMI},
		"not JSON":             {`{"spec":{"hostname":"a"},"metadata":{"name":"a"}`, emptyVMI},
		"not JSON in it":       {`{"spec":{"hostname":[1}},"metadata":{"name":"a"}}`, emptyVMI},
		"a pool":               {`{"spec":{"virtualMachineTemplate":{}}}`, func() any { return &v1.VirtualMachineInstanceReplicaSet{} }},
	} {
		if sameAsWhole(t, c.object, c.empty) {
			t.Errorf("%s is decoded apart", name)
		}
	}
}

// FuzzDecodeApart: what is decoded apart is the object.
func FuzzDecodeApart(f *testing.F) {
	f.Add(`{"spec":{"template":{"spec":{"hostname":"a"},"metadata":{"labels":{"a":"b"}}},"hostname":"b"},"status":{"ready":true}}`)
	f.Add(`{"metadata":{"name":"a"},"spec":{"domain":{"devices":{"disks":[{"name":"}"}]}}}}`)
	f.Fuzz(func(t *testing.T, object string) {
		sameAsWhole(t, object, emptyVM)
		sameAsWhole(t, object, emptyVMI)
	})
}
