package decode_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits/decode"
)

func TestProportionate(t *testing.T) {
	for quantity, want := range map[string]bool{
		"4Gi": true, "1e3": true, "1E": true, "1.5e+100": true, "9223372036854775807": true, "1e0000003": true, "": true,
		"12e45678x": false, "3b5e12345": true, "0e5d9e99999-4": true, "12345678-1e99999": true, " 1e99999999": false, "\u00a01e9999": false,
		strings.Repeat("9", 101) + "x": false, "9" + strings.Repeat("x", 101): true, "1e1000": false, "1e99999999": false, "1E-9999": false, strings.Repeat("9", 101): false,
	} {
		if got := decode.Parsable(quantity); got != want {
			t.Errorf("%s: %v, want %v", quantity, got, want)
		}
	}
}

func TestObject(t *testing.T) {
	digits := strings.Repeat("9", 101)
	for name, test := range map[string]struct{ object, want string }{
		"an ordinary object":                {`{"spec":{"domain":{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"500m"}}}}}`, ""},
		"a huge exponent":                   {`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
		"as a number":                       {`{"spec":{"domain":{"memory":{"guest":1e99999999}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
		"a tiny one":                        {`{"spec":{"domain":{"memory":{"guest":"1.e-99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1.e-99999999": a quantity with too many digits or too large an exponent`},
		"in a map":                          {`{"spec":{"domain":{"resources":{"limits":{"example.com/gpu":"1E+9999"}}}}}`, `spec.domain.resources.limits[example.com/gpu]: Invalid value: "1E+9999": a quantity with too many digits or too large an exponent`},
		"in a list":                         {`{"spec":{"volumes":[{"name":"a","emptyDisk":{"capacity":"1e9999"}}]}}`, `spec.volumes[0].emptyDisk.capacity: Invalid value: "1e9999": a quantity with too many digits or too large an exponent`},
		"many digits":                       {`{"spec":{"domain":{"memory":{"guest":"` + digits + `"}}}}`, `spec.domain.memory.guest: Invalid value: "` + digits[:40] + `… (101 characters)": a quantity with too many digits or too large an exponent`},
		"with space before it":              {`{"spec":{"domain":{"memory":{"guest":" 1e99999999"}}}}`, `spec.domain.memory.guest: Invalid value: " 1e99999999": a quantity with too many digits or too large an exponent`},
		"escaped further on":                {`{"spec":{"domain":{"memory":{"guest":"1\u006599999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
		"escaped in the exponent":           {`{"spec":{"domain":{"memory":{"guest":"1e9\u0039999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
		"very many finalizers":              {`{"metadata":{"finalizers":["a/b"` + strings.Repeat(`,"a/b"`, 40_000) + `],"name":"a"},"spec":{}}`, ""},
		"very many owners":                  {`{"metadata":{"name":"a","ownerReferences":[{"uid":"1"}` + strings.Repeat(`,{"uid":"2"}`, 40_000) + `]},"spec":{}}`, ""},
		"finalizers of the spec":            {`{"spec":{"finalizers":["a/b"` + strings.Repeat(`,"a/b"`, 40_000) + `]}}`, "the object has 40000 members and elements in it, where 15000 are the most"},
		"metadata in a list":                {`[{"metadata":{"finalizers":["a/b"` + strings.Repeat(`,"a/b"`, 40_000) + `]}}]`, "the object has 40000 members and elements in it, where 15000 are the most"},
		"metadata of the template":          {`{"spec":{"metadata":{"finalizers":["a/b"` + strings.Repeat(`,"a/b"`, 40_000) + `]}}}`, "the object has 40000 members and elements in it, where 15000 are the most"},
		"a value like metadata":             {`{"kind":"metadata","spec":{"finalizers":["a/b"` + strings.Repeat(`,"a/b"`, 40_000) + `]}}`, "the object has 40001 members and elements in it, where 15000 are the most"},
		"what is no quantity":               {`{"metadata":{"labels":{"commit":"1e99999999"}},"spec":{"hostname":"1e99999999"}}`, ""},
		"user data full of them":            {`{"spec":{"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"x: 1e99999999"}}]}}`, ""},
		"in another case":                   {`{"spec":{"domain":{"Memory":{"GUEST":"1e99999999"}}}}`, `spec.domain.Memory.GUEST: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
		"escaped":                           {`{"spec":{"domain":{"memory":{"guest":"\u0031e99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
		"a digest":                          {`{"spec":{"volumes":[{"name":"c","containerDisk":{"image":"1e45678"}}]}}`, ""},
		"a million strings":                 {`{"spec":{"dnsConfig":{"nameservers":["a"` + strings.Repeat(`,"a"`, 40_000) + `]}}}`, "the object has 40000 members and elements in it, where 15000 are the most"},
		"a million strings beside managers": {`{"metadata":{"managedFields":[{"a":[1,2]}],"labels":{"a":"b"}},"spec":{"dnsConfig":{"nameservers":["a"` + strings.Repeat(`,"a"`, 40_000) + `]}}}`, "the object has 40002 members and elements in it, where 15000 are the most"},
		"a manager of very much":            {`{"metadata":{"managedFields":[{"fieldsV1":{"f:spec":{` + strings.Repeat(`"f:a":{},`, 40_000) + `"f:b":{}}}}],"name":"a"},"spec":{}}`, ""},
		"no managers":                       {`{"metadata":{"managedFields":null,"labels":{` + strings.Repeat(`"a":"b",`, 40_000) + `"c":"d"}},"spec":{}}`, "the object has 40002 members and elements in it, where 15000 are the most"},
		"a name like the managers":          {`{"metadata":{"name":"managedFields","labels":{` + strings.Repeat(`"a":"b",`, 40_000) + `"c":"d"}},"spec":{}}`, "the object has 40002 members and elements in it, where 15000 are the most"},
		"managers at the end":               {`{"metadata":{"managedFields":[{}]},"spec":{"x":[` + strings.Repeat(`1,`, 40_000) + `1]}}`, "the object has 40001 members and elements in it, where 15000 are the most"},
		"a million values":                  {`{"spec":{"domain":{"devices":{"inputs":[` + strings.Repeat("{},", 10_000) + `{}]}}}}`, "the object has 10006 objects and lists in it, where 5000 are the most"},
		"braces in a string":                {`{"spec":{"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"` + strings.Repeat(`{[\"`, 10_000) + `"}}]}}`, ""},
		"a string without end":              {`{"spec":{"hostname":"\`, ""},
		"not JSON":                          {`{"a":1e99999`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := decode.Object([]byte(test.object), reflect.TypeFor[v1.VirtualMachineInstance]())
			switch {
			case err == nil && test.want != "", err != nil && decode.Describe(err) != test.want:
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// FuzzObject: an object in which nothing is found decodes, or fails to decode, in no time; the fuzzer
// itself notices an input that hangs.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`))
	f.Add([]byte(`{"spec":{"domain":{"resources":{"limits":{"cpu":"1.5e+100"}}}}}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		evaluated, err := decode.Evaluated(object, reflect.TypeFor[v1.VirtualMachineInstance]())
		if err != nil {
			return
		}
		var vmi, whole v1.VirtualMachineInstance
		read := json.Unmarshal(evaluated, &vmi)
		if json.Unmarshal(object, &whole) != nil {
			return
		}
		if read != nil {
			t.Fatalf("%s is decoded, and what is evaluated of it is not: %v", object, read)
		}
		if len(object) <= 8<<10 { // fewer owner references of more
			whole.ManagedFields, whole.Finalizers, vmi.ManagedFields, vmi.Finalizers = nil, nil, nil, nil
			if diff := cmp.Diff(whole, vmi, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("what is evaluated differs (-whole +evaluated):\n%s", diff)
			}
		}
	})
}

func BenchmarkObject(b *testing.B) {
	object := []byte(`{"spec":{"domain":{"memory":{"guest":"4Gi"}},"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"` + strings.Repeat("x: 1234 ", 300) + `"}}]}}`)
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if err := decode.Object(object, reflect.TypeFor[v1.VirtualMachineInstance]()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEvaluated(t *testing.T) {
	many := strings.Repeat(`{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"},`, 1000)
	for name, test := range map[string]struct{ object, want string }{
		"nothing to leave out":   {`{"metadata":{"name":"a"},"spec":{}}`, `{"metadata":{"name":"a"},"spec":{}}`},
		"in the middle":          {`{"metadata":{"a":1,"finalizers":["x"],"b":2}}`, `{"metadata":{"a":1,"b":2}}`},
		"first":                  {`{"metadata":{ "finalizers" : ["x"] , "b":2}}`, `{"metadata":{  "b":2}}`},
		"last":                   {`{"metadata":{"b":2 , "managedFields":[{"a":{"b":[1,2]}}]}}`, `{"metadata":{"b":2 }}`},
		"only":                   {`{"metadata":{"finalizers":["x"]}}`, `{"metadata":{}}`},
		"both, and nothing else": {`{"metadata":{"finalizers":["x"],"managedFields":[]}}`, `{"metadata":{}}`},
		"null":                   {`{"metadata":{"finalizers":null,"name":"a"}}`, `{"metadata":{"name":"a"}}`},
		"a value of that name":   {`{"metadata":{"name":"finalizers","namespace":"managedFields"}}`, `{"metadata":{"name":"finalizers","namespace":"managedFields"}}`},
		"few owners":             {`{"metadata":{"ownerReferences":[{"uid":"1"}],"name":"a"}}`, `{"metadata":{"ownerReferences":[{"uid":"1"}],"name":"a"}}`},
		"many owners":            {`{"metadata":{"ownerReferences":[` + many + `{"uid":"2","controller":true}],"name":"a"}}`, `{"metadata":{"ownerReferences":[{"uid":"2","controller":true}],"name":"a"}}`},
		"many owners at the end": {`{"metadata":{"finalizers":[],"ownerReferences":[` + many + `{"uid":"2"}]}}`, `{"metadata":{"ownerReferences":[]}}`},
		"no end":                 {`{"metadata":{"finalizers":["x"`, `{"metadata":{"finalizers":["x"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decode.Evaluated([]byte(test.object), reflect.TypeFor[v1.VirtualMachineInstance]())
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v, want %s", got, err, test.want)
			}
		})
	}
}
