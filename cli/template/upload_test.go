package template

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
	"github.com/virtward/virtward/vmdk"
)

// quay is a descriptor with one disk.
const quay = `<Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"><References><File ovf:id="f" ovf:href="a.vmdk"/></References>
<DiskSection><Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="1048576" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></DiskSection>
<VirtualSystem ovf:id="v"><Name>Quay</Name><OperatingSystemSection ovf:id="96"/><VirtualHardwareSection>
<Item><InstanceID>1</InstanceID><ResourceType>3</ResourceType><VirtualQuantity>1</VirtualQuantity></Item><Item><InstanceID>2</InstanceID><ResourceType>4</ResourceType><VirtualQuantity>64</VirtualQuantity></Item>
<Item><HostResource>ovf:/disk/d</HostResource><InstanceID>3</InstanceID><ResourceType>17</ResourceType></Item></VirtualHardwareSection></VirtualSystem></Envelope>`

// unreachable is in the error of a command whose file is accepted: its server does not answer.
const unreachable = "reading the cdiconfig config"

// disk is a VMDK with text at its beginning.
func disk(t *testing.T, text string) []byte {
	t.Helper()
	content := make([]byte, 1<<20)
	copy(content, text)
	var out bytes.Buffer
	if err := vmdk.Write(&out, bytes.NewReader(content), int64(len(content)), "a.vmdk"); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// write writes a file, and returns its name.
func write(t *testing.T, folder, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// read returns the error of an import of a file, up to the first request to the cluster.
func read(file string, args ...string) error {
	_, err := imported(append([]string{file, "-n", "templates", "--server", "http://127.0.0.1:1"}, args...)...)
	return err
}

// TestImportDescriptor holds which files beside a descriptor are read.
func TestImportDescriptor(t *testing.T) {
	good := disk(t, "boot")
	manifest := func(content []byte) []byte {
		return fmt.Appendf(nil, "SHA256(quay.ovf)= %x\nSHA256(a.vmdk)= %x\n", sha256.Sum256([]byte(quay)), sha256.Sum256(content))
	}
	refer := func(href string) string { return strings.Replace(quay, "a.vmdk", href, 1) }
	outside := write(t, t.TempDir(), "outside.vmdk", good)
	for name, c := range map[string]struct {
		descriptor string
		prepare    func(folder string)
		args       []string
		want       string
	}{
		"a disk":                   {quay, func(folder string) { write(t, folder, "a.vmdk", good) }, nil, unreachable},
		"a manifest":               {quay, func(folder string) { write(t, folder, "a.vmdk", good); write(t, folder, "quay.mf", manifest(good)) }, []string{"--verify", "Require"}, unreachable},
		"a link within the folder": {quay, func(folder string) { write(t, folder, "b.vmdk", good); link(t, "b.vmdk", folder) }, nil, unreachable},
		"chunks": {strings.Replace(quay, `ovf:id="f"`, `ovf:id="f" ovf:chunkSize="1000"`, 1), func(folder string) {
			write(t, folder, "a.vmdk.000000000", good[:1000])
			write(t, folder, "a.vmdk.000000001", good[1000:])
		}, nil, unreachable},
		"a chunk that is missing": {strings.Replace(quay, `ovf:id="f"`, `ovf:id="f" ovf:chunkSize="1000"`, 1), func(folder string) {
			write(t, folder, "a.vmdk.000000000", good[:1000])
			write(t, folder, "a.vmdk.000000002", good[1000:])
		}, nil, "a.vmdk: "},
		"no disk":     {quay, func(string) {}, nil, "MissingFile: the file a.vmdk is not in the package"},
		"no manifest": {quay, func(folder string) { write(t, folder, "a.vmdk", good) }, []string{"--verify", "Require"}, "--verify: the appliance has no manifest"},
		"another disk": {quay, func(folder string) {
			write(t, folder, "a.vmdk", good)
			write(t, folder, "quay.mf", manifest(outsideDisk(t)))
		}, nil, "the file does not have the digest of the manifest"},
		"a link out of the folder": {quay, func(folder string) { link(t, outside, folder) }, nil, "opening a.vmdk in the folder of the descriptor: "},
		"a folder":                 {quay, func(folder string) { write(t, folder, "a.vmdk/b", good) }, nil, "a.vmdk is not a regular file"},
		"a disk in a folder below": {refer("disks/a.vmdk"), func(folder string) { write(t, folder, "disks/a.vmdk", good) }, nil, "the file is not in the folder of the descriptor: move it there"},
		"a path":                   {refer("../a.vmdk"), func(string) {}, nil, "href leaves the folder of the descriptor"},
		"an absolute path":         {refer(outside), func(string) {}, nil, "href is an absolute path"},
		"a URL":                    {refer("https://example.com/a.vmdk"), func(string) {}, nil, "href is a URL"},
		"a path in the manifest": {quay, func(folder string) {
			write(t, folder, "a.vmdk", good)
			write(t, folder, "quay.mf", []byte("SHA256(b/c)= "+strings.Repeat("0", 64)))
		}, nil, "the file is not in the folder of the descriptor"},
		"a checksum": {quay, func(string) {}, []string{"--checksum", "sha256:" + strings.Repeat("0", 64)}, "--checksum is for an appliance in one file"},
		"a disk with a backing file": {quay, func(folder string) {
			write(t, folder, "a.vmdk", []byte("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"))
		}, nil, "a.vmdk: "},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			c.prepare(folder)
			if err := read(write(t, folder, "quay.ovf", []byte(c.descriptor)), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func outsideDisk(t *testing.T) []byte {
	t.Helper()
	return disk(t, "other")
}

// link makes a.vmdk a symbolic link.
func link(t *testing.T, target, folder string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(folder, "a.vmdk")); err != nil {
		t.Fatal(err)
	}
}

// ova is an archive with a descriptor and its disk.
func ova(t *testing.T, descriptor string, disk []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"quay.ovf", []byte(descriptor)}, {"a.vmdk", disk}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(f.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// packed compresses with a writer.
func packed(t *testing.T, content []byte, with func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	w := with(&out)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestImportCompressed holds which compressed archives and disks are read, and that no temporary file stays.
func TestImportCompressed(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	zip := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	zstandard := func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	whole := ova(t, quay, disk(t, "boot"))
	inside := ova(t, strings.Replace(quay, `ovf:id="f"`, `ovf:id="f" ovf:compression="gzip"`, 1), packed(t, disk(t, "boot"), zip))
	for name, c := range map[string]struct {
		content []byte
		args    []string
		want    string
	}{
		"quay.ova.gz":         {packed(t, whole, zip), nil, unreachable},
		"quay.ova.zst":        {packed(t, whole, zstandard), nil, unreachable},
		"quay.ova.xz":         {xztest.Stored(whole, 28), nil, unreachable},
		"damaged.ova.xz":      {xztest.Stored(whole, 28)[:2000], nil, "decompressing the archive into a temporary file: unexpected EOF"},
		"largest.ova.xz":      {xztest.Stored(whole, 30), nil, unreachable},
		"dictionary.ova.xz":   {xztest.Stored(whole, 31), nil, "decompressing the archive into a temporary file: xz needs a larger dictionary than is permitted"},
		"quay.ova.zip":        {[]byte("PK\x03\x04 and more"), nil, "the file is compressed with zip: decompress it first: unzip FILE"},
		"truncated.ova.gz":    {packed(t, whole, zip)[:500], nil, "decompressing the archive into a temporary file: unexpected EOF"},
		"compressed disk.ova": {inside, nil, unreachable},
		"skipped.ova":         {inside, []string{"--verify", "Skip"}, "the disk a.vmdk is compressed, so --verify Skip is not possible"},
		"other.ova.gz":        {packed(t, whole, zip), []string{"--checksum", "sha256:" + strings.Repeat("0", 64)}, "--checksum: "},
	} {
		t.Run(name, func(t *testing.T) {
			if err := read(write(t, t.TempDir(), name, c.content), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			left, err := os.ReadDir(temporary)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range left {
				if strings.HasPrefix(entry.Name(), "virtward-disk-") {
					t.Errorf("%s stays", entry.Name())
				}
			}
		})
	}
}

// TestImportNames holds the names of templates of files.
func TestImportNames(t *testing.T) {
	for file, want := range map[string]string{"a/Quay.OVA": "quay", "quay.ovf": "quay", "quay.ova.gz": "quay", "quay.tar.ZST": "quay", "quay.1.ova": "quay-1", "quay.oci.tar": "quay", "quay.OCI.tar": "quay-oci"} {
		i := &importing{from: file}
		if err := i.local(); err != nil || i.name != want {
			t.Errorf("%s: %q, %v", file, i.name, err)
		}
	}
}

// stored is an OCI layout with a template and its disk, and the disk in it.
func stored(t *testing.T, raw []byte, annotated func(*oci.Descriptor)) (file []byte, layer oci.Descriptor) {
	t.Helper()
	object, err := oci.NewObject([]byte(web))
	if err != nil {
		t.Fatal(err)
	}
	var compressed bytes.Buffer
	z, err := oci.NewCompressor(&compressed)
	if err == nil {
		_, err = z.Write(raw)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if layer, err = oci.Measure("root", bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	if annotated != nil {
		annotated(&layer)
	}
	made, err := oci.Pack(object, []oci.Descriptor{layer})
	if err != nil {
		t.Fatal(err)
	}
	index, err := oci.NewIndex([]*oci.Packed{made}, "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := oci.WriteLayout(&out, index, made, func(w io.Writer, _ *oci.Descriptor) error {
		_, err := w.Write(compressed.Bytes())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), layer
}

// web is a template that clones a disk.
const web = `{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"web"},"spec":{"parameters":[{"name":"NAME","required":true}],"virtualMachine":{"metadata":{"name":"${NAME}"},"spec":{` +
	`"dataVolumeTemplates":[{"metadata":{"name":"${NAME}-root"},"spec":{"source":{"pvc":{"name":"gold","namespace":"n"}},"storage":{}}}],` +
	`"template":{"spec":{"domain":{"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]}},"volumes":[{"name":"root","dataVolume":{"name":"${NAME}-root"}}]}}}}}}`

// TestImportStored holds which artifacts in files are accepted. No request is sent before all digests are compared.
func TestImportStored(t *testing.T) {
	raw := append([]byte("boot"), make([]byte, 1<<20-4)...)
	good, layer := stored(t, raw, nil)
	damaged := bytes.Clone(good)
	damaged[bytes.LastIndex(damaged, []byte("\x28\xb5\x2f\xfd"))+20] ^= 1
	backed, _ := stored(t, append([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x01\x00"), make([]byte, 1<<20)...), nil)
	longer, _ := stored(t, raw, func(d *oci.Descriptor) { d.Annotations["io.kubevirt.disk.size"] = "2097152" })
	claim, _ := stored(t, raw, func(d *oci.Descriptor) {
		delete(d.Annotations, "io.kubevirt.disk.size")
		d.Annotations["io.kubevirt.pvc.capacity"] = "2Mi"
	})
	for name, c := range map[string]struct {
		content []byte
		args    []string
		want    string
	}{
		"an artifact":             {good, nil, unreachable},
		"a compressed archive":    {packed(t, good, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), nil, unreachable},
		"its architecture":        {good, []string{"--platform", "amd64"}, unreachable},
		"a disk of a claim":       {claim, nil, unreachable},
		"another architecture":    {good, []string{"--platform", "arm64"}, `the artifact has no "arm64": choose one of amd64: use --platform`},
		"a network":               {good, []string{"--network", "a=b"}, "--network: the artifact is a template, and has no descriptor of OVF"},
		"a damaged layer":         {damaged, nil, "the disk root: "},
		"a damaged configuration": {bytes.Replace(good, []byte(`"name":"gold"`), []byte(`"name":"iron"`), 1), nil, "the blob has the digest"},
		"no layer":                {bytes.Replace(good, []byte("blobs/sha256/"+layer.Digest.Encoded()), []byte("blobs/sha256/"+strings.Repeat("0", 64)), 1), nil, "not an archive of tar, or is damaged"},
		"a smaller disk":          {longer, nil, "the disk root: the layer ends 1048576 bytes before the size of the disk"},
		"another format":          {backed, nil, "the disk root: "},
		"half of it":              {good[:1600], nil, "archive: it ends in the middle of index.json"},
		"a platform of an OVA":    {ova(t, quay, disk(t, "boot")), []string{"--platform", "amd64"}, "--platform needs an artifact, and "},
	} {
		t.Run(name, func(t *testing.T) {
			if err := read(write(t, t.TempDir(), "web.oci.tar", c.content), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestImportRecorded: artifacts that KubeVirt's exporter wrote are read. One that lacks a disk is rejected.
func TestImportRecorded(t *testing.T) {
	for file, want := range map[string]string{"vm-two-disks-arm64": unreachable, "template-no-disk": "the artifact has no disk for the volume root"} {
		if err := read("../../conformance/testdata/oci/" + file + ".oci.tar"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
