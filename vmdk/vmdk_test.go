package vmdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// content is a disk with a first grain of noise, an empty table, text, and an odd size.
func content() []byte {
	const size = entriesPerTable*grainBytes + 3*grainBytes + 5*sector
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data[:grainBytes])
	copy(data[size-20:], "the end of the disk.")
	return data
}

func written(t testing.TB, data []byte) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, bytes.NewReader(data), int64(len(data)), "disk.vmdk"); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// readBack returns the content of a disk.
func readBack(d *Disk) ([]byte, error) {
	data := make([]byte, d.Capacity)
	err := d.Walk(func(offset int64, content []byte) error {
		copy(data[offset:], content)
		return nil
	})
	return data, err
}

// TestRoundTrip reads what Write writes, of several sizes. The same content gives the same bytes.
// polyglot is the descriptor of a VMDK, as QEMU recognizes it, that has the signature of another format too.
func polyglot(at int, signature string, size int) []byte {
	file := make([]byte, size)
	copy(file, "# x\n \r\nversion=1\nRW 1 FLAT \"/etc/shadow\" 0\n")
	copy(file[at:], signature)
	return file
}

func TestRoundTrip(t *testing.T) {
	for _, data := range [][]byte{content(), []byte("x"), make([]byte, grainBytes), bytes.Repeat([]byte{7}, grainBytes+1)} {
		file := written(t, data)
		if !bytes.Equal(file, written(t, data)) {
			t.Error("two files of the same content differ")
		}
		image, err := Inspect(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if image.Format != "vmdk" || image.VMDK.CreateType != "streamOptimized" {
			t.Errorf("got %+v", image)
		}
		got, err := readBack(image.VMDK)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, (len(data)+sector-1)/sector*sector)
		copy(want, data)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: the content differs", len(data))
		}
	}
}

