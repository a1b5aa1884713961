package importserver

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
)

// repository is that of the layers.
const repository = "templates/web"

// layer is a disk that zstd compressed.
func layer(t testing.TB, raw []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	c, err := zstd.NewWriter(&out, options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// registered is a registry with a blob, which is not that of its digest if sent is another one.
func registered(t testing.TB, blob, sent []byte) (*artifactstest.Registry, transfer.File) {
	t.Helper()
	r := artifactstest.NewTLS(t)
	r.PushOVA(t, repository+":v1", "a.ova", sent)
	at := r.Host + "/" + repository + "@" + digest(blob)
	if !bytes.Equal(blob, sent) {
		r.Answer("/blobs/"+digest(blob), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sent) })
	}
	return r, transfer.File{Blob: at, Size: int64(len(blob))}
}

// zstdOf is the disk of the only file.
func zstdOf(blob []byte, size int64) transfer.Disk {
	return transfer.Disk{Name: "root", Compression: transfer.CompressionZstd, Format: "raw", MaxContent: size, Parts: []transfer.Part{{Size: int64(len(blob)), Digest: digest(blob)}}}
}

// TestLayer: the raw bytes of a layer are served from their start only, also while connections to the registry break.
func TestLayer(t *testing.T) {
	raw := guest(3 << 20)
	blob := layer(t, raw)
	r, file := registered(t, blob, blob)
	for name, breaks := range map[string]int64{"as it is": 0, "connections break": 200_000} {
		r.BreakAfter.Store(breaks)
		s := startTrusting(t, r.Authority, []transfer.File{file}, zstdOf(blob, int64(len(raw))))
		head, body, err := s.get(t, http.MethodHead, "/disks/0")
		if err != nil || head.code != http.StatusOK || head.length != int64(len(raw)) || head.header.Get("Accept-Ranges") != "none" || len(body) > 0 {
			t.Errorf("%s: HEAD: %d, %d bytes, %v", name, head.code, head.length, err)
		}
		for _, part := range []string{"", "bytes=1000-2000"} {
			got, body, err := s.get(t, http.MethodGet, "/disks/0", "Range", part)
			if err != nil || got.code != http.StatusOK || !bytes.Equal(body, raw) {
				t.Errorf("%s: GET %s: %d, %d bytes, %v", name, part, got.code, len(body), err)
			}
		}
		status := s.status(t)
		if status.Digest != transfer.DigestVerified || status.Completed != 2 || (status.Resumptions > 0) != (breaks > 0) || status.Format != "raw" {
			t.Errorf("%s: %+v", name, status)
		}
	}
}

// TestPaddedLayer: zeros follow a layer with fewer bytes than the claim that it was exported from.
func TestPaddedLayer(t *testing.T) {
	raw := guest(1 << 20)
	blob := layer(t, raw)
	r, file := registered(t, blob, blob)
	disk := zstdOf(blob, 3<<20+7)
	disk.Padded = true
	s := startTrusting(t, r.Authority, []transfer.File{file}, disk)
	if _, body, err := s.get(t, http.MethodGet, "/disks/0"); err != nil || !bytes.Equal(body, append(bytes.Clone(raw), make([]byte, 2<<20+7)...)) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// TestBadLayers: CDI gets no complete disk of a layer that is not what the plan says.
func TestBadLayers(t *testing.T) {
	raw := guest(3 << 20)
	good := layer(t, raw)
	qcow2 := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 3<<20-8)...)
	vhd := append(bytes.Clone(raw[:3<<20-512]), append([]byte("conectix"), make([]byte, 504)...)...)
	damaged := bytes.Clone(good)
	damaged[len(damaged)/2] ^= 0xff
	for name, c := range map[string]struct {
		blob, sent []byte
		size       int64
		reason     string
		says       string
	}{
		"damaged":           {damaged, damaged, 3 << 20, string(oci.InvalidImage), "not valid zstd"},
		"shorter":           {good, good, 3<<20 + 1, string(oci.SizeMismatch), "ends 1 bytes before"},
		"longer":            {good, good, 3<<20 - 1, string(oci.SizeMismatch), "more raw bytes"},
		"no zstd":           {raw, raw, 3 << 20, string(oci.InvalidImage), "not valid zstd"},
		"a large window":    {layer(t, raw, zstd.WithWindowSize(16<<20)), layer(t, raw, zstd.WithWindowSize(16<<20)), 3 << 20, string(oci.LimitExceeded), "a window of more than 8 MiB"},
		"a header of qcow2": {layer(t, qcow2), layer(t, qcow2), 3 << 20, "InvalidImage", "root"},
		"a footer of VHD":   {layer(t, vhd), layer(t, vhd), 3 << 20, "InvalidImage", "root"},
		"a gzip file":       {layer(t, zipped(t, raw)), layer(t, zipped(t, raw)), int64(len(zipped(t, raw))), "InvalidImage", "compressed with"},
	} {
		r, file := registered(t, c.blob, c.sent)
		s := startTrusting(t, r.Authority, []transfer.File{file}, zstdOf(c.blob, c.size))
		got, body, err := s.get(t, http.MethodGet, "/disks/0")
		if got.code == http.StatusOK && err == nil && int64(len(body)) >= c.size {
			t.Errorf("%s: all of the disk is served", name)
		}
		p := s.problem(t)
		if !p.Permanent || p.Reason != c.reason || !strings.Contains(p.Message, c.says) {
			t.Errorf("%s: %+v", name, p)
		}
		if again, _, _ := s.get(t, http.MethodGet, "/disks/0"); again.code != http.StatusUnprocessableEntity && again.code != http.StatusBadGateway {
			t.Errorf("%s: the next request: %d", name, again.code)
		}
	}
}

