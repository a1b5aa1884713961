package bench

import (
	"testing"

	"github.com/virtward/virtward/launcher"
)

// BenchmarkPod renders the pod of a VM with three disks and two interfaces.
func BenchmarkPod(b *testing.B) {
	in := rollout(b)
	pod := &launcher.Input{VMI: launcher.Started(in.Running, in.Facts), Facts: in.Facts, Renderer: launcher.NewBaseRenderer(in.Running.Spec.Architecture)}
	b.ReportAllocs()
	for b.Loop() {
		if result, err := launcher.Render(pod); err != nil || len(result.Demands) == 0 {
			b.Fatal(result, err)
		}
	}
}
