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

func TestQuantities(t *testing.T) {
	digits := strings.Repeat("9", 101)
	for name, test := range map[string]struct{ object, want string }{
		"an ordinary object":     {`{"spec":{"domain":{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"500m"}}}}}`, ""},
		"a huge exponent":        {`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity of this length or exponent is out of all proportion`},
		"as a number":            {`{"spec":{"domain":{"memory":{"guest":1e99999999}}}}`, `spec.domain.memory.guest: Invalid value: "1e99999999": a quantity of this length or exponent is out of all proportion`},
		"a tiny one":             {`{"spec":{"domain":{"memory":{"guest":"1.e-99999999"}}}}`, `spec.domain.memory.guest: Invalid value: "1.e-99999999": a quantity of this length or exponent is out of all proportion`},
		"in a map":               {`{"spec":{"domain":{"resources":{"limits":{"example.com/gpu":"1E+9999"}}}}}`, `spec.domain.resources.limits[example.com/gpu]: Invalid value: "1E+9999": a quantity of this length or exponent is out of all proportion`},
		"in a list":              {`{"spec":{"volumes":[{"name":"a","emptyDisk":{"capacity":"1e9999"}}]}}`, `spec.volumes[0].emptyDisk.capacity: Invalid value: "1e9999": a quantity of this length or exponent is out of all proportion`},
		"many digits":            {`{"spec":{"domain":{"memory":{"guest":"` + digits + `"}}}}`, `spec.domain.memory.guest: Invalid value: "` + digits[:40] + `… (101 characters)": a quantity of this length or exponent is out of all proportion`},
		"what is no quantity":    {`{"metadata":{"labels":{"commit":"1e99999999"}},"spec":{"hostname":"1e99999999"}}`, ""},
		"user data full of them": {`{"spec":{"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"x: 1e99999999"}}]}}`, ""},
		"not JSON":               {`{"a":1e99999`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := limits.Quantities([]byte(test.object), reflect.TypeFor[v1.VirtualMachineInstance]())
			switch {
			case err == nil && test.want != "", err != nil && err.Error() != test.want:
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// FuzzQuantities: an object in which nothing is found decodes, or fails to decode, in no time; the fuzzer
// itself notices an input that hangs.
func FuzzQuantities(f *testing.F) {
	f.Add([]byte(`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`))
	f.Add([]byte(`{"spec":{"domain":{"resources":{"limits":{"cpu":"1.5e+100"}}}}}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		if limits.Quantities(object, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil {
			return
		}
		var vmi v1.VirtualMachineInstance
		_ = json.Unmarshal(object, &vmi)
	})
}

func BenchmarkQuantities(b *testing.B) {
	object := []byte(`{"spec":{"domain":{"memory":{"guest":"4Gi"}},"volumes":[{"name":"c","cloudInitNoCloud":{"userData":"` + strings.Repeat("x: 1234 ", 300) + `"}}]}}`)
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if err := limits.Quantities(object, reflect.TypeFor[v1.VirtualMachineInstance]()); err != nil {
			b.Fatal(err)
		}
	}
}
