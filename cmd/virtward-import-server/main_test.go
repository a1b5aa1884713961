package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/importserver"
	"github.com/virtward/virtward/importserver/stages"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/webhooks/serving"
)

// idleBytes is the memory of the process without requests: measured 12 MB, without the binary's pages. limitBytes is the least memory
// limit of its container.
const (
	idleBytes  = 18 << 20
	limitBytes = 128 << 20
)

// TestMemory holds that the worst case is within the limit, and that the page has it.
func TestMemory(t *testing.T) {
	bounds := append([]memory.Bound{{Name: "idle", Subject: "idle process", Bytes: idleBytes, Reason: "measured: 12 MB, without the binary's pages"}, serving.ImportBound()}, importserver.Bounds()...)
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
	if served := memory.Total(importserver.Bounds()) - importserver.Bounds()[0].Bytes; stages.MaxMemory > served {
		t.Errorf("a copy needs %d MiB, and the disks, which it does not serve, %d MiB", mebibytes(stages.MaxMemory), mebibytes(served))
	}
	total := memory.Total(bounds)
	limit := int64(limitBytes / 100 * startup.MemoryPercent)
	if row := fmt.Sprintf("| **together** | **%d MiB** | %d percent of 128Mi are %d MiB |\n", mebibytes(total), startup.MemoryPercent, limit>>20); !strings.Contains(string(page), row) || total > limit {
		t.Errorf("docs/memory.md has no row %s", row)
	}
}

// TestFiles holds that files of the plan are bounded, and that a plan that is not valid is not served.
func TestFiles(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if text, err := startup.ReadText(write("secret\r\n")); err != nil || text != "secret" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := startup.ReadText(write(strings.Repeat("a", startup.MaxFile+1))); err == nil || !strings.HasSuffix(err.Error(), "has more than 1024 KiB") {
		t.Errorf("a large file: %v", err)
	}
	for text, want := range map[string]string{"{}": "the plan: files: Required value", "": "the plan: it is not valid JSON"} {
		if _, err := readPlan(write(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	connect := func(plan *transfer.Plan) error {
		o, err := sourceOptions(plan)
		if err == nil {
			_, err = web.New(*o)
		}
		return err
	}
	if err := connect(&transfer.Plan{AuthoritiesFile: write("none")}); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("no authority: %v", err)
	}
	if err := connect(&transfer.Plan{Credentials: &transfer.Credentials{UserFile: "/absent", PasswordFile: "/absent"}}); err == nil || !strings.HasPrefix(err.Error(), "reading the credentials") {
		t.Errorf("no credentials: %v", err)
	}
}

// TestStage holds with which code the program ends that copies a file: a complete copy succeeds, whatever the server of the progress says.
func TestStage(t *testing.T) {
	failed := errors.New("a client is still connected")
	whole := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "harbour") }
	afterwards := func(ctx context.Context) error { <-ctx.Done(); return failed }
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		serve  func(context.Context) error
		code   int
	}{
		"a copy": {whole, func(ctx context.Context) error { <-ctx.Done(); return nil }, 0},
		"a copy, and a server that ends with an error": {whole, afterwards, 0},
		"no file":                      {http.NotFound, afterwards, int(transfer.StageUnavailable)},
		"a server that does not serve": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(context.Context) error { return failed }, int(transfer.StageUnavailable)},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			defer server.Close()
			client, err := web.New(web.Options{Sources: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Timeout: time.Minute, Stall: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			folder := t.TempDir()
			err = stage(t.Context(), logr.Discard(), stages.New(client, nil, &transfer.Stage{URL: server.URL, MaxBytes: 7}, &transfer.Volume{Folder: folder}), test.serve)
			if test.code == 0 {
				if copied, _ := os.ReadFile(filepath.Join(folder, "disk.img")); err != nil || string(copied) != "harbour" {
					t.Errorf("%v, %q", err, copied)
				}
				return
			}
			coded := interface{ ExitCode() int }(nil)
			if !errors.As(err, &coded) || coded.ExitCode() != test.code || !errors.Is(err, failed) {
				t.Errorf("got %v", err)
			}
		})
	}
}
