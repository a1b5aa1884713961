package limits_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits"
)

func TestProportionate(t *testing.T) {
	for quantity, want := range map[string]bool{
		"4Gi": true, "1e3": true, "1E": true, "1.5e+100": true, "9223372036854775807": true, "1e0000003": true, "": true,
		"1e1000": false, "1e99999999": false, "1E-9999": false, strings.Repeat("9", 101): false,
	} {
		if got := limits.Proportionate(quantity); got != want {
			t.Errorf("%s: %v, want %v", quantity, got, want)
		}
	}
}

func TestObject(t *testing.T) {
	digits := strings.Repeat("9", 101)
	for name, test := range map[string]struct{ object, want string }{
		"an ordinary object":                {`{"spec":{"domain":{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"500m"}}}}}`, ""},
		"a huge exponent":                   {`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity of this length or exponent is out of all proportion`},
		"as a number":                       {`{"spec":{"domain":{"memory":{"guest":1e99999999}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity of this length or exponent is out of all proportion`},
		"a tiny one":                        {`{"spec":{"domain":{"memory":{"guest":"1.e-99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1.e-99999999": a quantity of this length or exponent is out of all proportion`},
		"in a map":                          {`{"spec":{"domain":{"resources":{"limits":{"example.com/gpu":"1E+9999"}}}}}`, `spec.domain.resources.limits[example.com/gpu]: Invalid value: "1E+9999": a quantity of this length or exponent is out of all proportion`},
		"in a list":                         {`{"spec":{"volumes":[{"name":"a","emptyDisk":{"capacity":"1e9999"}}]}}`, `spec.volumes[0].emptyDisk.capacity: Invalid value: "1e9999": a quantity of this length or exponent is out of all proportion`},
		"many digits":                       {`{"spec":{"domain":{"memory":{"guest":"` + digits + `"}}}}`, `spec.domain.memory.guest: Invalid value: "` + digits[:40] + `… (101 characters)": a quantity of this length or exponent is out of all proportion`},
		"what is no quantity":               {`{"metadata":{"labels":{"commit":"1e99999999"}},"spec":{"hostname":"1e99999999"}}`, ""},
		"user data full of them":            {`{"spec":{"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"x: 1e99999999"}}]}}`, ""},
		"in another case":                   {`{"spec":{"domain":{"Memory":{"GUEST":"1e99999999"}}}}`, `spec.domain.Memory.GUEST: Invalid value: "1e99999999": a quantity of this length or exponent is out of all proportion`},
		"escaped":                           {`{"spec":{"domain":{"memory":{"guest":"\u0031e99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity of this length or exponent is out of all proportion`},
		"a digest":                          {`{"spec":{"volumes":[{"name":"c","containerDisk":{"image":"1e45678"}}]}}`, ""},
		"a million strings":                 {`{"spec":{"dnsConfig":{"nameservers":["a"` + strings.Repeat(`,"a"`, 40_000) + `]}}}`, "the object has 40000 members and elements in it, where 30000 are the most"},
		"a million strings beside managers": {`{"metadata":{"managedFields":[{"a":[1,2]}],"labels":{"a":"b"}},"spec":{"dnsConfig":{"nameservers":["a"` + strings.Repeat(`,"a"`, 40_000) + `]}}}`, "the object has 40002 members and elements in it, where 30000 are the most"},
		"a manager of very much":            {`{"metadata":{"managedFields":[{"fieldsV1":{"f:spec":{` + strings.Repeat(`"f:a":{},`, 40_000) + `"f:b":{}}}}],"name":"a"},"spec":{}}`, ""},
		"no managers":                       {`{"metadata":{"managedFields":null,"labels":{` + strings.Repeat(`"a":"b",`, 40_000) + `"c":"d"}},"spec":{}}`, "the object has 40002 members and elements in it, where 30000 are the most"},
		"a name like the managers":          {`{"metadata":{"name":"managedFields","labels":{` + strings.Repeat(`"a":"b",`, 40_000) + `"c":"d"}},"spec":{}}`, "the object has 40002 members and elements in it, where 30000 are the most"},
		"managers at the end":               {`{"metadata":{"managedFields":[{}]},"spec":{"x":[` + strings.Repeat(`1,`, 40_000) + `1]}}`, "the object has 40001 members and elements in it, where 30000 are the most"},
		"a million values":                  {`{"spec":{"domain":{"devices":{"inputs":[` + strings.Repeat("{},", 10_000) + `{}]}}}}`, "the object has 10006 objects and lists in it, where 10000 are the most"},
		"braces in a string":                {`{"spec":{"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"` + strings.Repeat(`{[\"`, 10_000) + `"}}]}}`, ""},
		"a string without end":              {`{"spec":{"hostname":"\`, ""},
		"not JSON":                          {`{"a":1e99999`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := limits.Object([]byte(test.object), reflect.TypeFor[v1.VirtualMachineInstance]())
			switch {
			case err == nil && test.want != "", err != nil && limits.Describe(err) != test.want:
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
		if limits.Object(object, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil {
			return
		}
		var vmi v1.VirtualMachineInstance
		_ = json.Unmarshal(object, &vmi)
	})
}

func BenchmarkObject(b *testing.B) {
	object := []byte(`{"spec":{"domain":{"memory":{"guest":"4Gi"}},"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"` + strings.Repeat("x: 1234 ", 300) + `"}}]}}`)
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if err := limits.Object(object, reflect.TypeFor[v1.VirtualMachineInstance]()); err != nil {
			b.Fatal(err)
		}
	}
}