// TestOtherLayer: the last block waits for the digest of the layer.
func TestOtherLayer(t *testing.T) {
	raw := guest(3 << 20)
	other := bytes.Clone(raw)
	other[2<<20+5] ^= 1
	blob, sent := layer(t, raw), layer(t, other)
	if len(blob) != len(sent) {
		t.Fatalf("%d and %d bytes", len(blob), len(sent))
	}
	r, file := registered(t, blob, sent)
	s := startTrusting(t, r.Authority, []transfer.File{file}, zstdOf(blob, 3<<20))
	_, body, err := s.get(t, http.MethodGet, "/disks/0")
	if err == nil || len(body) >= 3<<20 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	if p := s.problem(t); p.Reason != "ChecksumMismatch" || !p.Permanent || s.status(t).Digest != transfer.DigestMismatch {
		t.Errorf("%+v", s.status(t))
	}
}

// TestRegistryDown: a registry that does not answer is tried again with the next request.
func TestRegistryDown(t *testing.T) {
	raw := guest(1 << 20)
	blob := layer(t, raw)
	r, file := registered(t, blob, blob)
	r.Answer("/v2/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	s := startTrusting(t, r.Authority, []transfer.File{file}, zstdOf(blob, 1<<20))
	if got, _, _ := s.get(t, http.MethodGet, "/disks/0"); got.code != http.StatusBadGateway || s.problem(t).Permanent || strings.Contains(s.problem(t).Message, "127.0.0.1") {
		t.Errorf("%d, %+v", got.code, s.problem(t))
	}
	r.Answer("/v2/", nil)
	if got, body, err := s.get(t, http.MethodGet, "/disks/0"); err != nil || !bytes.Equal(body, raw) {
		t.Errorf("%d, %d bytes, %v", got.code, len(body), err)
	}
}

// TestNextImporter: an importer that is gone, and still has its connection, keeps no place from the next one of the disk.
func TestNextImporter(t *testing.T) {
	raw := guest(24 << 20)
	blob := layer(t, raw)
	r, file := registered(t, blob, blob)
	s := startTrusting(t, r.Authority, []transfer.File{file}, zstdOf(blob, int64(len(raw))))
	for range transfer.MaxDecompressed + 1 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/disks/0", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(transfer.TokenHeader, token)
		response, err := http.DefaultClient.Do(request) // the body is not read
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatal(response.Status)
		}
	}
	if got, body, err := s.get(t, http.MethodGet, "/disks/0"); err != nil || got.code != http.StatusOK || !bytes.Equal(body, raw) {
		t.Errorf("%d, %d bytes, %v", got.code, len(body), err)
	}
	if status := s.status(t); status.Problem != nil || status.Completed != 1 {
		t.Errorf("%+v", status)
	}
}
