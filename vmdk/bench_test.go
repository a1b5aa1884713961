package vmdk

import (
	"bytes"
	"io"
	"testing"
)

// BenchmarkMeasure compresses a disk of which a third is random, a third is text, and the rest is empty.
func BenchmarkMeasure(b *testing.B) {
	data := disk(96 << 20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Measure(io.Discard, bytes.NewReader(data), MeasureOptions{Capacity: int64(len(data)), Name: "disk.vmdk"}); err != nil {
			b.Fatal(err)
		}
	}
}
