package virtualimages

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/sources"
)

// head is the start of a file, with bytes at offsets.
func head(parts map[int]string) []byte {
	h := make([]byte, sources.HeadBytes)
	for offset, part := range parts {
		copy(h[offset:], part)
	}
	return h
}

func big(n uint64) string    { return string(binary.BigEndian.AppendUint64(nil, n)) }
func little(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

func TestCheck(t *testing.T) {
	const version3 = "\x00\x00\x00\x03"
	qcow2 := map[int]string{0: "QFI\xfb", 4: version3, 24: big(10 << 30)}
	with := func(offset int, part string) []byte {
		h := head(qcow2)
		copy(h[offset:], part)
		return h
	}
	vhd := []byte("conectix" + strings.Repeat("\x00", 40) + big(3<<30))
	for name, test := range map[string]struct {
		format     v1alpha1.DiskFormat
		head, tail []byte
		size       int64
		err        string
	}{
		"qcow2":                     {"qcow2", head(qcow2), nil, 10 << 30, ""},
		"qcow2 as raw":              {"raw", head(qcow2), nil, 10 << 30, "has the format qcow2, not raw"},
		"backing file":              {"qcow2", with(8, big(200)), nil, 10 << 30, "backing file"},
		"external data file":        {"qcow2", with(72, big(4)), nil, 10 << 30, "external data file"},
		"size without sense":        {"qcow2", with(24, big(1<<63)), nil, 0, ""},
		"vmdk":                      {"vmdk", head(map[int]string{0: "KDMV", 12: little(2048)}), nil, 1 << 20, ""},
		"descriptor before zeros":   {"raw", head(map[int]string{0: "#\nversion=1\n"}), nil, 0, "descriptor of a VMDK"},
		"descriptor in an iso":      {"iso", head(map[int]string{0: "# Disk DescriptorFile\n", 0x8001 - 0x10: "", 0x8001: "CD001"})[:0x8006], nil, 0, "descriptor of a VMDK"},
		"qed":                       {"raw", head(map[int]string{0: "QED\x00"}), nil, 0, "has the format QED, not raw"},
		"descriptor of a vmdk":      {"vmdk", []byte("# Disk DescriptorFile\nversion=1\n"), nil, 0, "descriptor of a VMDK"},
		"vdi":                       {"vdi", head(map[int]string{0x40: "\x7f\x10\xda\xbe", 0x170: little(5 << 20)}), nil, 5 << 20, ""},
		"vhd":                       {"vhd", vhd, nil, 3 << 30, ""},
		"vhd of a fixed size":       {"vhd", head(nil), vhd, 3 << 30, ""},
		"iso":                       {"iso", head(map[int]string{0x8001: "CD001"}), nil, 0, ""},
		"raw":                       {"raw", head(map[int]string{0: "\xeb\x63\x90", 510: "\x55\xaa"}), nil, 0, ""},
		"raw of zeros":              {"raw", head(nil), nil, 0, ""},
		"raw as qcow2":              {"qcow2", head(nil), nil, 0, "has the format raw, not qcow2"},
		"html":                      {"raw", []byte("\n<!DOCTYPE html><html>" + strings.Repeat("ü", 400)), nil, 0, "HTML or XML"},
		"json":                      {"raw", []byte(`{"error": "not found"}`), nil, 0, "is text"},
		"html as qcow2":             {"qcow2", []byte("<html>"), nil, 0, "HTML or XML"},
		"empty":                     {"raw", nil, nil, 0, "is empty"},
		"compressed":                {"qcow2", []byte("\xfd7zXZ\x00\x00"), nil, 0, ""},
		"kernel of Amazon's format": {"aki", head(nil), nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Check(test.format, test.head, test.tail)
			if h.VirtualSize != test.size {
				t.Errorf("size %d, want %d", h.VirtualSize, test.size)
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestDiskSize(t *testing.T) {
	qcow2 := head(map[int]string{0: "QFI\xfb", 4: "\x00\x00\x00\x03", 24: big(10 << 30)})
	for name, test := range map[string]struct {
		format v1alpha1.DiskFormat
		head   []byte
		bytes  int64
		size   int64
		err    string
	}{
		"qcow2":                {"qcow2", qcow2, 1 << 20, 10 << 30, ""},
		"raw":                  {"raw", head(nil), 5 << 20, 5 << 20, ""},
		"raw of unknown size":  {"raw", head(nil), -1, 0, ""},
		"iso":                  {"iso", head(map[int]string{0x8001: "CD001"}), 5 << 20, 5 << 20, ""},
		"compressed":           {"raw", []byte("\x1f\x8b\x08\x00"), 5 << 20, 0, ""},
		"compressed otherwise": {"raw", []byte("\x28\xb5\x2f\xfd"), 5 << 20, 0, "CDI reads no files that are compressed with zstd: use gzip or xz"},
		"another format":       {"raw", qcow2, 1 << 20, 0, "has the format qcow2, not raw"},
	} {
		t.Run(name, func(t *testing.T) {
			size, err := DiskSize(test.format, test.head, nil, test.bytes)
			if size != test.size || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%d, %v, want %d, %q", size, err, test.size, test.err)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("qcow2", head(map[int]string{0: "QFI\xfb", 24: big(1 << 40)}), []byte("conectix"))
	f.Add("raw", []byte("<html>"), []byte(nil))
	f.Fuzz(func(t *testing.T, format string, head, tail []byte) {
		h, err := Check(v1alpha1.DiskFormat(format), head, tail)
		if h.VirtualSize < 0 {
			t.Errorf("the size is %d", h.VirtualSize)
		}
		if err == nil && h.Text && !bytes.Equal(head, nil) {
			t.Error("text is accepted")
		}
	})
}
