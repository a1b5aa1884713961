package stages_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/importserver/stages"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
	"github.com/virtward/virtward/sources/web"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(content)
	must(t, errors.Join(err, z.Close()))
	return out.Bytes()
}

// TestRun holds what a copy writes over the file of CDI, and the codes of its errors.
func TestRun(t *testing.T) {
	content := bytes.Repeat([]byte("harbour light\n"), 1000)
	packed := gzipped(t, content)
	whole := func(file []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(file)))
			_, _ = w.Write(file)
		}
	}
	link := func(t *testing.T, folder string) {
		must(t, os.Remove(filepath.Join(folder, "disk.img")))
		must(t, os.Symlink("other", filepath.Join(folder, "disk.img")))
	}
	for name, test := range map[string]struct {
		serve       http.HandlerFunc
		prepare     func(*testing.T, string)
		compression string
		most        int64
		code        transfer.StageExit
	}{
		"plain":                      {serve: whole(content), most: 14_000},
		"gzip":                       {serve: whole(packed), compression: "gzip", most: 14_000},
		"xz":                         {serve: whole(xztest.Stored(content, 28)), compression: "xz", most: 14_000},
		"xz, damaged":                {serve: whole(xztest.Stored(content, 28)[:5000]), compression: "xz", most: 14_000, code: transfer.StageDamaged},
		"xz, too large":              {serve: whole(xztest.Stored(content, 28)), compression: "xz", most: 13_999, code: transfer.StageTooLarge},
		"xz with a large dictionary": {serve: whole(xztest.Stored(content, 29)), compression: "xz", most: 14_000, code: transfer.StageDictionary},
		"no file":                    {serve: whole(content), most: 14_000, prepare: func(t *testing.T, folder string) { must(t, os.Remove(filepath.Join(folder, "disk.img"))) }},
		"without a size": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(content[:7000])
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(content[7000:])
		}, most: 14_000},
		"too large": {serve: whole(content), most: 13_999, code: transfer.StageTooLarge},
		"too large without a size": {serve: func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(content)
		}, most: 13_999, code: transfer.StageTooLarge},
		"a bomb":  {serve: whole(packed), compression: "gzip", most: 13_999, code: transfer.StageTooLarge},
		"damaged": {serve: whole(content), compression: "zstd", most: 14_000, code: transfer.StageDamaged},
		"a connection that breaks": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content[:1000])
			panic(http.ErrAbortHandler)
		}, most: 14_000, code: transfer.StageUnavailable},
		"no such file": {serve: http.NotFound, most: 14_000, code: transfer.StageUnavailable},
		"a redirect to another host": {serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, most: 14_000, code: transfer.StageNotPermitted},
		"a link":    {serve: whole(content), most: 14_000, prepare: link, code: transfer.StageUnwritable},
		"no folder": {serve: whole(content), most: 14_000, prepare: func(t *testing.T, folder string) { must(t, os.RemoveAll(folder)) }, code: transfer.StageUnwritable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.serve)
			defer server.Close()
			folder := filepath.Join(t.TempDir(), "volume")
			must(t, os.Mkdir(folder, 0o700))
			must(t, os.WriteFile(filepath.Join(folder, "disk.img"), make([]byte, 100_000), 0o600))
			if test.prepare != nil {
				test.prepare(t, folder)
			}
			client, err := web.New(web.Options{
				Sources: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Timeout: time.Minute, Stall: time.Minute, Pause: time.Millisecond,
			})
			must(t, err)
			defer client.Close()
			c := stages.New(client, nil, &transfer.Stage{URL: server.URL, Compression: test.compression, MaxBytes: test.most}, &transfer.Volume{Folder: folder})
			err = c.Run(t.Context())
			var coded *transfer.ExitError
			if test.code != 0 {
				if !errors.As(err, &coded) || coded.Code != test.code {
					t.Errorf("got %v, %+v", err, coded)
				}
				return
			}
			must(t, err)
			got, err := os.ReadFile(filepath.Join(folder, "disk.img"))
			must(t, err)
			if !bytes.Equal(got, content) {
				t.Errorf("got %d bytes", len(got))
			}
			if s := c.Status(); s.Done == 0 || s.Total != 0 && s.Done != s.Total {
				t.Errorf("got the status %+v", s)
			}
		})
	}
}

