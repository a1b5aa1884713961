package bench

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// worst are policies that take all that a policy may, each in another way, about an object with long texts.
var worst = map[string]string{
	"steps":        `{rego: {module: "package a\ndeny contains \"a\" if { some a in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]; some b in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]; some c in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]; some d in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]; some e in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]; a + b + c + d + e < 0 }"}}`,
	"hashes":       `{rego: {module: "package a\nr := [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\ndeny contains \"a\" if { some a in r; some b in r; some c in r; some d in r; some e in r; x := [a, b, c, d, e, input.vm.metadata.annotations.text]; x[0] < 0 }"}}`,
	"comparisons":  `{rego: {module: "package a\nr := [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\ndeny contains \"a\" if { some a in r; some b in r; some c in r; some d in r; input.object.spec == input.vm.spec; d < 0 }"}}`,
	"patterns":     `{rego: {module: "package a\ndeny contains \"a\" if { some i in numbers.range(1, 5000); regex.match(\"(a|b|c|d)*x\", input.vm.metadata.annotations.short) }"}}`,
	"yaml":         `{rego: {module: "package a\ndeny contains \"a\" if { some i in numbers.range(1, 5000); yaml.is_valid(sprintf(\"[%s%d]\", [input.vm.metadata.annotations.short, i])); i < 0 }"}}`,
	"expressions":  `{validations: [{message: m, expression: "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))"}, {message: m, expression: "lists.range(900).all(a, lists.range(901).all(b, a + b >= 0))"}]}`,
	"texts in CEL": `{validations: [{message: m, expression: "lists.range(900).all(a, vm.metadata.annotations['text'].contains('xyz'))"}, {message: m, expression: "lists.range(900).all(a, vm.metadata.annotations['short'].matches('(a|b|c|d)*x'))"}]}`,
}

// BenchmarkWorstPolicy measures the duration of policies that exceed their budgets.
func BenchmarkWorstPolicy(b *testing.B) {
	env := environment(b)
	facts, now := platform.Defaults(platform.Settings{}), time.Now()
	for name, spec := range worst {
		b.Run(name, func(b *testing.B) {
			policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "worst"}}
			if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
				b.Fatal(err)
			}
			set := policies.NewSet("virtward-system", policyOf(b, env, policy))
			vmi := complete(b, build.Typical("db").Obj())
			if strings.Contains(spec, "annotations") {
				vmi.Annotations = map[string]string{"text": strings.Repeat("a,", 100_000), "short": strings.Repeat("a,", 1_000)}
			}
			b.ReportAllocs()
			for b.Loop() {
				set.Evaluate(evaluated(vmi, facts), now)
			}
		})
	}
}
