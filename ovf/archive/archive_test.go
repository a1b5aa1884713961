package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/vmdk"
)

const template = `
metadata: {name: mill}
spec:
  virtualMachine:
    spec:
      dataVolumeTemplates:
      - {metadata: {name: root}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}
      - {metadata: {name: data}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}
      - {metadata: {name: tools}, spec: {sourceRef: {kind: DataSource, name: a}, storage: {}}}
      template:
        spec:
          domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, bootOrder: 1, disk: {}}, {name: data, disk: {}}, {name: tools, cdrom: {bus: sata}}], interfaces: [{name: a, masquerade: {}}]}}
          networks: [{name: a, pod: {}}]
          volumes: [{name: root, dataVolume: {name: root}}, {name: data, dataVolume: {name: data}}, {name: tools, dataVolume: {name: tools}}]
`

func export(t testing.TB) *ovf.Export {
	t.Helper()
	parsed := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(template), parsed); err != nil {
		t.Fatal(err)
	}
	e, err := ovf.NewExport(parsed, ovf.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// disks are a disk with much text, one that is empty except for its end, and a CD.
func disks() map[string]Content {
	root := bytes.Repeat([]byte("the mill turns "), 300_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(root[1<<20 : 2<<20])
	clear(root[3<<20 : 4<<20])
	root = root[:len(root)/512*512]
	data := make([]byte, 40<<20)
	data[len(data)-1] = 7
	tools := bytes.Repeat([]byte("tools"), 50_001)
	copy(tools[32769:], "CD001")
	return map[string]Content{"root": bytes.NewReader(root), "data": bytes.NewReader(data), "tools": bytes.NewReader(tools)}
}

func made(t testing.TB) (*Archive, []byte) {
	t.Helper()
	a, err := New(export(t), disks(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	sum, err := a.Write(&file, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(file.Bytes())
	if sum != hex.EncodeToString(want[:]) || a.Size() != int64(file.Len()) {
		t.Fatalf("got the digest %s and %d bytes of %d", sum, a.Size(), file.Len())
	}
	return a, file.Bytes()
}

// TestBytes holds that two exports have the same bytes, and that each part of them can be written again.
func TestBytes(t *testing.T) {
	a, file := made(t)
	other, again := made(t)
	if !bytes.Equal(file, again) || a.Tag() != other.Tag() || len(a.Tag()) != 32 {
		t.Fatalf("two exports differ: %s %s", a.Tag(), other.Tag())
	}
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // repeatable
	for range 50 {
		from := random.Int64N(a.Size())
		up := min(a.Size(), from+random.Int64N(1<<(1+random.IntN(22))))
		var got bytes.Buffer
		if err := a.WriteRange(&got, from, up); err != nil || !bytes.Equal(got.Bytes(), file[from:up]) {
			t.Fatalf("the bytes %d to %d differ: %v", from, up, err)
		}
	}
	if err := iotest.TestReader(a.Reader(), file); err != nil {
		t.Error(err)
	}
}

// TestInspect lets an import read an export: the digests, the images and the template.
func TestInspect(t *testing.T) {
	_, file := made(t)
	found, err := appliance.Inspect("mill.ova", bytes.NewReader(file), appliance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if found.Verdict != appliance.Importable || !found.Package.Manifest.Verified || len(found.Rejections) > 0 {
		t.Fatalf("got %+v", found)
	}
	for _, w := range found.Warnings {
		if w.Code != ovf.Guessed {
			t.Errorf("the warning %+v", w)
		}
	}
	contents := disks()
	for _, d := range found.VirtualSystem.Disks {
		data, err := io.ReadAll(io.NewSectionReader(contents[d.DiskID], 0, contents[d.DiskID].Size()))
		if err != nil {
			t.Fatal(err)
		}
		want := sha256.Sum256(data)
		if d.ContentSHA256 != hex.EncodeToString(want[:]) || d.Image != "vmdk" || d.CapacityBytes != int64(len(data)) {
			t.Errorf("got %+v", d)
		}
	}
	template, err := found.Mapping.Template(ovf.TemplateOptions{Namespace: "shop"})
	if err != nil || template.Name != "mill" || len(template.Claims) != 3 || template.Claims[2].Href != "mill-tools.iso" {
		t.Errorf("got %+v, %v", template, err)
	}
	manifest := manifestIn(t, file)
	if !strings.HasPrefix(manifest, "SHA256(mill.ovf)= ") || strings.Count(manifest, "\n") != 4 {
		t.Errorf("got the manifest %s", manifest)
	}
}

// manifestIn is the second member of an archive.
func manifestIn(t *testing.T, file []byte) string {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(file))
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestServe downloads an OVA in three parts, the last two by resuming, and with another version.
func TestServe(t *testing.T) {
	a, file := made(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reader := a.Reader()
		defer reader.Close()
		w.Header().Set("ETag", `"`+a.Tag()+`"`)
		http.ServeContent(w, r, "mill.ova", time.Time{}, reader)
	}))
	defer server.Close()
	get := func(header ...string) (int, []byte) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, data
	}
	var got []byte
	for _, part := range []string{"bytes=0-99999", "bytes=100000-1000000", "bytes=1000001-"} {
		status, data := get("Range", part, "If-Range", `"`+a.Tag()+`"`)
		if status != http.StatusPartialContent {
			t.Fatal(status)
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, file) {
		t.Error("the parts differ from the file")
	}
	if status, data := get("Range", "bytes=5-", "If-Range", `"other"`); status != http.StatusOK || !bytes.Equal(data, file) {
		t.Errorf("another version: got %d and %d bytes", status, len(data))
	}
}

// large is content of which only two bytes are no zeros.
type large struct{ size int64 }

func (l large) Size() int64 { return l.size }

func (l large) ReadAt(into []byte, offset int64) (int, error) {
	clear(into)
	for _, at := range []int64{0, l.size - 1} {
		if at >= offset && at < offset+int64(len(into)) {
			into[at-offset] = 1
		}
	}
	return len(into), nil
}

func (l large) NextData(offset int64) (int64, error) {
	if offset <= 1<<16 {
		return offset, nil
	}
	return max(offset, l.size-1<<20), nil
}

// TestLarge holds that a member above 8 GiB has a header that tar reads, and that holes are not read.
func TestLarge(t *testing.T) {
	for _, n := range []int64{maxUSTAR, maxUSTAR + 1, 1 << 40} {
		data, err := header("a.iso", n)
		if err != nil || len(data) != blockSize {
			t.Fatal(err, len(data))
		}
		h, err := tar.NewReader(bytes.NewReader(data)).Next()
		if err != nil || h.Size != n || (data[124] == 0x80) != (n > maxUSTAR) {
			t.Errorf("got %+v, %v", h, err)
		}
	}
	contents := disks()
	contents["data"] = large{100 << 30}
	begin := time.Now()
	a, err := New(export(t), contents, Options{MaxTables: 3})
	if err != nil {
		t.Fatal(err)
	}
	if a.Size() > 20<<20 {
		t.Errorf("the archive has %d bytes", a.Size())
	}
	t.Logf("100 GiB of zeros in %s", time.Since(begin))
	if _, err := New(export(t), contents, Options{MaxTables: 2}); err == nil || !strings.Contains(err.Error(), "bytes that are not zeros") {
		t.Errorf("got %v", err)
	}
}

// TestVerify holds that the tag is found again, and that no byte can be another one, be missing or be too many.
func TestVerify(t *testing.T) {
	a, file := made(t)
	sum := sha256.Sum256(file)
	found, err := Verify(iotest.OneByteReader(bytes.NewReader(file)))
	if err != nil || found.Tag != a.Tag() || found.SHA256 != hex.EncodeToString(sum[:]) || len(found.Files) != 5 || found.Files[4] != a.Files[4] {
		t.Fatalf("got %+v, %v", found, err)
	}
	random := rand.New(rand.NewPCG(2, 2)) //nolint:gosec // repeatable
	offsets := []int64{0, 100, 257, blockSize - 1, blockSize, 2*blockSize - 1, a.Size() - 1, a.Size() - blockSize - 1}
	for range 40 {
		offsets = append(offsets, random.Int64N(a.Size()))
	}
	for _, at := range offsets {
		file[at] ^= 4
		if other, err := Verify(bytes.NewReader(file)); !errors.Is(err, ErrDamaged) && (err != nil || other.Tag == a.Tag()) {
			t.Errorf("the byte %d is another one: %+v, %v", at, other, err)
		}
		file[at] ^= 4
		if _, err := Verify(bytes.NewReader(file[:at])); !errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), "it ends too early") {
			t.Errorf("the file has %d bytes: %v", at, err)
		}
	}
	if _, err := Verify(bytes.NewReader(append(file, 0))); !errors.Is(err, ErrDamaged) || !strings.HasSuffix(err.Error(), "behind its end") {
		t.Errorf("got %v", err)
	}
	wrong := errors.New("wrong")
	if _, err := Verify(iotest.ErrReader(wrong)); !errors.Is(err, wrong) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// TestErrors holds what New and Write say of contents that cannot be read.
func TestErrors(t *testing.T) {
	contents := disks()
	delete(contents, "tools")
	if _, err := New(export(t), contents, Options{}); err == nil || err.Error() != "the volume tools has no content" {
		t.Errorf("got %v", err)
	}
	contents["tools"] = io.NewSectionReader(bytes.NewReader(nil), 0, 100)
	if _, err := New(export(t), contents, Options{}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "the volume tools: reading the disk at byte 0") {
		t.Errorf("got %v", err)
	}
	data := bytes.Repeat([]byte("a"), 1<<20)
	contents = disks()
	contents["root"] = bytes.NewReader(data)
	a, err := New(export(t), contents, Options{})
	if err != nil {
		t.Fatal(err)
	}
	data[70_000]++
	if _, err := a.Write(io.Discard, nil); !errors.Is(err, vmdk.ErrChanged) || !strings.Contains(err.Error(), "mill-root.vmdk") {
		t.Errorf("got %v", err)
	}
}

// TestProgress holds that the progress ends with everything.
func TestProgress(t *testing.T) {
	var last string
	note := func(done, all int64) { last = fmt.Sprintf("%d of %d", done, all) }
	a, err := New(export(t), disks(), Options{Progress: note})
	if err != nil {
		t.Fatal(err)
	}
	var all int64
	for _, c := range disks() {
		all += c.Size()
	}
	if want := fmt.Sprintf("%d of %d", all, all); last != want {
		t.Errorf("got %s, want %s", last, want)
	}
	if _, err := a.Write(io.Discard, note); err != nil || last != fmt.Sprintf("%d of %d", a.Size(), a.Size()) {
		t.Errorf("got %s, %v", last, err)
	}
}

// TestPrograms lets tar, sha256sum, qemu-img and virt-v2v read an OVA, where they are installed.
func TestPrograms(t *testing.T) {
	_, file := made(t)
	folder := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mill.ova", file)
	for name, content := range disks() {
		data, err := io.ReadAll(io.NewSectionReader(content, 0, content.Size()))
		if err != nil {
			t.Fatal(err)
		}
		write(name+".raw", data)
	}
	for _, command := range []string{
		"tar -xf mill.ova",
		"sha256sum --check --strict sums",
		"qemu-img check -f vmdk mill-root.vmdk",
		"qemu-img compare -f raw -F vmdk root.raw mill-root.vmdk",
		"qemu-img compare -f raw -F vmdk data.raw mill-data.vmdk",
		"cmp tools.raw mill-tools.iso",
	} {
		args := strings.Fields(command)
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("%s is not installed", args[0])
			continue
		}
		if args[0] == "sha256sum" {
			var sums strings.Builder
			for line := range strings.Lines(manifestIn(t, file)) {
				name, sum, _ := strings.Cut(strings.TrimPrefix(line, "SHA256("), ")= ")
				fmt.Fprintf(&sums, "%s  %s\n", strings.TrimSpace(sum), name)
			}
			write("sums", []byte(sums.String()))
		}
		run := exec.CommandContext(t.Context(), args[0], args[1:]...)
		run.Dir = folder
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}