// TestQEMU compares with qemu-img: it reads what Write writes, and the package reads what it writes.
func TestQEMU(t *testing.T) {
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed: the files are not compared with it (Debian: apt-get install qemu-utils)")
	}
	folder := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		command := exec.Command(program, args...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("qemu-img %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	data := content()
	for name, content := range map[string][]byte{"disk.raw": data, "disk.vmdk": written(t, data)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("check", "-f", "vmdk", "disk.vmdk")
	run("compare", "-f", "raw", "-F", "vmdk", "disk.raw", "disk.vmdk")
	for _, c := range []struct{ format, options string }{
		{"vmdk", "subformat=streamOptimized"}, {"vmdk", "subformat=monolithicSparse"}, {"qcow2", "compat=1.1"}, {"qcow2", "compat=0.10"}, {"vdi", ""}, {"vpc", "subformat=dynamic"}, {"vpc", "subformat=fixed"},
	} {
		args := []string{"convert", "-f", "raw", "-O", c.format}
		if c.options != "" {
			args = append(args, "-o", c.options)
		}
		run(append(args, "disk.raw", "their")...)
		file, err := os.ReadFile(filepath.Join(folder, "their"))
		if err != nil {
			t.Fatal(err)
		}
		image, err := Inspect(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		if image.Size < int64(len(data)) {
			t.Errorf("%v: the size is %d", c, image.Size)
		}
		if image.VMDK == nil {
			continue
		}
		got, err := readBack(image.VMDK)
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(sha256.Sum256(data), sha256.Sum256(got)); diff != "" {
			t.Errorf("%v: the content differs", c)
		}
	}
}

// patch changes bytes of a copy.
func patch(file []byte, at int, with ...byte) []byte {
	file = bytes.Clone(file)
	copy(file[at:], with)
	return file
}

// text replaces a text of the descriptor by one of the same length or shorter.
func text(t *testing.T, file []byte, before, after string) []byte {
	t.Helper()
	at := bytes.Index(file, []byte(before))
	if at < 0 || len(after) > len(before) {
		t.Fatalf("%q cannot become %q", before, after)
	}
	return patch(file, at, []byte(after+strings.Repeat("\n", len(before)-len(after)))...)
}

// number32 and number64 are numbers in the byte order of a VMDK.
func number32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func number64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// qcow2 is a header of version 3 whose table of clusters is in the file.
func qcow2() []byte {
	head := make([]byte, 4096)
	copy(head, "QFI\xfb")
	for at, value := range map[int]uint32{qcow2Version: 3, qcow2ClusterBits: 16, qcow2L1Size: 1, qcow2HeaderLength: 104} {
		binary.BigEndian.PutUint32(head[at:], value)
	}
	binary.BigEndian.PutUint64(head[qcow2Size:], 1<<30)
	binary.BigEndian.PutUint64(head[qcow2L1Offset:], 1024)
	return head
}

// TestHostileImages holds that each image which another program must not open is rejected, with the reason.
func TestHostileImages(t *testing.T) {
	good := written(t, content())
	end := len(good) - 2*sector // the footer
	directory := int(binary.LittleEndian.Uint64(good[end+56:])) * sector
	table := int(binary.LittleEndian.Uint32(good[directory:])) * sector
	grain := int(binary.LittleEndian.Uint32(good[table:])) * sector
	vhd := make([]byte, 2048)
	copy(vhd[1536:], "conectix")
	binary.BigEndian.PutUint64(vhd[1536+48:], 1024)
	vdi := make([]byte, 1024)
	copy(vdi[0x40:], "\x7f\x10\xda\xbe")
	binary.LittleEndian.PutUint64(vdi[0x170:], 1<<30)
	for name, c := range map[string]struct {
		file []byte
		want error
		says string
	}{
		"nothing":                           {nil, ErrInvalid, "empty"},
		"a short header":                    {good[:100], ErrInvalid, "less than a header"},
		"only a descriptor":                 {[]byte("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"), ErrReference, "other files"},
		"HTML":                              {[]byte("<html>not found</html>"), ErrInvalid, "text"},
		"gzip":                              {[]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"), ErrInvalid, "gzip"},
		"the capacity 0":                    {patch(good, 12, number64(0)...), ErrReference, "capacity 0"},
		"a capacity above the limit":        {patch(good, 12, number64(1<<50)...), ErrInvalid, "64 TiB"},
		"a capacity that overflows":         {patch(good, 12, number64(1<<63)...), ErrInvalid, "64 TiB"},
		"an unknown version":                {patch(good, 4, 9), ErrInvalid, "version 9"},
		"a transfer as text":                {patch(good, 73, 'x'), ErrInvalid, "transfer as text"},
		"the grain size 0":                  {patch(good, 20, number64(0)...), ErrInvalid, "grain size"},
		"a grain size of 1 GiB":             {patch(good, 20, number64(1<<21)...), ErrInvalid, "grain size"},
		"another table size":                {patch(good, 44, number32(1<<30)...), ErrInvalid, "entries"},
		"another compression":               {patch(good, 77, 9, 0), ErrInvalid, "compression 9"},
		"no descriptor":                     {patch(good, 36, number64(0)...), ErrInvalid, "no embedded descriptor"},
		"a descriptor of 1 TiB":             {patch(good, 36, number64(1<<31)...), ErrInvalid, "larger than 1 MiB"},
		"a descriptor outside of the file":  {patch(good, 28, number64(1<<40)...), ErrInvalid, "outside of the file"},
		"a flat extent":                     {text(t, good, "SPARSE \"disk.vmdk\"", "FLAT \"/etc/pass\" 0"), ErrReference, "type FLAT"},
		"two extents":                       {text(t, good, "# The Disk Data Base", "RW 1 SPARSE \"b.vmdk\""), ErrInvalid, "extent"},
		"no extent":                         {text(t, good, "RW ", "#W "), ErrReference, "0 extents"},
		"a parent":                          {text(t, good, "parentCID=ffffffff", "parentCID=00000001"), ErrParent, "parentCID"},
		"a parent's name":                   {text(t, good, "# The Disk Data Base\n#DDB", "parentFileNameHint=\"/a.v\""), ErrParent, "parentFileNameHint"},
		"a file of changes":                 {text(t, good, "# The Disk Data Base\n#DDB", "changeTrackPath=\"/etc/a\""), ErrReference, "changeTrackPath"},
		"an encrypted descriptor":           {text(t, good, "# The Disk Data Base\n#DDB", "encryption.keySafe=\"a\""), ErrEncrypted, "keySafe"},
		"another createType":                {text(t, good, `"streamOptimized"`, `"monolithicFlat"`), ErrReference, "monolithicFlat"},
		"no createType":                     {text(t, good, `createType`, `#`), ErrInvalid, "no createType"},
		"a footer of another capacity":      {patch(good, end+12, number64(1)...), ErrInvalid, "footer contradicts"},
		"no footer":                         {good[:end], ErrInvalid, ""},
		"zeros behind the end":              {append(bytes.Clone(good), make([]byte, 4096)...), ErrInvalid, "footer"},
		"a footer that refers to itself":    {patch(good, end+56, number64(directoryAtEnd)...), ErrInvalid, "place of the grain directory"},
		"a directory outside of the file":   {patch(good, end+56, number64(1<<50)...), ErrInvalid, "outside of the file"},
		"a directory in the header":         {patch(good, end+56, number64(0)...), ErrInvalid, "in the header"},
		"a table outside of the file":       {patch(good, directory, number32(1<<31)...), ErrInvalid, "truncated"},
		"a table in the header":             {patch(good, directory, number32(1)...), ErrInvalid, "in the header"},
		"a grain outside of the file":       {patch(good, table, number32(1<<31)...), ErrInvalid, "truncated"},
		"a grain in the header":             {patch(good, table, number32(3)...), ErrInvalid, "in the header"},
		"a grain of zeros without the flag": {patch(good, table, number32(1)...), ErrInvalid, "in the header"},
		"a grain of another place":          {patch(good, table+4, number32(uint32(grain/sector))...), ErrInvalid, "marker of the sector 0"},
		"a grain of 1 GiB":                  {patch(good, grain+8, number32(1<<30)...), ErrInvalid, "compressed grain"},
		"a grain that is not compressed":    {patch(good, grain+12, 1, 2, 3, 4), ErrInvalid, "zlib"},
		"a damaged grain":                   {patch(good, grain+40, 0xff, 0xff, 0xff, 0xff, 0xff), ErrInvalid, "grain"},
		"truncated":                         {good[:len(good)/2], ErrInvalid, ""},
		"a descriptor before zeros":         {append([]byte("# Disk DescriptorFile\nversion=1\n"), make([]byte, 4096)...), ErrReference, "descriptor of a VMDK"},
		"a descriptor in an ISO":            {polyglot(0x8001, "CD001", 0x9000), ErrReference, "descriptor of a VMDK"},
		"a descriptor in a VDI":             {polyglot(0x40, "\x7f\x10\xda\xbe", 0x400), ErrReference, "descriptor of a VMDK"},
		"QED":                               {append([]byte("QED\x00"), make([]byte, 4096)...), ErrInvalid, "QED"},
		"QED in an ISO":                     {append(append([]byte("QED\x00"), make([]byte, 0x8001-4)...), "CD001"...), ErrInvalid, "QED"},
		"LUKS":                              {append([]byte("LUKS\xba\xbe"), make([]byte, 4096)...), ErrEncrypted, "LUKS"},
		"a VHD whose copy has a parent":     {append(patch(vhd[1536:], 63, 4), patch(vhd[1536:], 63, 3)...), ErrParent, "differencing"},
		"an extent of ESX":                  {[]byte("COWD\x01\x00\x00\x00"), ErrReference, "ESX"},
		"VHDX":                              {[]byte("vhdxfile\x00\x00"), ErrInvalid, "VHDX"},

		"qcow2, truncated":                {qcow2()[:80], ErrInvalid, "truncated"},
		"qcow2 with a backing file":       {patch(qcow2(), qcow2Backing, 0, 0, 0, 0, 0, 0, 8), ErrParent, "backing file"},
		"qcow2 with a data file":          {patch(qcow2(), qcow2Incompatible+7, 4), ErrReference, "data file"},
		"qcow2 that names a data file":    {patch(qcow2(), 104, 0x44, 0x41, 0x54, 0x41, 0, 0, 0, 8), ErrReference, "names an external data file"},
		"qcow2 that names a format":       {patch(qcow2(), 104, 0xe2, 0x79, 0x2a, 0xca, 0, 0, 0, 3), ErrParent, "backing"},
		"qcow2 with AES":                  {patch(qcow2(), qcow2Encryption+3, 1), ErrEncrypted, "method 1"},
		"qcow2 with LUKS":                 {patch(qcow2(), qcow2Encryption+3, 2), ErrEncrypted, "method 2"},
		"qcow2 with an encryption header": {patch(qcow2(), 104, 0x05, 0x37, 0xbe, 0x77, 0, 0, 0, 16), ErrEncrypted, "encryption header"},
		"qcow2 of an unknown version":     {patch(qcow2(), qcow2Version+3, 1), ErrInvalid, "version 1"},
		"qcow2 with an unknown feature":   {patch(qcow2(), qcow2Incompatible, 1), ErrInvalid, "not known"},
		"qcow2 with the size 0":           {patch(qcow2(), qcow2Size, 0, 0, 0, 0, 0, 0, 0, 0), ErrInvalid, "virtual size"},
		"qcow2 of 1 EiB":                  {patch(qcow2(), qcow2Size, 0x10), ErrInvalid, "virtual size"},
		"qcow2 with clusters of 1 byte":   {patch(qcow2(), qcow2ClusterBits+3, 0), ErrInvalid, "clusters"},
		"qcow2 without its table":         {patch(qcow2(), qcow2L1Offset, 1), ErrInvalid, "truncated"},
		"qcow2 with endless extensions":   {patch(qcow2(), 104, bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 100)...), ErrInvalid, "extensions"},
		"a differencing VHD":              {patch(vhd, 1536+63, 4), ErrParent, "differencing"},
		"a dynamic VHD without its copy":  {patch(vhd, 1536+63, 3), ErrInvalid, "QEMU reads the file as a raw disk"},
		"a VHD of an unknown type":        {patch(vhd, 1536+63, 9), ErrInvalid, "type 9"},
		"a differencing VDI":              {patch(vdi, 0x4c, 4), ErrParent, "differencing"},
		"a VDI with a parent":             {patch(patch(vdi, 0x4c, 1), 0x1a8, 1), ErrParent, "parent"},
	} {
		t.Run(name, func(t *testing.T) {
			image, err := Inspect(bytes.NewReader(c.file), int64(len(c.file)))
			if err == nil && image.VMDK != nil {
				err = image.VMDK.Walk(func(int64, []byte) error { return nil })
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v: %s", err, c.want, c.says)
			}
		})
	}
	if image, err := Inspect(bytes.NewReader(patch(vhd, 1536+63, 2)), 2048); err != nil || image.Size != 2048 { // 1024 in the footer
		t.Errorf("a fixed VHD: %+v, %v", image, err)
	}
	for name, file := range map[string][]byte{"VMDK": good, "qcow2": qcow2(), "VHD": patch(vhd, 1536+63, 2), "VDI": patch(vdi, 0x4c, 1), "raw": make([]byte, 1024)} {
		if _, err := Inspect(bytes.NewReader(file), int64(len(file))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSharedPlaces holds that a small file cannot have many grains, or many tables of them.
func TestSharedPlaces(t *testing.T) {
	for message, grain := range map[string]uint32{"grains share": 20, "tables share": 0} {
		const capacity = 1 << 20 // sectors
		h := header{Magic: [4]byte{'K', 'D', 'M', 'V'}, Version: 1, Capacity: capacity, GrainSize: 8, DescriptorOffset: 1, DescriptorSize: 1, EntriesPerTable: 512, DirectoryOffset: 2}
		file, err := binary.Append(nil, binary.LittleEndian, &h)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, make([]byte, 100*sector-len(file))...)
		copy(file[sector:], "createType=\"monolithicSparse\"\nRW 1048576 SPARSE \"a\"\n")
		for i := range capacity / 8 / 512 {
			copy(file[2*sector+4*i:], number32(10))
		}
		for i := range 512 {
			copy(file[10*sector+4*i:], number32(grain))
		}
		d, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readBack(d); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), message) {
			t.Errorf("got %v, want an error with %q", err, message)
		}
	}
}

// FuzzInspect holds that no image makes the package panic.
func FuzzInspect(f *testing.F) {
	f.Add(written(f, bytes.Repeat([]byte{1}, 4096)))
	f.Add(qcow2())
	f.Fuzz(func(t *testing.T, data []byte) {
		image, err := Inspect(bytes.NewReader(data), int64(len(data)))
		if err != nil || image.VMDK == nil {
			return
		}
		total := int64(0)
		_ = image.VMDK.Walk(func(_ int64, content []byte) error {
			if total += int64(len(content)); total > 64<<20 {
				return errors.New("enough")
			}
			return nil
		})
	})
}
