package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/archive"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/soak"
)

// exported is a template with one disk.
func exported(t testing.TB) *ovf.Export {
	t.Helper()
	template := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: mill}
spec:
  virtualMachine:
    spec:
      dataVolumeTemplates: [{metadata: {name: root}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}]
      template: {spec: {domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {}}]}}, volumes: [{name: root, dataVolume: {name: root}}]}}
`), template); err != nil {
		t.Fatal(err)
	}
	e, err := ovf.NewExport(template, ovf.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// rawDisk writes a sparse raw disk. A fifth of it is random, as much is numbers that compress, and the rest is a hole.
func rawDisk(t testing.TB, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "disk.raw")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	random := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 1<<20)
	for at := int64(0); at < size; at += 5 << 20 {
		_, _ = random.Read(block)
		if _, err := f.WriteAt(block, at); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(block); i += 8 {
			binary.LittleEndian.PutUint64(block[i:], uint64(at)+uint64(i)/3)
		}
		if _, err := f.WriteAt(block, at+1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return name
}

// fileContent is a file as a content.
type fileContent struct {
	*os.File

	size int64
}

func (f fileContent) Size() int64 { return f.size }

func contentOf(t testing.TB, name string) map[string]archive.Content {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]archive.Content{"root": fileContent{f, info.Size()}}
}

// BenchmarkExport makes an OVA: the first pass reads the disk, the second one writes. qemu-img converts the same disk in one pass.
func BenchmarkExport(b *testing.B) {
	const size = 320 << 20
	name := rawDisk(b, size)
	export, contents := exported(b), contentOf(b, name)
	var a *archive.Archive
	var err error
	b.Run("measure", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if a, err = archive.New(export, contents, archive.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if _, err := a.Write(io.Discard, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("qemu-img", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			convert(b, name)
		}
	})
}

// BenchmarkArtifact makes a layer of an artifact, as one of both passes of an export does, and reads it, as the server of an import does. The
// bytes are those of the disk.
func BenchmarkArtifact(b *testing.B) {
	const size = 320 << 20
	name := rawDisk(b, size)
	raw, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	var compressed bytes.Buffer
	to, err := oci.NewCompressor(&compressed)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(to, io.NewSectionReader(raw, 0, size)); err != nil {
		b.Fatal(err)
	}
	if err := to.Close(); err != nil {
		b.Fatal(err)
	}
	layer := oci.Descriptor{Digest: digest.FromBytes(compressed.Bytes()), Size: int64(compressed.Len())}
	b.Run("measure", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			measured, err := oci.Measure("root", io.NewSectionReader(raw, 0, size))
			if err != nil || measured.Digest != layer.Digest || measured.Size != layer.Size {
				b.Fatal(measured, err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			disk, err := oci.Decompress(oci.Verified(io.NopCloser(bytes.NewReader(compressed.Bytes())), &layer), &oci.Disk{Descriptor: layer, Size: size}, transfer.MaxWindow)
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, disk); err != nil || n != size {
				b.Fatal(n, err)
			}
			if err := disk.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// convert lets qemu-img convert a raw disk.
func convert(t testing.TB, name string) time.Duration {
	t.Helper()
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed")
	}
	begin := time.Now()
	if out, err := exec.Command(tool, "convert", "-O", "vmdk", "-o", "subformat=streamOptimized", name, name+".vmdk").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return time.Since(begin)
}

// TestExport makes an OVA of a disk with 20 GiB, of which 4 GiB are random. Its memory is bounded, and each pass has at least 60 percent of
// the speed of qemu-img.
func TestExport(t *testing.T) {
	soak.Only(t)
	name := rawDisk(t, 20<<30)
	export, contents := exported(t), contentOf(t, name)
	begin := time.Now()
	a, err := archive.New(export, contents, archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	measured := time.Since(begin)
	begin = time.Now()
	if _, err := a.Write(io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	written := time.Since(begin)
	var memory int64
	if _, err := fmt.Sscanf(anonymous(os.Getpid()), "%d kB", &memory); err != nil {
		t.Fatal(err)
	}
	converted := convert(t, name)
	t.Logf("measured in %s, written in %s, %d MB; qemu-img: %s", measured, written, memory/1000, converted)
	if memory > 97_656 {
		t.Errorf("the process has %d KiB of anonymous memory", memory)
	}
	if limit := converted * 10 / 6; measured > limit || written > limit {
		t.Errorf("a pass is slower than 60 percent of qemu-img")
	}
}
