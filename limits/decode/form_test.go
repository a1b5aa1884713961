package decode_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/test/build"
)

func formOf(t testing.TB, object string, omit ...string) string {
	t.Helper()
	form, err := decode.Form([]byte(object), reflect.TypeFor[v1.VirtualMachineInstance](), omit...)
	if err != nil {
		return err.Error()
	}
	return string(form)
}

func TestForm(t *testing.T) {
	for name, test := range map[string]struct{ a, b string }{
		"the order of members":            {`{"spec":{"hostname":"a","subdomain":"b"}}`, ` { "spec" : { "subdomain" : "b" , "hostname":"a" } } `},
		"null":                            {`{"spec":{"hostname":"a","affinity":null}}`, `{"spec":{"hostname":"a"}}`},
		"the zero of a string":            {`{"spec":{"hostname":""}}`, `{"spec":{}}`},
		"the zero of a number":            {`{"spec":{"domain":{"cpu":{"cores":0}}}}`, `{"spec":{"domain":{"cpu":{}}}}`},
		"an empty list":                   {`{"spec":{"volumes":[]}}`, `{}`},
		"an empty map":                    {`{"spec":{"nodeSelector":{}}}`, `{}`},
		"empty structs in one another":    {`{"spec":{"domain":{"devices":{},"resources":{}}}}`, `{}`},
		"a quantity":                      {`{"spec":{"domain":{"memory":{"guest":"1024Mi"}}}}`, `{"spec":{"domain":{"memory":{"guest":"1Gi"}}}}`},
		"a quantity in a map":             {`{"spec":{"domain":{"resources":{"requests":{"cpu":1}}}}}`, `{"spec":{"domain":{"resources":{"requests":{"cpu":"1000m"}}}}}`},
		"a quantity that is always there": {`{"spec":{"volumes":[{"name":"a","emptyDisk":{"capacity":"0"}}]}}`, `{"spec":{"volumes":[{"name":"a","emptyDisk":{}}]}}`},
		"a string that is escaped":        {`{"spec":{"hostname":"\u0061\/"}}`, `{"spec":{"hostname":"a/"}}`},
		"a name that is escaped":          {`{"spec":{"\u0068ostname":"a"}}`, `{"spec":{"hostname":"a"}}`},
		"a time that is always there":     {`{"metadata":{"name":"a","creationTimestamp":null}}`, `{"metadata":{"name":"a"}}`},
	} {
		t.Run("the same but for "+name, func(t *testing.T) {
			if a, b := formOf(t, test.a), formOf(t, test.b); a != b || !strings.HasPrefix(a, "{") {
				t.Errorf("the forms are %s and %s", a, b)
			}
		})
	}
	for name, test := range map[string]struct{ a, b string }{
		"an empty object behind a pointer": {`{"spec":{"domain":{"devices":{"interfaces":[{"name":"a","bridge":{}}]}}}}`, `{"spec":{"domain":{"devices":{"interfaces":[{"name":"a","masquerade":{}}]}}}}`},
		"a false behind a pointer":         {`{"spec":{"domain":{"devices":{"autoattachPodInterface":false}}}}`, `{"spec":{"domain":{"devices":{}}}}`},
		"a quantity behind a pointer":      {`{"spec":{"domain":{"memory":{"guest":"0"}}}}`, `{"spec":{"domain":{"memory":{}}}}`},
		"the order of elements":            {`{"spec":{"volumes":[{"name":"a"},{"name":"b"}]}}`, `{"spec":{"volumes":[{"name":"b"},{"name":"a"}]}}`},
		"an empty element":                 {`{"spec":{"networks":[{}]}}`, `{"spec":{"networks":[]}}`},
		"a key of a map":                   {`{"metadata":{"labels":{"a":""}}}`, `{"metadata":{"labels":{}}}`},
		"a field that is not known":        {`{"spec":{"future":{}}}`, `{"spec":{}}`},
		"what a string could end":          {`{"spec":{"hostname":"a\",\"subdomain\":\"b"}}`, `{"spec":{"hostname":"a","subdomain":"b"}}`},
		"a quantity of another size":       {`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`, `{"spec":{"domain":{"memory":{"guest":"2e99999999"}}}}`},
	} {
		t.Run("different in "+name, func(t *testing.T) {
			if a, b := formOf(t, test.a), formOf(t, test.b); a == b || !strings.HasPrefix(a, "{") || !strings.HasPrefix(b, "{") {
				t.Errorf("the forms are %s and %s", a, b)
			}
		})
	}
	t.Run("without what is omitted", func(t *testing.T) {
		got := formOf(t, `{"metadata":{"finalizers":["a"],"labels":{"a":"b"}},"spec":{"volumes":[{"name":"a"}],"domain":{"devices":{"disks":[{"name":"a","disk":{"bus":"sata"}}]}}},"status":{"phase":"Running"}}`,
			"status", "metadata.finalizers", "spec.volumes", "spec.domain.devices.disks.disk")
		if want := `{"metadata":{"labels":{"a":"b",},},"spec":{"domain":{"devices":{"disks":[{"name":"a",},],},},},}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	for _, object := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `[1`, `{"a":"b}`, `{"a":?}`, `{} {}`, `{"a" 1}`, `{"\x":1}`, strings.Repeat("[", 1000)} {
		if got := formOf(t, object); got != "this is not the JSON of an object of the API" {
			t.Errorf("%.20s: %s", object, got)
		}
	}
}

// FuzzForm: writing an object again as its type does not change its form, and a form is that of itself.
func FuzzForm(f *testing.F) {
	seed := func(vmi *v1.VirtualMachineInstance) {
		object, err := json.Marshal(vmi)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(object)
	}
	seed(build.Typical("a").Obj())
	seed(build.VMI("b").Disk("root", v1.DiskBusSATA).Limit(corev1.ResourceMemory, "1Gi").With(func(spec *v1.VirtualMachineInstanceSpec) {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "e", VolumeSource: v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1e3")}}})
	}).Obj())
	f.Add([]byte(`{"spec":{"domain":{"resources":{"limits":{"cpu":"1.5e+100"}},"devices":{"interfaces":[{"name":"a","bridge":{}}]}},"nodeSelector":{"\u0061":""}}}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		kind := reflect.TypeFor[v1.VirtualMachineInstance]()
		if decode.Object(object, kind) != nil {
			return
		}
		var vmi v1.VirtualMachineInstance
		if json.Unmarshal(object, &vmi) != nil {
			return
		}
		once, err := json.Marshal(&vmi)
		if err != nil {
			return
		}
		form, err := decode.Form(once, kind)
		if err != nil {
			t.Fatalf("%s has no form: %v", once, err)
		}
		var again v1.VirtualMachineInstance
		if json.Unmarshal(once, &again) != nil {
			return
		}
		twice, err := json.Marshal(&again)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := decode.Form(twice, kind); err != nil || string(other) != string(form) {
			t.Errorf("%s and %s have different forms: %s and %s (%v)", once, twice, form, other, err)
		}
	})
}

func TestBrackets(t *testing.T) {
	many := strings.Repeat("[{},", 200)
	for object, want := range map[string]int{
		``: 0, `{}`: 1, `{"a":[{}]}`: 3,
		`{"{[":"{"}`: 4, // a few are not looked at
		many:         400,
		`["` + strings.Repeat("{", 5000) + `",` + many:                     401,
		`["` + strings.Repeat(`\"{`, 5000) + `",` + many:                   401,
		`["` + strings.Repeat(`\\`, 5000) + `",` + many:                    401,
		many + `"` + strings.Repeat("{", 5000):                             400, // a text that does not end
		many + `"` + strings.Repeat("{", 5000) + `\`:                       400,
		strings.Repeat("{", 5000):                                          5000,
		`["` + strings.Repeat("]", 5000) + `",` + strings.Repeat("{", 256): 257,
	} {
		if got := decode.Brackets([]byte(object)); got != want {
			t.Errorf("%.20s…: %d, want %d", object, got, want)
		}
	}
}
