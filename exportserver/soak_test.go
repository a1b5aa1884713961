package exportserver

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/soak"
)

// TestSoakExport exports a large disk, of which a fifth does not compress: a file of a volume, and at a URL whose connections break every
// 500 MB. Each of the two passes is compared with the conversion by qemu-img of the same source.
func TestSoakExport(t *testing.T) {
	soak.Only(t)
	soak.Programs(t, "qemu-img", "nbdkit")
	folder, size := t.TempDir(), soak.Size(t)
	raw := sparseImage(t, folder, size)
	source := &soak.Origin{File: raw}
	origin := httptest.NewServer(source)
	t.Cleanup(origin.Close)
	for _, c := range []struct {
		name    string
		disk    Disk
		convert []string
	}{
		{"volume", Disk{Volume: "root", Path: raw}, []string{"qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized", raw}},
		{"url", Disk{Volume: "root", URL: origin.URL}, []string{"nbdkit", "-U", "-", "--readonly", "curl", "url=" + origin.URL, "--run", `qemu-img convert -f raw -O vmdk -o subformat=streamOptimized "$uri" `}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			target := filepath.Join(folder, "target.vmdk")
			source.Cut = 0 // qemu-img does not continue
			direct := soak.Timed(func() {
				if c.disk.URL != "" {
					c.convert[len(c.convert)-1] += target
				} else {
					c.convert = append(c.convert, target)
				}
				soak.Execute(t, c.convert[0], c.convert[1:]...)
			})
			source.Cut = 500_000_000
			small := filepath.Join(folder, "small.img")
			if err := os.WriteFile(small, make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			p := soak.Start(t, folder, "virtward-export-server", func(serving transfer.Serving) any {
				all := plan(t, c.disk.URL, c.disk.Path)
				all.Disks, all.Headers, all.Serving, all.Sources = []Disk{c.disk, {Volume: "data", Path: small}}, nil, serving, transfer.Sources{Networks: []string{"127.0.0.1/32"}}
				return all
			})
			idle := p.Anonymous()
			var status Status
			measuring := soak.Timed(func() {
				for status.Phase != PhaseReady {
					<-time.After(100 * time.Millisecond)
					response := p.Get(t, "/status")
					err := json.NewDecoder(response.Body).Decode(&status)
					response.Body.Close()
					if err != nil || status.Phase == PhaseFailed {
						t.Fatalf("%+v, %v", status.Problem, err)
					}
				}
			})
			file := filepath.Join(folder, status.Name)
			downloading := soak.Timed(func() { p.Download(t, "/export.ova", file) })
			t.Logf("an OVA of %d MB; connections broke %d times; RssAnon %d kB, at most %d kB", status.Size/1_000_000, source.Cuts.Load(), idle/1000, p.Most(t)/1000)
			soak.Speed(t, "the measuring", direct, measuring)
			soak.Speed(t, "the download", direct, downloading)
			disk := extracted(t, file, status.Files[2].Name)
			soak.Execute(t, "qemu-img", "compare", "-f", "raw", "-F", "vmdk", raw, disk)
		})
	}
}

// sparseImage writes a raw image with holes.
func sparseImage(t *testing.T, folder string, size int64) string {
	t.Helper()
	name := filepath.Join(folder, "disk.img")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	content, block := soak.NewFifth(), make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(block)) {
		if _, err := io.ReadFull(content, block); err != nil {
			t.Fatal(err)
		}
		if at>>20%5 != 0 {
			continue
		}
		if _, err := f.WriteAt(block, at); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// extracted extracts a member of an OVA with tar.
func extracted(t *testing.T, archive, name string) string {
	t.Helper()
	folder := filepath.Dir(archive)
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("tar is not installed")
	}
	soak.Execute(t, "tar", "-xf", archive, "-C", folder, name)
	return filepath.Join(folder, name)
}
