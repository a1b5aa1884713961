package instancetypes_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/instancetypes"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestInstancetypeFrom(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(`{"cpu":{"guest":4},"memory":{"guest":"1Gi"}}`))
	for name, tc := range map[string]struct {
		object string
		want   string // kind, name, vCPUs
		err    string
	}{
		"namespaced":          {`{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineInstancetype","metadata":{"name":"a"},"spec":{"cpu":{"guest":4},"memory":{"guest":"1Gi"}}}`, "VirtualMachineInstancetype/a 4", ""},
		"cluster-wide, v1":    {`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineClusterInstancetype","metadata":{"name":"a"},"spec":{"cpu":{"guest":4},"memory":{"guest":"1Gi"}}}`, "VirtualMachineClusterInstancetype/a 4", ""},
		"without a spec":      {`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineClusterInstancetype","metadata":{"name":"a"}}`, "VirtualMachineClusterInstancetype/a 0", ""},
		"revision":            {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"VirtualMachineClusterInstancetype","metadata":{"name":"a"},"spec":{"cpu":{"guest":4},"memory":{"guest":"1Gi"}}}}`, "VirtualMachineClusterInstancetype/a 4", ""},
		"revision, v1alpha2":  {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"apiVersion":"instancetype.kubevirt.io/v1alpha2","kind":"VirtualMachineInstancetype","metadata":{"name":"a"},"spec":{"cpu":{"guest":4,"model":"x","dedicatedCPUPlacement":true},"memory":{"guest":"1Gi"}}}}`, "VirtualMachineInstancetype/a 4", ""},
		"revision, spec only": {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r","labels":{"instancetype.kubevirt.io/object-name":"a","instancetype.kubevirt.io/object-kind":"VirtualMachineClusterInstancetype"}},"data":{"apiVersion":"instancetype.kubevirt.io/v1alpha1","spec":"` + encoded + `"}}`, "VirtualMachineClusterInstancetype/a 4", ""},

		"a preference":               {`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachinePreference","metadata":{"name":"a"}}`, "", `VirtualMachinePreference "a" where a VirtualMachineInstancetype or VirtualMachineClusterInstancetype is expected`},
		"no kind":                    {`{"metadata":{"name":"a"}}`, "", `an object without a kind "a" where a VirtualMachineInstancetype or VirtualMachineClusterInstancetype is expected`},
		"an unknown version":         {`{"apiVersion":"instancetype.kubevirt.io/v7","kind":"VirtualMachineInstancetype","metadata":{"name":"a"}}`, "", `VirtualMachineInstancetype "a" has apiVersion "instancetype.kubevirt.io/v7": the known ones are instancetype.kubevirt.io/ with v1, v1beta1, v1alpha2, v1alpha1`},
		"another group":              {`{"apiVersion":"example.com/v1","kind":"VirtualMachineInstancetype","metadata":{"name":"a"}}`, "", `VirtualMachineInstancetype "a" has apiVersion "example.com/v1": the known ones are instancetype.kubevirt.io/ with v1, v1beta1, v1alpha2, v1alpha1`},
		"spec of a wrong type":       {`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineInstancetype","metadata":{"name":"a"},"spec":7}`, "", `VirtualMachineInstancetype "a": spec is not an object`},
		"quantity that is none":      {`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineInstancetype","metadata":{"name":"a"},"spec":{"memory":{"guest":"much"}}}`, "", `VirtualMachineInstancetype "a": spec: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`},
		"revision of something else": {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"spec":{}}}`, "", `ControllerRevision r: data has no kind, so it does not hold a VirtualMachineInstancetype or VirtualMachineClusterInstancetype`},
		"revision without data":      {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"}}`, "", `ControllerRevision r: data is not an object that holds a VirtualMachineInstancetype or VirtualMachineClusterInstancetype`},
		"revision in a revision":     {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"kind":"ControllerRevision"}}`, "", `ControllerRevision r: data holds another ControllerRevision`},
		"revision, not base64":       {`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"spec":"%"}}`, "", `ControllerRevision r: data.spec is not base64: illegal base64 data at input byte 0`},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := instancetypes.InstancetypeFrom(object(t, tc.object))
			if err != nil {
				if err.Error() != tc.err {
					t.Errorf("want error %q\n       got %q", tc.err, err)
				}
				return
			}
			if got := fmt.Sprintf("%s/%s %d", in.Kind, in.Name, in.Spec.CPU.Guest); got != tc.want || tc.err != "" {
				t.Errorf("want %q, error %q; got %q", tc.want, tc.err, got)
			}
		})
	}
	if _, err := instancetypes.InstancetypeFrom(nil); err == nil {
		t.Error("nothing was read as an instancetype")
	}
}

func TestPreferenceFrom(t *testing.T) {
	pref, err := instancetypes.PreferenceFrom(object(t, `{"apiVersion":"instancetype.kubevirt.io/v1alpha1","kind":"VirtualMachineClusterPreference","metadata":{"name":"a"},"spec":{"cpu":{"preferredCPUTopology":"preferCores"},"firmware":{"preferredUseEfi":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if pref.Layer() != "preference/a" || *pref.Spec.CPU.PreferredCPUTopology != "preferCores" || !*pref.Spec.Firmware.DeprecatedPreferredUseEfi {
		t.Errorf("got %+v", pref)
	}
}

func TestReferences(t *testing.T) {
	status := func(revision string) *v1.InstancetypeStatusRef {
		return &v1.InstancetypeStatusRef{ControllerRevisionRef: &v1.ControllerRevisionRef{Name: revision}}
	}
	for name, tc := range map[string]struct {
		matcher *v1.InstancetypeMatcher
		status  *v1.InstancetypeStatusRef
		want    *instancetypes.Reference
		err     string
	}{
		"none":                {nil, nil, nil, ""},
		"by default":          {&v1.InstancetypeMatcher{Name: "a"}, nil, &instancetypes.Reference{Kind: "VirtualMachineClusterInstancetype", Name: "a"}, ""},
		"in lower case":       {&v1.InstancetypeMatcher{Name: "a", Kind: "virtualmachineinstancetype"}, nil, &instancetypes.Reference{Kind: "VirtualMachineInstancetype", Name: "a", Namespace: "ns"}, ""},
		"as a plural":         {&v1.InstancetypeMatcher{Name: "a", Kind: "VirtualMachineClusterInstancetypes"}, nil, &instancetypes.Reference{Kind: "VirtualMachineClusterInstancetype", Name: "a"}, ""},
		"by a revision":       {&v1.InstancetypeMatcher{Name: "a", RevisionName: "r"}, status("s"), &instancetypes.Reference{Kind: "VirtualMachineClusterInstancetype", Name: "a", Revision: "r"}, ""},
		"by the status":       {&v1.InstancetypeMatcher{Name: "a"}, status("s"), &instancetypes.Reference{Kind: "VirtualMachineClusterInstancetype", Name: "a", Revision: "s", RevisionFromStatus: true}, ""},
		"still to infer":      {&v1.InstancetypeMatcher{InferFromVolume: "root"}, nil, nil, ""},
		"of no kind":          {&v1.InstancetypeMatcher{Name: "a", Kind: "Size"}, nil, nil, `spec.instancetype.kind: Unsupported value: "Size": supported values: "VirtualMachineClusterInstancetype", "VirtualMachineInstancetype"`},
		"of the kind s":       {&v1.InstancetypeMatcher{Name: "a", Kind: "s"}, nil, nil, `spec.instancetype.kind: Unsupported value: "s": supported values: "VirtualMachineClusterInstancetype", "VirtualMachineInstancetype"`},
		"of no kind, revised": {&v1.InstancetypeMatcher{Name: "a", Kind: "Size", RevisionName: "r"}, nil, &instancetypes.Reference{Name: "a", Revision: "r"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
			vm.Spec.Instancetype, vm.Status.InstancetypeRef = tc.matcher, tc.status
			got, err := instancetypes.InstancetypeReference(vm)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if message := ""; err != nil || tc.err != "" {
				if err != nil {
					message = err.Error()
				}
				if message != tc.err {
					t.Errorf("want error %q\n       got %q", tc.err, message)
				}
			}
		})
	}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	vm.Spec.Preference = &v1.PreferenceMatcher{Name: "a", Kind: "VIRTUALMACHINEPREFERENCES"}
	vm.Status.PreferenceRef = status("s")
	got, err := instancetypes.PreferenceReference(vm)
	want := &instancetypes.Reference{Kind: "VirtualMachinePreference", Name: "a", Namespace: "ns", Revision: "s", RevisionFromStatus: true}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if got.RevisionCounts(map[string]string{"instancetype.kubevirt.io/object-name": "b"}) || got.RevisionCounts(nil) ||
		!got.RevisionCounts(map[string]string{"instancetype.kubevirt.io/object-name": "a"}) || !(&instancetypes.Reference{Revision: "r"}).RevisionCounts(nil) {
		t.Error("a revision from the status counts only while it is of the object that the VM names")
	}
}

func TestCheckMatchers(t *testing.T) {
	maybe, ignore := v1.InferFromVolumeFailurePolicy("Maybe"), v1.IgnoreInferFromVolumeFailure
	for name, tc := range map[string]struct {
		in   *v1.InstancetypeMatcher
		pref *v1.PreferenceMatcher
		want []string
	}{
		"in order":        {in: &v1.InstancetypeMatcher{InferFromVolume: "v", InferFromVolumeFailurePolicy: &ignore}, pref: &v1.PreferenceMatcher{Name: "p", Kind: "k"}},
		"empty":           {in: &v1.InstancetypeMatcher{}, pref: &v1.PreferenceMatcher{}, want: []string{`spec.instancetype: Not found: "": either name or inferFromVolume is needed`}},
		"empty, 2":        {pref: &v1.PreferenceMatcher{}, want: []string{`spec.preference: Not found: "": either name or inferFromVolume is needed`}},
		"both":            {in: &v1.InstancetypeMatcher{InferFromVolume: "v", Name: "n", Kind: "k"}, want: []string{`spec.instancetype.name: Unsupported value: "n": must not be set together with inferFromVolume, which determines it`, `spec.instancetype.kind: Unsupported value: "k": must not be set together with inferFromVolume, which determines it`}},
		"unknown failure": {in: &v1.InstancetypeMatcher{InferFromVolume: "v", InferFromVolumeFailurePolicy: &maybe}, want: []string{`spec.instancetype.inferFromVolumeFailurePolicy: Invalid value: "Maybe": must be Ignore or Reject`}},
	} {
		t.Run(name, func(t *testing.T) {
			vm := &v1.VirtualMachine{}
			vm.Spec.Instancetype, vm.Spec.Preference = tc.in, tc.pref
			if diff := cmp.Diff(tc.want, messages(instancetypes.CheckMatchers(vm))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckMatcherUpdate(t *testing.T) {
	vm := func(name, revision string) *v1.VirtualMachine {
		vm := &v1.VirtualMachine{}
		vm.Spec.Preference = &v1.PreferenceMatcher{Name: name, RevisionName: revision}
		return vm
	}
	for name, tc := range map[string]struct {
		now, before *v1.VirtualMachine
		want        []string
	}{
		"another name, the same revision": {vm("b", "r"), vm("a", "r"), []string{`spec.preference.revisionName: Invalid value: "r": is a revision of "a", but the name is "b" now: clear revisionName, or name a revision of the new one`}},
		"another name and revision":       {vm("b", "s"), vm("a", "r"), nil},
		"the revision cleared":            {vm("b", ""), vm("a", "r"), nil},
		"the same":                        {vm("a", "r"), vm("a", "r"), nil},
		"removed":                         {&v1.VirtualMachine{}, vm("a", "r"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, messages(instancetypes.CheckMatcherUpdate(tc.now, tc.before))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNameAnnotations(t *testing.T) {
	got := instancetypes.NameAnnotations(&instancetypes.Instancetype{Kind: apikinds.VirtualMachineInstancetype, Name: "a"}, &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "b"})
	want := map[string]string{"kubevirt.io/instancetype-name": "a", "kubevirt.io/cluster-preference-name": "b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzInstancetypeFrom(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"spec":"e30="}}`))
	f.Add([]byte(`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineInstancetype","metadata":{"name":"a"},"spec":{"cpu":{"guest":1e30},"memory":{"guest":-1.5}}}`))
	f.Add([]byte(`{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachinePreference","metadata":[],"spec":{"devices":null,"annotations":{"a":7}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &unstructured.Unstructured{}
		if json.Unmarshal(data, &obj.Object) != nil {
			t.Skip()
		}
		_, _ = instancetypes.InstancetypeFrom(obj)
		_, _ = instancetypes.PreferenceFrom(obj)
	})
}
