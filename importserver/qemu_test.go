package importserver

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/soak"
)

// secure serves over HTTPS, and returns the URL and the folder with the certificate, in a file as CDI gives it to nbdkit.
func (s *served) secure(t *testing.T) (url, folder string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := s.Route(r); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	folder = t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, folder
}

// TestImporter reads disks as CDI's importer does: nbdkit's curl plugin with the header and the certificate, and qemu-img behind it. The
// bytes of the guest are equal, also for images whose size is not a multiple of the blocks.
func TestImporter(t *testing.T) {
	soak.Programs(t, "qemu-img", "nbdkit")
	folder := t.TempDir()
	raw := filepath.Join(folder, "guest.raw")
	content := guest(9<<20 + 512)
	if err := os.WriteFile(raw, content, 0o600); err != nil {
		t.Fatal(err)
	}
	convert := func(format string, args ...string) []byte {
		t.Helper()
		file := filepath.Join(folder, "image."+format)
		soak.Execute(t, "qemu-img", append(append([]string{"convert", "-f", "raw", "-O", format}, args...), raw, file)...)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		format string
		data   []byte
	}{
		"our VMDK":        {"vmdk", image(t, content)},
		"QEMU's VMDK":     {"vmdk", convert("vmdk", "-o", "subformat=streamOptimized")},
		"sparse VMDK":     {"vmdk", convert("vmdk")},
		"qcow2":           {"qcow2", convert("qcow2")},
		"VDI":             {"vdi", convert("vdi")},
		"VHD":             {"vhd", convert("vpc", "-o", "subformat=dynamic,force_size=on")},
		"raw":             {"raw", content},
		"raw of odd size": {"raw", content[:5<<20+301]},
	} {
		t.Run(name, func(t *testing.T) {
			before := []byte("what is before the disk in the archive")
			u := &upstream{data: append(append(before, c.data...), "what is behind it"...), cut: 2 << 20}
			s := u.serve(t, transfer.Disk{Name: name, Format: c.format, Parts: []transfer.Part{{Offset: int64(len(before)), Size: int64(len(c.data)), Digest: digest(c.data)}}})
			url, certificates := s.secure(t)
			target := filepath.Join(t.TempDir(), "target.raw")
			read := fmt.Sprintf(`qemu-img info --output=json "$uri" && qemu-img convert -t none -T none -O raw "$uri" %s || qemu-img convert -O raw "$uri" %s`, target, target)
			soak.Execute(t, "nbdkit", "-U", "-", "--readonly", "curl", "url="+url+"/disks/0", "header="+transfer.TokenHeader+": "+token, "cainfo="+filepath.Join(certificates, "tls.crt"), "--run", read)
			got, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			want := content
			if c.format == "raw" {
				want = c.data
			}
			// qemu-img rounds up to sectors.
			if len(got) < len(want) || !bytes.Equal(got[:len(want)], want) || strings.Trim(string(got[len(want):]), "\x00") != "" {
				t.Errorf("the guest sees %d bytes, want %d", len(got), len(want))
			}
			if status := s.status(t); status.Problem != nil || status.Requests < 3 {
				t.Errorf("got %+v", status)
			}
		})
	}
}
