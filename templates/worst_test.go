package templates

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/isolated"
)

// counter counts the numbers that are drawn.
type counter struct {
	Random

	drawn int
}

func (c *counter) IntN(n int) int {
	c.drawn++
	return c.Random.IntN(n)
}

// allocated returns the bytes that a function allocates.
func allocated(f func()) int64 {
	before := isolated.Allocated()
	f()
	return isolated.Allocated() - before
}

func templateWith(vm string, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
	return &v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &kruntime.RawExtension{Raw: []byte(vm)}, Parameters: parameters}
}

// Values with a leading zero are drawn again, each up to a hundred times.
func TestDrawsAreBounded(t *testing.T) {
	var members []string
	var parameters []v1beta1.Parameter
	for i := range v1beta1.MaxParameters {
		name := fmt.Sprintf("P%d", i)
		members = append(members, fmt.Sprintf("%q:%q", name, "${{"+name+"}}"))
		parameters = append(parameters, v1beta1.Parameter{Name: name, Generate: v1beta1.GenerateExpression, From: "0" + strings.Repeat("[0-9]{255}", 16)})
	}
	random := &counter{Random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // a test
	_, findings := Render(templateWith(`{"metadata":{"annotations":{`+strings.Join(members, ",")+`}}}`, parameters...), nil, Options{Random: random})
	if random.drawn > maxDrawn {
		t.Errorf("%d characters were drawn, more than %d", random.drawn, maxDrawn)
	}
	const want = "the generated values have more than 262144 characters together"
	if len(findings) == 0 || !Denied(findings) || !strings.Contains(findings[0].Error.Error(), want) {
		t.Errorf("the findings are %v, not %s", findings, want)
	}
}

// A generated value has at most 4096 bytes, whether they are drawn or not.
func TestGeneratedLength(t *testing.T) {
	for from, denied := range map[string]bool{
		strings.Repeat("a", maxGenerated): false, strings.Repeat("a", maxGenerated+1): true, strings.Repeat("a", maxGenerated-7) + "[a-z]{8}": true,
	} {
		_, findings := Render(templateWith(`{"metadata":{"annotations":{"a":"${A}"}}}`, v1beta1.Parameter{Name: "A", Generate: v1beta1.GenerateExpression, From: from}), nil, Options{Random: source()})
		if Denied(findings) != denied {
			t.Errorf("%d bytes: %v", len(from), findings)
		}
	}
}

// Users choose the names and the depth of fields, which are in the paths of findings, of what is unknown, and of what an
// approval does not cover.
func TestPathsAreBounded(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	long, many := strings.Repeat("k", 200<<10), 20_000
	deep := strings.Repeat(`{"`+strings.Repeat("k", 100)+`":`, 150)
	required := v1beta1.Parameter{Name: "A", Required: true}
	for name, spec := range map[string]*v1beta1.VirtualMachineTemplateSpec{
		"undefined parameters at a long name": templateWith(`{"metadata":{"annotations":{"` + long + `":[` + strings.Repeat(`"${B}",`, many) + `""]}}}`),
		"values at a long name":               templateWith(`{"metadata":{"annotations":{"` + long + `":[` + strings.Repeat(`"a",`, many) + `""]}}}`),
		"unknown values":                      templateWith(`{"metadata":{"finalizers":[`+strings.Repeat(`"${A}",`, many)+`""]}}`, required),
		"undefined parameters in the depth":   templateWith(`{"metadata":{"annotations":` + deep + `[` + strings.Repeat(`"${B}",`, many) + `""]` + strings.Repeat("}", 150) + `}}`),
	} {
		t.Run(name, func(t *testing.T) {
			const most = 64 << 20
			var findings int
			if bytes := allocated(func() {
				_, found := Preview(spec, nil, source())
				findings = len(found)
				FindUncovered(spec)
			}); bytes > most {
				t.Errorf("%d MiB are allocated", bytes>>20)
			}
			if findings == 0 || findings > maxFindings {
				t.Errorf("%d findings", findings)
			}
		})
	}
}

// A template has the same findings each time, also if it has too many.
func TestUndefinedInOrder(t *testing.T) {
	var members []string
	for i := range 3 * maxFindings {
		members = append(members, fmt.Sprintf(`"k%d":"${P%d}"`, i, i))
	}
	spec := templateWith(`{"metadata":{"annotations":{` + strings.Join(members, ",") + `}}}`)
	_, first := Render(spec, nil, Options{Random: source()})
	for range 5 {
		_, again := Render(spec, nil, Options{Random: source()})
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("findings (-first +again):\n%s", diff)
		}
	}
}

// Of very many values that are not known, nothing is known of the rest.
func TestUnknownIsBounded(t *testing.T) {
	previewed, findings := Preview(templateWith(`{"metadata":{"finalizers":[`+strings.Repeat(`"${A}",`, 20_000)+`""]}}`, v1beta1.Parameter{Name: "A", Required: true}), nil, source())
	if previewed == nil {
		t.Fatal(findings)
	}
	if n := len(previewed.Unknown); n != maxUnknown+2 {
		t.Errorf("%d paths are unknown", n)
	}
	for _, whole := range []string{"metadata", "spec"} {
		found := false
		for _, path := range previewed.Unknown {
			found = found || path == whole
		}
		if !found {
			t.Errorf("%s is known", whole)
		}
	}
}

// A value is parsed once, however often a template refers to it.
func TestValuesAreParsedOnce(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	large := "[" + strings.Repeat(`[],`, 1500) + "[]]"
	spec := templateWith(`{"spec":{"dataVolumeTemplates":[`+strings.Repeat(`"${{A}}",`, 1000)+`{}]}}`, v1beta1.Parameter{Name: "A", Value: large})
	const most = 32 << 20
	if bytes := allocated(func() { Render(spec, nil, Options{Random: source()}) }); bytes > most {
		t.Errorf("%d MiB are allocated", bytes>>20)
	}
}
