package templates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
)

const previewed = `
virtualMachine:
  metadata: {name: "${NAME}", labels: {"${KEY}": a, b: "x-${KEY}"}}
  spec:
    instancetype: {name: "${TYPE}"}
    template: {spec: {domain: {cpu: {cores: "${{CORES}}"}, memory: {guest: "${MEM}"}}, terminationGracePeriodSeconds: "${{GRACE}}"}}
parameters:
- {name: NAME, required: true}
- {name: KEY, required: true, enum: [c, d]}
- {name: TYPE, value: small}
- {name: CORES, required: true}
- {name: GRACE, required: true, type: integer, minimum: 5}
- {name: MEM, required: true, type: quantity, maximum: 2Gi}
`

func previewSpec(t *testing.T) *v1beta1.VirtualMachineTemplateSpec {
	t.Helper()
	spec := &v1beta1.VirtualMachineTemplateSpec{}
	if err := yaml.UnmarshalStrict([]byte(previewed), spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestPreview(t *testing.T) {
	random := source()
	got, findings := Preview(previewSpec(t), map[string]string{"NAME": "web"}, random)
	if got == nil || Denied(findings) {
		t.Fatal(findings)
	}
	want := []string{
		"metadata.labels", "metadata.labels[b]", "spec.template.spec.domain.cpu.cores", "spec.template.spec.domain.memory.guest",
		"spec.template.spec.terminationGracePeriodSeconds",
	}
	if diff := cmp.Diff(want, got.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if vm := got.VirtualMachine; vm.Name != "web" || vm.Spec.Instancetype.Name != "small" || vm.Spec.Template.Spec.Domain.CPU.Cores != 0 {
		t.Errorf("got %+v", vm)
	}
	bad := previewSpec(t)
	bad.Parameters = bad.Parameters[1:]
	if got, findings := Preview(bad, nil, random); got != nil || !Denied(findings) {
		t.Errorf("got %+v, %v", got, findings)
	}
}

// Samples render, and a given value has none.
func TestSamples(t *testing.T) {
	spec := previewSpec(t)
	samples, ok := Samples(spec, map[string]string{"CORES": "4"})
	if diff := cmp.Diff(map[string]string{"NAME": "sample", "KEY": "c", "GRACE": "5", "MEM": "2Gi"}, samples); diff != "" || !ok {
		t.Errorf("(-want +got):\n%s", diff)
	}
	samples["CORES"] = "4"
	if rendered, findings := Render(spec, samples, Options{Random: source()}); rendered == nil {
		t.Error(findings)
	}
	spec.Parameters[0].Pattern = "web-[0-9]+"
	if samples, ok := Samples(spec, nil); ok {
		t.Errorf("samples %v", samples)
	}
}