// TestBlob holds that the blob of a registry is copied, also of one whose connections break, and that one with another digest is no copy.
func TestBlob(t *testing.T) {
	content := bytes.Repeat([]byte("harbour light\n"), 1000)
	packed := gzipped(t, content)
	other := bytes.Clone(packed)
	other[4]++ // the time of a file, so that its content is the same
	for name, test := range map[string]struct {
		// compression is that of the blob.
		compression string
		prepare     func(*artifactstest.Registry)
		change      func(*transfer.Stage)
		code        transfer.StageExit
	}{
		"a blob":         {},
		"without ranges": {prepare: func(r *artifactstest.Registry) { r.NoRanges.Store(true) }},
		"broken":         {prepare: func(r *artifactstest.Registry) { r.BreakAfter.Store(6000) }},
		"no such blob": {change: func(s *transfer.Stage) {
			s.Blob = strings.ReplaceAll(s.Blob, sumOf(content), strings.Repeat("0", 64))
		}, code: transfer.StageUnavailable},
		"another digest": {prepare: func(r *artifactstest.Registry) {
			r.Answer("/blobs/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.ToUpper(content)) })
		}, code: transfer.StageMismatch},
		"a compressed blob": {compression: "gzip"},
		"a compressed blob with another digest": {compression: "gzip", prepare: func(r *artifactstest.Registry) {
			r.Answer("/blobs/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(other) })
		}, code: transfer.StageMismatch},
		"a compressed blob with another end": {compression: "gzip", prepare: func(r *artifactstest.Registry) {
			r.Answer("/blobs/", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(append(slices.Clip(packed), 0))
			})
		}, code: transfer.StageMismatch},
		"another size": {change: func(s *transfer.Stage) { s.Size-- }, code: transfer.StageMismatch},
		"too large":    {change: func(s *transfer.Stage) { s.MaxBytes-- }, code: transfer.StageTooLarge},
		"a redirect": {prepare: func(r *artifactstest.Registry) {
			r.Answer("/blobs/", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
			})
		}, code: transfer.StageNotPermitted},
	} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			blob := map[string][]byte{"": content, "gzip": packed}[test.compression]
			registry.PushOVA(t, "appliances/quay:v1", "quay.ova", blob)
			if test.prepare != nil {
				test.prepare(registry)
			}
			options, stop, err := artifacts.Guarded(&web.Options{
				Sources: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Authorities: registry.Authority, Timeout: time.Minute, Stall: time.Minute, Pause: time.Millisecond,
			}, "")
			must(t, err)
			defer stop()
			plan := &transfer.Stage{Blob: registry.Host + "/appliances/quay@sha256:" + sumOf(blob), Size: int64(len(blob)), Compression: test.compression, MaxBytes: int64(len(content))}
			if test.change != nil {
				test.change(plan)
			}
			folder := t.TempDir()
			c := stages.New(nil, &options, plan, &transfer.Volume{Folder: folder})
			err = c.Run(t.Context())
			var coded *transfer.ExitError
			if test.code != 0 {
				if !errors.As(err, &coded) || coded.Code != test.code {
					t.Errorf("got %v, %+v", err, coded)
				}
				return
			}
			must(t, err)
			got, err := os.ReadFile(filepath.Join(folder, "disk.img"))
			must(t, err)
			if s := c.Status(); !bytes.Equal(got, content) || s.Done != plan.Size || s.Total != plan.Size {
				t.Errorf("got %d bytes, %+v", len(got), s)
			}
		})
	}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
