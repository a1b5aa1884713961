package bench

import (
	"fmt"
	"strings"
	"testing"

	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/randomness"
)

// worstTemplates are the most expensive templates that were found. Each has at most the 1.5 MiB that etcd stores.
func worstTemplates() map[string]*v1beta1.VirtualMachineTemplateSpec {
	of := func(metadata string, parameters ...v1beta1.Parameter) *v1beta1.VirtualMachineTemplateSpec {
		vm := `{"metadata":{"name":"a",` + metadata + `},"spec":{"template":{"spec":{"domain":{"devices":{}}}}}}`
		return &v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &kruntime.RawExtension{Raw: []byte(vm)}, Parameters: parameters}
	}
	all := func(text string, number int) string {
		return strings.TrimSuffix(strings.Repeat(text+",", number), ",")
	}
	var members []string
	var generated, folded []v1beta1.Parameter
	for i := range v1beta1.MaxParameters {
		name := fmt.Sprintf("P%d", i)
		members = append(members, fmt.Sprintf("%q:%q", name, "${{"+name+"}}"))
		generated = append(generated, v1beta1.Parameter{Name: name, Generate: v1beta1.GenerateExpression, From: "0[0-9]{255}[0-9]{250}"})
		folded = append(folded, v1beta1.Parameter{Name: name, Pattern: "(?i)" + strings.Repeat("[a-z0-9]", 300)})
	}
	var texts []string
	for i := range 80 {
		texts = append(texts, fmt.Sprintf(`"t%d":"a: [\n${A}%s]"`, i, strings.Repeat(",{a: b}", 2000)))
	}
	long := strings.Repeat("k", 500<<10)
	return map[string]*v1beta1.VirtualMachineTemplateSpec{
		"numbers drawn again":     of(`"annotations":{`+strings.Join(members, ",")+`}`, generated...),
		"patterns to compile":     of(`"annotations":{}`, folded...),
		"patterns to match":       of(`"annotations":{"a":"${A}"}`, v1beta1.Parameter{Name: "A", Pattern: strings.Repeat("(a|b)*", 100) + "c", Value: strings.Repeat("ab", 14_000)}),
		"undefined at long paths": of(`"annotations":{"` + long + `":[` + all(`"${B}"`, 100_000) + `]}`),
		"values at long paths":    of(`"annotations":{"` + long + `":[` + all(`"b"`, 100_000) + `]}`),
		"references":              of(`"annotations":{"a":"`+strings.Repeat("${A}", 370_000)+`"}`, v1beta1.Parameter{Name: "A", Value: "\n"}),
		"whole references":        of(`"finalizers":[`+all(`"${{A}}"`, 150_000)+`]`, v1beta1.Parameter{Name: "A", Value: `"b"`}),
		"texts to compare":        of(`"annotations":{`+strings.Join(texts, ",")+`}`, v1beta1.Parameter{Name: "A", Generate: v1beta1.GenerateExpression, From: "[a-z]{8}"}),
		"objects of an enum":      of(`"annotations":{}`, v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterObject, Enum: strings.Split(all("{}", 300_000), ",")}),
		"quantities of an enum":   of(`"annotations":{}`, v1beta1.Parameter{Name: "A", Type: v1beta1.ParameterQuantity, Enum: strings.Split(all("1.23456789Gi", 100_000), ",")}),
	}
}

// BenchmarkWorstTemplate measures what the most expensive templates cost virtward-apiserver: the render and the digest of a
// creation, and the review of an approval. Nothing else of a request needs much processor time.
func BenchmarkWorstTemplate(b *testing.B) {
	for name, spec := range worstTemplates() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			template := &v1beta1.VirtualMachineTemplate{Spec: *spec}
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				templates.Render(spec, nil, templates.Options{Random: randomness.Source{}})
				templates.FindUncovered(spec)
				_, _ = templates.Digest(template)
			}
			b.ReportMetric(float64((cpuTime(b)-began).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}
