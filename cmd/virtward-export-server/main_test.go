package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/webhooks/serving"
)

// idleBytes is the memory of the process without requests, without the binary's pages. limitBytes is the least memory limit of its container.
const (
	idleBytes  = 18 << 20
	limitBytes = 128 << 20
	measured   = "measured: 7 MB, without the binary's pages"
)

// TestMemory holds that the worst case is within the limit, and that the page has it.
func TestMemory(t *testing.T) {
	bounds := append([]memory.Bound{{Name: "idle", Subject: "idle process", Bytes: idleBytes, Reason: measured}, serving.ExportBound()}, exportserver.Bounds()...)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "memory.md"))
	if err != nil {
		t.Fatal(err)
	}
	mebibytes := func(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
	for _, b := range bounds {
		if row := fmt.Sprintf("| %s | %d MiB | %s |\n", b.Subject, mebibytes(b.Bytes), b.Reason); !strings.Contains(string(page), row) {
			t.Errorf("docs/memory.md has no row %s", row)
		}
	}
	total := memory.Total(bounds)
	limit := int64(limitBytes / 100 * startup.MemoryPercent)
	if row := fmt.Sprintf("| **together** | **%d MiB** | %d percent of 128Mi are %d MiB |\n", mebibytes(total), startup.MemoryPercent, limit>>20); !strings.Contains(string(page), row) || total > limit {
		t.Errorf("docs/memory.md has no row %s", row)
	}
}

const token = "a token of more than 16 bytes"

// written writes a file, and returns its name.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// started is a process that serves the content as the only disk, a client that trusts it, and its URL. The function ends the process.
func started(t *testing.T, content []byte) (client *http.Client, url string, stop context.CancelFunc, ended chan error) {
	t.Helper()
	model := httptest.NewTLSServer(nil) // it has a certificate for loopback
	model.Close()
	key, err := x509.MarshalPKCS8PrivateKey(model.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(kind string, data []byte) string {
		return written(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})))
	}
	template := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: mill}
spec:
  virtualMachine:
    spec:
      template:
        spec:
          domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {}}]}}
          volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]
`), template); err != nil {
		t.Fatal(err)
	}
	plan, err := json.Marshal(&exportserver.Plan{
		Template: template, Disks: []exportserver.Disk{{Volume: "root", Path: written(t, string(content))}},
		Serving: transfer.Serving{CertificateFile: encoded("CERTIFICATE", model.Certificate().Raw), KeyFile: encoded("PRIVATE KEY", key), TokenFile: written(t, token+"\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &options{plan: written(t, string(plan)), address: "127.0.0.1:0", grace: await.Patience}
	p, err := o.listen(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended = make(chan error, 1)
	go func() { ended <- p.serve(ctx) }()
	return model.Client(), "https://" + p.listening.Listener.Addr().String(), cancel, ended
}

// TestRun downloads the OVA from a process. The process ends when the download has ended.
func TestRun(t *testing.T) {
	content := make([]byte, 32<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	client, url, stop, ended := started(t, content)
	get := func(path string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(transfer.TokenHeader, token)
		return client.Do(request)
	}
	var status exportserver.Status
	await.Until(t, func() error {
		response, err := get("/status")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&status); err != nil || status.Phase != exportserver.PhaseReady {
			return fmt.Errorf("got %+v, %w", status, err)
		}
		return nil
	})
	download, err := get("/export.ova")
	if err != nil {
		t.Fatal(err)
	}
	defer download.Body.Close()
	stop()
	await.Until(t, func() error {
		if response, err := get("/healthz"); err == nil {
			response.Body.Close()
			return errors.New("it accepts requests")
		}
		return nil
	})
	if n, err := io.Copy(io.Discard, download.Body); err != nil || n != status.Size || n < int64(len(content)) {
		t.Errorf("got %d bytes of %d, %v", n, status.Size, err)
	}
	client.CloseIdleConnections()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFiles holds that a plan that is not valid is not served, and that its files must exist.
func TestFiles(t *testing.T) {
	for text, want := range map[string]string{"{}": "the plan: template: Required value", "": "the plan: it is not valid JSON", strings.Repeat(" ", transfer.MaxBytes+1): "has more than 900 KiB"} {
		if _, err := readPlan(written(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	if _, err := newClient(&exportserver.Plan{AuthoritiesFile: written(t, "none")}); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("no authority: %v", err)
	}
	if _, err := newClient(&exportserver.Plan{Headers: map[string]string{"x-token": "/absent"}}); err == nil || !strings.HasPrefix(err.Error(), "reading the header x-token: ") {
		t.Errorf("no header: %v", err)
	}
	if _, err := (&options{}).listen(logr.Discard()); err == nil || !strings.HasPrefix(err.Error(), "--plan is empty") {
		t.Errorf("no plan: %v", err)
	}
}
