package importserver

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/vmdk"
)

// TestSoakDisk serves a large disk from a source whose connections break every 500 MB. A fifth of the disk does not compress.
func TestSoakDisk(t *testing.T) {
	soak.Only(t)
	soak.Programs(t, "qemu-img", "nbdkit")
	folder, gib := t.TempDir(), soak.Size(t)>>30
	file, sum := largeImage(t, folder, gib<<30)
	source := &soak.Origin{File: file} // qemu-img does not continue
	origin := httptest.NewServer(source)
	t.Cleanup(origin.Close)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	size := info.Size()

	target := filepath.Join(folder, "target.raw")
	direct := soak.Timed(func() {
		soak.Execute(t, "nbdkit", "-U", "-", "--readonly", "curl", "url="+origin.URL, "--run", fmt.Sprintf(`qemu-img convert -O raw "$uri" %s`, target))
	})
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}

	source.Cut = 500_000_000
	p := soak.Start(t, folder, "virtward-import-server", func(serving transfer.Serving) any {
		return &transfer.Plan{
			Files: []transfer.File{{URL: origin.URL, Size: size, Validator: `"1"`}}, Sources: transfer.Sources{Networks: []string{"127.0.0.1/32"}},
			Disks:   []transfer.Disk{{Name: "large.vmdk", Format: "vmdk", Parts: []transfer.Part{{Size: size, Digest: "sha256:" + sum}}}},
			Serving: serving,
		}
	})
	idle := p.Anonymous()
	scratch := filepath.Join(folder, "scratch.vmdk")
	through := soak.Timed(func() { p.Download(t, "/disks/0", scratch) })
	if got := soak.Digest(t, scratch); got != sum {
		t.Errorf("the disk has the digest %s, want %s", got, sum)
	}
	t.Logf("%d MB of a disk of %d GiB; connections broke %d times; RssAnon %d kB, at most %d kB", size/1_000_000, gib, source.Cuts.Load(), idle/1000, p.Most(t)/1000)
	soak.Speed(t, "one pass", direct, through)
	if source.Cuts.Load() < size/source.Cut {
		t.Errorf("connections broke %d times", source.Cuts.Load())
	}
}

// largeImage writes a streamOptimized VMDK of a size, and returns its name and digest.
func largeImage(t *testing.T, folder string, size int64) (name, sum string) {
	t.Helper()
	name = filepath.Join(folder, "large.vmdk")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hashed, out := sha256.New(), bufio.NewWriterSize(f, 1<<20)
	if err := vmdk.Write(io.MultiWriter(out, hashed), soak.NewFifth(), size, "large.vmdk"); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return name, hex.EncodeToString(hashed.Sum(nil))
}
