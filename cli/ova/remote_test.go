package ova_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/vmdk"
)

// packed is an OVA of the example with a disk, a manifest and more files.
func packed(t *testing.T, more map[string]string) (archive []byte, manifest string) {
	t.Helper()
	descriptor, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var disk bytes.Buffer
	if err := vmdk.Write(&disk, bytes.NewReader(make([]byte, 1<<20)), 1<<20, "a.vmdk"); err != nil {
		t.Fatal(err)
	}
	manifest = fmt.Sprintf("SHA256(harbour-light.ovf)= %x\nSHA256(harbour-light-disk1.vmdk)= %x\n", sha256.Sum256(descriptor), sha256.Sum256(disk.Bytes()))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name, text string) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	add("harbour-light.ovf", string(descriptor))
	add("harbour-light.mf", manifest)
	for name, text := range more {
		add(name, text)
	}
	add("harbour-light-disk1.vmdk", disk.String())
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), manifest
}

// TestURL holds what is read of packages on web servers.
func TestURL(t *testing.T) {
	archive, _ := packed(t, nil)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("ETag", `"1"`)
		serve := func(data []byte) { http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data)) }
		switch r.URL.Path {
		case "/a.ova":
			serve(archive)
		case "/a.ova.gz":
			serve([]byte("\x1f\x8b\x08 compressed"))
		case "/whole.ova":
			_, _ = w.Write(archive)
		case "/login.ova":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		path, flags, verdict, says string
		code                       int
	}{
		{"/a.ova?token=secret", "", appliance.Importable, "", clitest.ExitOK},
		{"/a.ova", "--verify", appliance.Importable, "", clitest.ExitOK},
		{"/a.ova.gz", "", appliance.Rejected, "download and decompress it first", clitest.ExitFailed},
		{"/whole.ova", "", "", "the server does not send ranges of the file: download the file first", clitest.ExitFailed},
		{"/login.ova?token=secret", "", "", "/login.ova?redacted: the server answers 401 Unauthorized", clitest.ExitFailed},
		{"/none.ova", "", "", "the server answers 404 Not Found", clitest.ExitFailed},
	} {
		requests.Store(0)
		got := clitest.Call(t, "", append([]string{"ova", "inspect", "-o", "json", "--allow-http", server.URL + c.path}, strings.Fields(c.flags)...)...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, c.says) || strings.Contains(got.ErrOut, "secret") {
			t.Errorf("%s: got %d: %s", c.path, got.Code, got.ErrOut)
		}
		if c.verdict == "" {
			continue
		}
		var found appliance.Appliance
		clitest.Decode(t, json.Unmarshal, got.Out, &found)
		if found.Verdict != c.verdict || found.Package.Manifest != nil && found.Package.Manifest.Verified != (c.flags != "") || requests.Load() > 3 {
			t.Errorf("%s: %d requests, got %+v", c.path, requests.Load(), found.Package)
		}
	}
}

// TestBareURL holds that files are read beside a descriptor on the same server, and nowhere else.
func TestBareURL(t *testing.T) {
	descriptor, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	var text atomic.Value
	text.Store(string(descriptor))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		if r.URL.Path != "/d/harbour-light.ovf" {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text.Load().(string)))
	}))
	t.Cleanup(server.Close)
	inspect := func() clitest.Result {
		return clitest.Call(t, "", "ova", "inspect", "--allow-http", server.URL+"/d/harbour-light.ovf")
	}
	if got := inspect(); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "FileAbsent") || !strings.Contains(strings.Join(paths, " "), "/d/harbour-light-disk1.vmdk") {
		t.Errorf("got %d %s%s, %v", got.Code, got.Out, got.ErrOut, paths)
	}
	for href, reason := range map[string]string{"http://169.254.169.254/a": "RemoteReference", "../secret.vmdk": "UnsafeReference", "//example.com/a": "UnsafeReference"} {
		paths = nil
		text.Store(strings.Replace(string(descriptor), "harbour-light-disk1.vmdk", href, 1))
		if got := inspect(); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, reason) || strings.Contains(strings.Join(paths, " "), "secret") {
			t.Errorf("%s: got %d %s%s, %v", href, got.Code, got.Out, got.ErrOut, paths)
		}
	}
}

// TestCompressedArchive holds that compressed archives in files are read, and that others are named.
func TestCompressedArchive(t *testing.T) {
	archive, _ := packed(t, nil)
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write(archive) // a buffer returns no error
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.Write(archive) // as above
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		data []byte
		says string
	}{
		"gzip": {gz.Bytes(), ""}, "zstd": {zst.Bytes(), ""}, "xz": {append([]byte("\xfd7zXZ\x00"), make([]byte, 600)...), "decompressing the archive into a temporary file: a header is damaged"},
		"zip": {append([]byte("PK\x03\x04"), make([]byte, 600)...), "compressed with zip: decompress it first"}, "": {gz.Bytes()[:gz.Len()-20], "decompressing the archive"},
	} {
		file := filepath.Join(t.TempDir(), "a.ova")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		got := clitest.Call(t, "", "ova", "inspect", "-o", "json", file)
		if (got.Code == clitest.ExitOK) != (c.says == "") || !strings.Contains(got.ErrOut, c.says) || c.says == "" && !strings.Contains(got.Out, `"compression": "`+kind+`"`) {
			t.Errorf("%s: got %d %s%s", kind, got.Code, got.Out, got.ErrOut)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "virtward-disk-*")); err != nil || len(left) > 0 {
		t.Logf("temporary files: %v, %v", left, err)
	}
}

