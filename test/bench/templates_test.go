package bench

import (
	"bytes"
	"encoding/json"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/test/build"
)

// BenchmarkManyTemplates calls both webhooks with a VM that has about the maximum number of DataVolume templates.
func BenchmarkManyTemplates(b *testing.B) {
	vm := build.VMOf(build.VMI("many")).Obj()
	vm.Spec.DataVolumeTemplates = make([]kubevirtv1.DataVolumeTemplateSpec, 1_600)
	raw, err := json.Marshal(vm)
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Replace(bytes.Replace(review(b, raw), []byte(`"VirtualMachineInstance"`), []byte(`"VirtualMachine"`), -1), []byte(`"virtualmachineinstances"`), []byte(`"virtualmachines"`), -1)
	m, v := mutator(b), validator(b)
	for name, review := range map[string]func([]byte) error{
		"mutate":   func(body []byte) error { _, err := m.Review(b.Context(), body); return err },
		"validate": func(body []byte) error { _, err := v.Review(b.Context(), body); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := review(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
