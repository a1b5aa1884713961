package exportserver

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/archive"
)

// TestArtifact downloads an OCI artifact as a whole and by resuming. Two servers serve the same bytes.
func TestArtifact(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.raw")
	if err := os.WriteFile(file, image(3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for range 2 {
		p := plan(t, "", file)
		p.Format, p.Disks = v1beta1.ExportOCI, []Disk{{Volume: "data", Path: file}}
		p.Template.Spec.VirtualMachine.Raw = bytes.ReplaceAll(p.Template.Spec.VirtualMachine.Raw, []byte(`{"name":"data"},"spec":{"sourceRef":{"kind":"DataSource","name":"a"}`), []byte(`{"name":"data"},"spec":{"source":{"pvc":{"name":"a"}}`))
		if found := p.Validate(); len(found) > 0 {
			t.Fatal(found)
		}
		s, err := New(Options{Plan: p, Token: token, Log: logr.Discard(), Metrics: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		address := served(t, s)
		if err := s.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		whole := get(t, http.MethodGet, address+"/export.oci.tar")
		if whole.code != http.StatusOK || whole.header.Get("Content-Type") != "application/x-tar" || !strings.Contains(whole.header.Get("Content-Disposition"), `"mill.oci.tar"`) {
			t.Fatalf("%d %v", whole.code, whole.header)
		}
		verified, err := archive.Verify(bytes.NewReader(whole.body))
		if err != nil || `"`+verified.Tag+`"` != whole.header.Get("ETag") || len(verified.Files) != 5 {
			t.Errorf("%+v %v", verified, err)
		}
		half := len(whole.body) / 2
		if rest := get(t, http.MethodGet, address+"/export.oci.tar", "Range", "bytes="+itoa(half)+"-", "If-Range", whole.header.Get("ETag")); rest.code != http.StatusPartialContent || !bytes.Equal(rest.body, whole.body[half:]) {
			t.Errorf("the rest: %d, %d bytes", rest.code, len(rest.body))
		}
		if ova := get(t, http.MethodGet, address+"/export.ova"); ova.code != http.StatusNotFound {
			t.Errorf("an OVA: %d", ova.code)
		}
		if first != nil && !bytes.Equal(first, whole.body) {
			t.Error("the servers serve different bytes")
		}
		first = whole.body
	}
	p := plan(t, "", file)
	p.Format = "ISO"
	if found := p.Validate(); len(found) == 0 || !strings.Contains(found[0].Error(), `format: Unsupported value: "ISO"`) {
		t.Error(found)
	}
}
