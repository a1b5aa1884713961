package export_test

import (
	"os"
	"testing"

	"github.com/virtward/virtward/policies/export"
)

// BenchmarkExport is what a policy costs whenever it, or the cluster, changes.
func BenchmarkExport(b *testing.B) {
	spec, err := os.ReadFile("testdata/policies/everything.yaml")
	if err != nil {
		b.Fatal(err)
	}
	p := compile(b, "everything", string(spec))
	b.ReportAllocs()
	for b.Loop() {
		if native, problems := export.Export(p, cluster, noon); native == nil {
			b.Fatal(problems)
		}
	}
}
