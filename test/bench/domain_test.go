package bench

import (
	"testing"

	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

// BenchmarkDomain converts a typical instance to a libvirt domain.
func BenchmarkDomain(b *testing.B) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		b.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	vmi, host, err := domain.Preview(build.Typical("db").Obj(), &domain.Assumptions{})
	if err != nil {
		b.Fatal(err)
	}
	in := &domain.Input{VMI: vmi, Facts: facts, Host: host}
	converter, err := registry.Converter(facts.Hypervisor.Name, domain.ArchitectureOf(in))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := converter.Convert(in); err != nil {
			b.Fatal(err)
		}
	}
}