// TestSignature holds that only a certificate of an authority that the user names verifies a package.
func TestSignature(t *testing.T) {
	_, manifest := packed(t, nil)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Harbour"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	sum := sha256.Sum256([]byte(manifest))
	signed, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name string, data []byte) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	authority := write("ca.pem", certificate)
	good := "SHA256(harbour-light.mf)= " + hex.EncodeToString(signed) + "\n" + string(certificate)
	wrong := "SHA256(harbour-light.mf)= 00" + hex.EncodeToString(signed)[2:] + "\n" + string(certificate)
	for name, c := range map[string]struct {
		text     string
		ca       bool
		code     int
		verified bool
		says     string
	}{
		"trusted":               {good, true, clitest.ExitOK, true, ""},
		"not trusted":           {good, false, clitest.ExitOK, false, ""},
		"wrong":                 {wrong, true, clitest.ExitFailed, false, "the signature is not that of the manifest"},
		"wrong and not trusted": {wrong, false, clitest.ExitOK, false, "SignatureInvalid"},
		"no signature":          {"hello", true, clitest.ExitFailed, false, "does not begin with one line"},
		"none":                  {"", true, clitest.ExitFailed, false, "the manifest has no signature"},
		"of another file":       {strings.Replace(good, "harbour-light.mf", "other.mf", 1), true, clitest.ExitFailed, false, "the signature is of another file"},
	} {
		more := map[string]string{"harbour-light.cert": c.text}
		if c.text == "" {
			more = nil
		}
		archive, _ := packed(t, more)
		args := []string{"ova", "inspect", "-o", "json", write("a.ova", archive)}
		if c.ca {
			args = append(args, "--certificate-authority", authority)
		}
		got := clitest.Call(t, "", args...)
		var found appliance.Appliance
		clitest.Decode(t, json.Unmarshal, got.Out, &found)
		verified := found.Package.Certificate != nil && found.Package.Certificate.Verified
		if got.Code != c.code || verified != c.verified || !strings.Contains(got.Out+got.ErrOut, c.says) {
			t.Errorf("%s: got %d, %+v %s", name, got.Code, found.Package.Certificate, got.ErrOut)
		}
	}
}

// TestArtifact holds that an OVA of a registry is inspected and converted by ranges, and nothing else is.
func TestArtifact(t *testing.T) {
	archive, _ := packed(t, nil)
	registry := artifactstest.New(t)
	registry.PushOVA(t, "appliances/harbour:v1", "harbour-light.ova", archive)
	registry.Push(t, "templates/web:v1", artifactstest.Variant{Object: `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"},"spec":{"template":{"spec":{}}}}`})
	base := "oci://" + registry.Host
	for _, c := range []struct {
		args, says string
		ranges     bool
		code       int
	}{
		{base + "/appliances/harbour:v1", "", true, clitest.ExitOK},
		{base + "/appliances/harbour:v1 --verify", "", true, clitest.ExitOK},
		{base + "/appliances/harbour:v1", "the registry does not send ranges of blobs", false, clitest.ExitFailed},
		{base + "/templates/web:v1", "the artifact is a VirtualMachine, not an OVA", true, clitest.ExitFailed},
		{base + "/appliances/harbour", "name a tag or a digest", true, clitest.ExitUsage},
	} {
		registry.NoRanges.Store(!c.ranges)
		registry.Requests()
		got := clitest.Call(t, "", append([]string{"ova", "inspect", "-o", "json", "--registry-plain-http"}, strings.Fields(c.args)...)...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, c.says) {
			t.Errorf("%s: got %d: %s", c.args, got.Code, got.ErrOut)
		}
		for _, request := range registry.Requests() {
			if strings.Contains(request, "/blobs/") && !strings.Contains(request, " bytes=") {
				t.Errorf("%s: the whole blob is requested: %s", c.args, request)
			}
		}
		if c.code != clitest.ExitOK {
			continue
		}
		var found appliance.Appliance
		clitest.Decode(t, json.Unmarshal, got.Out, &found)
		if found.Verdict != appliance.Importable || found.Source != "harbour-light.ova" || found.Package.Manifest.Verified != strings.Contains(c.args, "--verify") {
			t.Errorf("%s: got %+v", c.args, found)
		}
	}
	registry.NoRanges.Store(false)
	got := clitest.Call(t, "", "ova", "convert", "--registry-plain-http", base+"/appliances/harbour:v1", "--network", "Sea=none")
	if got.Code != clitest.ExitOK || !strings.Contains(got.Out, "kind: VirtualMachineTemplate") {
		t.Errorf("convert: %d: %s", got.Code, got.ErrOut)
	}
}
