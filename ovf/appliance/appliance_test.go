package appliance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // of an old manifest
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/vmdk"
)

// entry is a member of an archive.
type entry struct {
	name, text string
	kind       byte
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(e.text))}
		if e.kind != 0 {
			h.Typeflag, h.Size, h.Linkname = e.kind, 0, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, e.text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const descriptor = `<Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"><References><File ovf:id="f" ovf:href="a.vmdk"/></References>
<DiskSection><Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="1048576" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></DiskSection>
<VirtualSystem ovf:id="v"><Name>Quay</Name><OperatingSystemSection ovf:id="96"/><VirtualHardwareSection>
<Item><InstanceID>1</InstanceID><ResourceType>3</ResourceType><VirtualQuantity>1</VirtualQuantity></Item><Item><InstanceID>2</InstanceID><ResourceType>4</ResourceType><VirtualQuantity>64</VirtualQuantity></Item>
<Item><HostResource>ovf:/disk/d</HostResource><InstanceID>3</InstanceID><ResourceType>17</ResourceType></Item></VirtualHardwareSection></VirtualSystem></Envelope>`

// disk is a streamOptimized VMDK of 1 MiB with text at its beginning, and the content of the guest.
func disk(t testing.TB) (file string, content []byte) {
	t.Helper()
	content = make([]byte, 1<<20)
	copy(content, "boot")
	var out bytes.Buffer
	if err := vmdk.Write(&out, bytes.NewReader(content), int64(len(content)), "a.vmdk"); err != nil {
		t.Fatal(err)
	}
	return out.String(), content
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// memory is a Scratch.
type memory struct{ bytes.Buffer }

func (m *memory) ReadAt(into []byte, offset int64) (int, error) {
	return bytes.NewReader(m.Bytes()).ReadAt(into, offset)
}
func (m *memory) Close() error { return nil }

func inspect(t testing.TB, data []byte, options Options) *Appliance {
	t.Helper()
	options.Scratch = func() (Scratch, error) { return &memory{}, nil }
	found, err := Inspect("quay.ova", bytes.NewReader(data), options)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestImportable reads packages that an import accepts: the digest is that of what the guest sees.
func TestImportable(t *testing.T) {
	file, content := disk(t)
	first, rest := file[:1000], file[1000:]
	gz := zipped(t, file)
	manifest := "SHA256(quay.ovf)= " + sumOf(descriptor) + "\r\nSHA2-256 (a.vmdk) = " + sumOf(file) + "\r\n"
	for name, c := range map[string]struct {
		data     []byte
		verified bool
		codes    []ovf.Code
	}{
		"a manifest":         {archive(t, entry{"quay.ovf", descriptor, 0}, entry{"quay.mf", manifest, 0}, entry{"a.vmdk", file, 0}), true, nil},
		"no manifest":        {archive(t, entry{"quay.ovf", descriptor, 0}, entry{"a.vmdk", file, 0}), false, nil},
		"another order":      {archive(t, entry{"a.vmdk", file, 0}, entry{"quay.ovf", descriptor, 0}), false, []ovf.Code{ovf.MemberOrder}},
		"an extra file":      {archive(t, entry{"quay.ovf", descriptor, 0}, entry{"a.vmdk", file, 0}, entry{"b", "", 0}), false, []ovf.Code{ovf.ExtraMember}},
		"a folder":           {archive(t, entry{"./", "", tar.TypeDir}, entry{"./quay.ovf", descriptor, 0}, entry{"./a.vmdk", file, 0}), false, nil},
		"names with ./":      {archive(t, entry{"./quay.ovf", strings.Replace(descriptor, `href="a.vmdk"`, `href="./a.vmdk"`, 1), 0}, entry{"./quay.mf", "SHA256(./quay.ovf)= " + sumOf(strings.Replace(descriptor, `href="a.vmdk"`, `href="./a.vmdk"`, 1)) + "\nSHA256(./a.vmdk)= " + sumOf(file) + "\n", 0}, entry{"./a.vmdk", file, 0}), true, nil},
		"chunks":             {archive(t, entry{"quay.ovf", strings.Replace(descriptor, `ovf:id="f"`, `ovf:id="f" ovf:chunkSize="1000"`, 1), 0}, entry{"a.vmdk.000000000", first, 0}, entry{"a.vmdk.000000001", rest, 0}), false, nil},
		"gzip":               {archive(t, entry{"quay.ovf", strings.Replace(descriptor, `ovf:id="f"`, `ovf:id="f" ovf:compression="gzip"`, 1), 0}, entry{"a.vmdk", gz, 0}), false, nil},
		"a raw disk":         {archive(t, entry{"quay.ovf", descriptor, 0}, entry{"a.vmdk", string(content), 0}), false, []ovf.Code{ovf.FormatMismatch}},
		"an absent listing":  {archive(t, entry{"quay.ovf", descriptor, 0}, entry{"quay.mf", manifest + "SHA1(no)= " + strings.Repeat("0", 40) + "\n", 0}, entry{"a.vmdk", file, 0}), false, []ovf.Code{ovf.FileAbsent}},
		"an incomplete list": {archive(t, entry{"quay.ovf", descriptor, 0}, entry{"quay.mf", manifest[:84] + "\n", 0}, entry{"a.vmdk", file, 0}), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := inspect(t, c.data, Options{})
			if found.Verdict != Importable || len(found.VirtualSystem.Disks) != 1 {
				t.Fatalf("got %+v", found)
			}
			if d := found.VirtualSystem.Disks[0]; d.ContentSHA256 != sumOf(string(content)) || d.CapacityBytes != 1<<20 {
				t.Errorf("got the disk %+v", d)
			}
			checkFiles(t, c.data, found.Files)
			if m := found.Package.Manifest; (m != nil && m.Verified) != c.verified {
				t.Errorf("got the manifest %+v", m)
			}
			var codes []ovf.Code
			for _, w := range found.Warnings {
				codes = append(codes, w.Code)
			}
			if !slices.Equal(codes, c.codes) {
				t.Errorf("got the warnings %v, want %v", codes, c.codes)
			}
		})
	}
}

// checkFiles holds that the parts of the image are where the archive has them, with the digests of the manifest.
func checkFiles(t *testing.T, archive []byte, files []File) {
	t.Helper()
	if len(files) != 1 || strings.TrimPrefix(files[0].Href, here) != "a.vmdk" || (files[0].Compression != "") != (files[0].MaxContent > 0) {
		t.Fatalf("got the files %+v", files)
	}
	var whole []byte
	for _, p := range files[0].Parts {
		part := archive[p.Offset : p.Offset+p.Size]
		if p.Digest != "" && p.Digest != "sha256:"+sumOf(string(part)) {
			t.Errorf("%s has the digest %s", p.Name, p.Digest)
		}
		whole = append(whole, part...)
	}
	if files[0].Compression != "" {
		z, err := gzip.NewReader(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		if whole, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if image, err := vmdk.Inspect(bytes.NewReader(whole), int64(len(whole))); err != nil || image.Format != files[0].Format {
		t.Errorf("the parts are %+v, the file is %s: %v", image, files[0].Format, err)
	}
}

// TestHostilePackages holds that each package that an import must not begin with is rejected, with a reason and a remedy.
func TestHostilePackages(t *testing.T) {
	file, _ := disk(t)
	ok, good := entry{"quay.ovf", descriptor, 0}, entry{"a.vmdk", file, 0}
	whole := archive(t, ok, good)
	with := func(entries ...entry) []byte { return archive(t, append([]entry{ok, good}, entries...)...) }
	withText := func(before, after string) []byte {
		if !strings.Contains(descriptor, before) {
			t.Fatalf("the descriptor has no %q", before)
		}
		return archive(t, entry{"quay.ovf", strings.Replace(descriptor, before, after, 1), 0}, good)
	}
	withManifest := func(text string) []byte { return with(entry{"quay.mf", text, 0}) }
	withDisk := func(text string) []byte { return archive(t, ok, entry{"a.vmdk", text, 0}) }
	change := func(at int, with string) string { return file[:at] + with + file[at+len(with):] }
	compressed := func(text string) []byte {
		return archive(t, entry{"quay.ovf", strings.Replace(descriptor, `ovf:id="f"`, `ovf:id="f" ovf:compression="gzip"`, 1), 0}, entry{"a.vmdk", text, 0})
	}
	qcow2 := func(at int, with string) string {
		head := make([]byte, 4096)
		copy(head, "QFI\xfb\x00\x00\x00\x03")
		copy(head[20:], "\x00\x00\x00\x10\x00\x00\x00\x00\x00\x10\x00\x00")
		copy(head[100:], "\x00\x00\x00\x68")
		copy(head[at:], with)
		return string(head)
	}
	many := make([]entry, ovf.MaxFiles+1)
	for i := range many {
		many[i] = entry{fmt.Sprint(i), "", 0}
	}
	for name, c := range map[string]struct {
		data []byte
		want ovf.Reason
	}{
		"nothing":                      {nil, ovf.NotAnArchive},
		"text":                         {[]byte("hello"), ovf.NotAnArchive},
		"zeros":                        {make([]byte, 10240), ovf.NotAnArchive},
		"noise":                        {bytes.Repeat([]byte("noise "), 1000), ovf.NotAnArchive},
		"gzip":                         {[]byte(zipped(t, "x")), ovf.NotAnArchive},
		"a truncated file":             {whole[:len(whole)-3000], ovf.Truncated},
		"a truncated header":           {whole[:700], ovf.Truncated},
		"an empty archive with a file": {archive(t, entry{"x", "y", 0}), ovf.NoDescriptor},
		"two descriptors":              {with(entry{"b.OVF", descriptor, 0}), ovf.SeveralDescriptors},
		"a symbolic link":              {with(entry{"l", "", tar.TypeSymlink}), ovf.UnsafeMember},
		"a hard link":                  {with(entry{"l", "", tar.TypeLink}), ovf.UnsafeMember},
		"a character device":           {with(entry{"l", "", tar.TypeChar}), ovf.UnsafeMember},
		"a block device":               {with(entry{"l", "", tar.TypeBlock}), ovf.UnsafeMember},
		"a FIFO":                       {with(entry{"l", "", tar.TypeFifo}), ovf.UnsafeMember},
		"an absolute name":             {with(entry{"/etc/passwd", "", 0}), ovf.UnsafeMember},
		"a name that leaves":           {with(entry{"a/../../b", "", 0}), ovf.UnsafeMember},
		"a folder that leaves":         {with(entry{"../", "", tar.TypeDir}), ovf.UnsafeMember},
		"a backslash":                  {with(entry{`a\b`, "", 0}), ovf.UnsafeMember},
		"a control character":          {with(entry{"a\nb", "", 0}), ovf.UnsafeMember},
		"a long name":                  {with(entry{strings.Repeat("n", 2000), "", 0}), ovf.LimitExceeded},
		"a file twice":                 {with(good), ovf.DuplicateMember},
		"a file twice by a folder":     {with(entry{"./a.vmdk", file, 0}), ovf.DuplicateMember},
		"too many files":               {archive(t, many...), ovf.LimitExceeded},
		"too many folders":             {archive(t, slices.Repeat([]entry{{"d/", "", tar.TypeDir}}, maxEntries+1)...), ovf.LimitExceeded},
		"a missing file":               {archive(t, ok), ovf.MissingFile},
		"a file of another case":       {archive(t, ok, entry{"A.vmdk", file, 0}), ovf.MissingFile},
		"a percent sign":               {withText("a.vmdk", "%61.vmdk"), ovf.MissingFile},
		"a large descriptor":           {withText("<VirtualSystem", strings.Repeat(" ", ovf.MaxBytes)+"<VirtualSystem"), ovf.LimitExceeded},
		"a DOCTYPE":                    {withText("<Envelope", "<!DOCTYPE x><Envelope"), ovf.ForbiddenXML},
		"broken XML":                   {withText("</Envelope>", ""), ovf.InvalidXML},
		"a path":                       {withText("a.vmdk", "../a.vmdk"), ovf.UnsafeReference},
		"a URL":                        {withText("a.vmdk", "http://169.254.169.254/"), ovf.RemoteReference},
		"no virtual system":            {archive(t, entry{"a.ovf", "<Envelope/>", 0}), ovf.NoVirtualSystem},
		"a parent":                     {withText(`ovf:diskId="d"`, `ovf:diskId="d" ovf:parentRef="p"`), ovf.ParentDisk},
		"a manifest without digests":   {withManifest("hello"), ovf.ManifestInvalid},
		"an empty manifest":            {withManifest("\n"), ovf.ManifestInvalid},
		"a short digest":               {withManifest("SHA256(a.vmdk)= 00"), ovf.ManifestInvalid},
		"an unknown digest":            {withManifest("CRC(a.vmdk)= 00"), ovf.ManifestInvalid},
		"a wrong digest":               {withManifest("SHA256(a.vmdk)= " + sumOf("x")), ovf.ManifestMismatch},
		"a wrong digest of old":        {withManifest("SHA1(a.vmdk)= " + strings.Repeat("0", 40)), ovf.ManifestMismatch},
		"a digest twice":               {withManifest("SHA256(a.vmdk)= " + sumOf(file) + "\nSHA256(a.vmdk)= " + sumOf("x")), ovf.ManifestInvalid},
		"a path in a manifest":         {withManifest("SHA256(../a)= " + sumOf("x")), ovf.ManifestInvalid},
		"a large manifest":             {withManifest(strings.Repeat(" ", maxManifest+1)), ovf.LimitExceeded},
		"a disk that is empty":         {withDisk(""), ovf.InvalidImage},
		"a disk that is HTML":          {withDisk("<html>404</html>"), ovf.InvalidImage},
		"a descriptor of a VMDK":       {withDisk("# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n"), ovf.ExternalReference},
		"a VMDK of the capacity 0":     {withDisk(change(12, strings.Repeat("\x00", 8))), ovf.ExternalReference},
		"a flat extent":                {withDisk(strings.Replace(file, `SPARSE "a`, `FLAT   "a`, 1)), ovf.ExternalReference},
		"a VMDK with a parent":         {withDisk(strings.Replace(file, "parentCID=ffffffff", "parentCID=00000000", 1)), ovf.ParentDisk},
		"a truncated VMDK":             {withDisk(file[:len(file)-512]), ovf.InvalidImage},
		"a VMDK with zeros behind":     {withDisk(file + strings.Repeat("\x00", 512)), ovf.InvalidImage},
		"a damaged grain":              {withDisk(change(128*512+12, "\xff\xff\xff\xff")), ovf.InvalidImage},
		"qcow2 with a backing file":    {withDisk(qcow2(8, "\x00\x00\x00\x00\x00\x00\x01\x00")), ovf.ParentDisk},
		"qcow2 with a data file":       {withDisk(qcow2(72, "\x00\x00\x00\x00\x00\x00\x00\x04")), ovf.ExternalReference},
		"qcow2 with encryption":        {withDisk(qcow2(32, "\x00\x00\x00\x02")), ovf.EncryptedImage},
		"qcow2 of no size":             {withDisk(qcow2(24, "\x00\x00\x00\x00\x00\x00\x00\x00")), ovf.InvalidImage},
		"VHDX":                         {withDisk("vhdxfile\x00\x00"), ovf.InvalidImage},
		"an undeclared compression":    {withDisk(zipped(t, file)), ovf.InvalidImage},
		"gzip that is not":             {compressed(file), ovf.InvalidImage},
		"truncated gzip":               {compressed(zipped(t, file)[:200]), ovf.InvalidImage},
		"a bomb":                       {compressed(zipped(t, strings.Repeat("\x00", 64<<20))), ovf.LimitExceeded},
		"gzip in gzip":                 {compressed(zipped(t, zipped(t, file))), ovf.InvalidImage},
		"a reference in gzip":          {compressed(zipped(t, "# Disk DescriptorFile\nRW 1 FLAT \"/etc/shadow\" 0\n")), ovf.ExternalReference},
	} {
		t.Run(name, func(t *testing.T) {
			found := inspect(t, c.data, Options{})
			i := slices.IndexFunc(found.Rejections, func(r ovf.Rejection) bool { return r.Reason == c.want })
			if found.Verdict != Rejected || i < 0 {
				t.Fatalf("got %s %+v, want %s", found.Verdict, found.Rejections, c.want)
			}
			if r := found.Rejections[i]; r.Message == "" || r.Remedy == "" {
				t.Errorf("the rejection %+v does not say what to do", r)
			}
		})
	}
}

// TestSparseMember holds that a sparse file is rejected although tar would expand it.
func TestSparseMember(t *testing.T) {
	var r *ovf.Rejection
	if err := checkMember(&tar.Header{Name: "a", Typeflag: tar.TypeGNUSparse}); !errors.As(error(err), &r) || r.Reason != ovf.UnsafeMember {
		t.Errorf("got %v", err)
	}
	if err := checkMember(&tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}); err == nil {
		t.Error("a sparse file in the format PAX is accepted")
	}
}

// TestBareDescriptor reads the files beside a descriptor, and warns of absent ones.
func TestBareDescriptor(t *testing.T) {
	file, _ := disk(t)
	for present, want := range map[bool]string{true: "vmdk", false: ""} {
		found := inspect(t, []byte(descriptor), Options{Sibling: func(name string) (Data, error) {
			if present && name == "a.vmdk" {
				return strings.NewReader(file), nil
			}
			return nil, nil
		}})
		absent := slices.ContainsFunc(found.Warnings, func(w ovf.Warning) bool { return w.Code == ovf.FileAbsent })
		if found.Verdict != Importable || found.VirtualSystem.Disks[0].Image != want || absent == present {
			t.Errorf("present %v: got %+v", present, found)
		}
	}
}

// TestHeadersOnly holds that no digest of a disk is calculated and no disk decoded, and that the digest of the descriptor is compared.
func TestHeadersOnly(t *testing.T) {
	file, _ := disk(t)
	damaged := file[:128*512+12] + "\xff\xff" + file[128*512+14:]
	data := archive(t, entry{"quay.ovf", descriptor, 0}, entry{"quay.mf", "SHA256(a.vmdk)= " + sumOf("x"), 0}, entry{"a.vmdk", damaged, 0})
	if found := inspect(t, data, Options{HeadersOnly: true}); found.Verdict != Importable || found.VirtualSystem.Disks[0].Image != "vmdk" || found.Package.Manifest.Verified {
		t.Errorf("got %+v", found)
	}
	data = archive(t, entry{"quay.ovf", descriptor, 0}, entry{"quay.mf", "SHA256(quay.ovf)= " + sumOf("x"), 0}, entry{"a.vmdk", damaged, 0})
	if found := inspect(t, data, Options{HeadersOnly: true}); found.Verdict != Rejected || found.Rejections[0].Reason != ovf.ManifestMismatch {
		t.Errorf("got %+v", found)
	}
}

// FuzzInspect holds that no package makes the package panic, and that each verdict has its reasons.
func FuzzInspect(f *testing.F) {
	file, _ := disk(f)
	f.Add(archive(f, entry{"quay.ovf", descriptor, 0}, entry{"a.vmdk", file, 0}))
	f.Add([]byte(descriptor))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := Inspect("a.ova", bytes.NewReader(data), Options{Scratch: func() (Scratch, error) { return &memory{}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if (found.Verdict == Importable) != (len(found.Rejections) == 0) {
			t.Errorf("got %+v", found)
		}
	})
}

// sparse is the member of an archive that has 4 EiB of zeros, and needs no byte for them.
func sparse(t *testing.T, name string) []byte {
	t.Helper()
	records := ""
	for _, r := range []string{"GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.numblocks=0", "GNU.sparse.realsize=4611686018427387904"} {
		records += fmt.Sprintf("%d %s\n", len(r)+4, r) // two digits, a space and the end of the line
	}
	header := archive(t, entry{name: "pax", text: records})[:1024]
	header[156] = tar.TypeXHeader
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header[:512] {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return append(header, archive(t, entry{name: name})[:512]...)
}

// TestDigests holds the digests of files, and that those of a manifest are compared.
func TestDigests(t *testing.T) {
	old := sha1.Sum([]byte("disk")) //nolint:gosec // of an old manifest
	data := archive(t, entry{name: "./a.ovf", text: "descriptor"}, entry{name: "a.vmdk", text: "disk"}, entry{name: "b.iso", text: "medium"})
	for name, c := range map[string]struct {
		data  []byte
		files map[string]string
		want  string
	}{
		"any":                    {data, map[string]string{"a.vmdk": "", "b.iso": ""}, ""},
		"that of SHA-1":          {data, map[string]string{"a.vmdk": "sha1:" + hex.EncodeToString(old[:]), "b.iso": "sha256:" + sumOf("medium")}, ""},
		"none":                   {data, nil, ""},
		"another digest":         {data, map[string]string{"a.vmdk": "sha256:" + sumOf("disc"), "b.iso": ""}, "the file does not have the digest of the manifest"},
		"an unknown algorithm":   {data, map[string]string{"a.vmdk": "md5:00"}, "the algorithm of the digest is not known"},
		"no such file":           {data, map[string]string{"c": ""}, "the archive ends before the file"},
		"a damaged archive":      {[]byte(strings.Repeat("x", 1024)), map[string]string{"c": ""}, "the archive is damaged"},
		"a truncated archive":    {data[:1200], map[string]string{"a.vmdk": "", "b.iso": ""}, "unexpected EOF"},
		"a sparse file":          {sparse(t, "a.vmdk"), map[string]string{"a.vmdk": ""}, "the archive has a sparse file"},
		"a sparse file before":   {append(sparse(t, "x"), data...), map[string]string{"a.vmdk": ""}, "the archive has a sparse file"},
		"the name of a folder":   {archive(t, entry{name: "c", kind: tar.TypeDir}), map[string]string{"c": ""}, "the archive ends before the file"},
		"the first of two files": {archive(t, entry{name: "a.vmdk", text: "disk"}, entry{name: "a.vmdk", text: "other"}), map[string]string{"a.vmdk": ""}, ""},
	} {
		got, err := Digests(bytes.NewReader(c.data), c.files)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := map[string]string{}
		for file := range c.files {
			want[file] = "sha256:" + sumOf(map[string]string{"a.vmdk": "disk", "b.iso": "medium"}[file])
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, got %v", name, err, got)
		}
	}
}

// TestRepeatedReferences holds that a file is read once however many elements refer to it, and that few bytes of message bundles are kept:
// small packages would need much work and memory otherwise.
func TestRepeatedReferences(t *testing.T) {
	file, _ := disk(t)
	again, named := "", ""
	for i := range 500 {
		again += fmt.Sprintf(`<File ovf:id="g%d" ovf:href="a.vmdk"/><File ovf:id="b%d" ovf:href="b.xml"/>`, i, i)
		named += fmt.Sprintf(`<Strings ovf:fileRef="b%d"/>`, i)
	}
	again = again[:strings.Index(again, `<File ovf:id="g499"`)]
	bundles := "<Strings>" + strings.Repeat(`<Msg msgid="a">`+strings.Repeat("m", 100)+"</Msg>", 5000) + "</Strings>"
	text := strings.NewReplacer("</References>", again+"</References>", "</Envelope>", named+"</Envelope>").Replace(descriptor)
	reads := 0
	data := archive(t, entry{"quay.ovf", text, 0}, entry{"a.vmdk", file, 0}, entry{"b.xml", bundles, 0})
	found, err := Inspect("quay.ova", &counted{bytes.NewReader(data), &reads}, Options{})
	if err != nil || found.Verdict != Importable {
		t.Fatalf("got %+v, %v", found, err)
	}
	if len(found.Files) != 1 || reads > 4*len(data) {
		t.Errorf("got %d files, and %d bytes were read of %d", len(found.Files), reads, len(data))
	}
	if n := len(found.Warnings); n < 400 || found.Warnings[0].Message != "the message bundle is not read: all bundles have more than 1 MiB together" {
		t.Errorf("got %d warnings, the first is %+v", n, found.Warnings[:1])
	}
}

// counted counts the bytes that are read.
type counted struct {
	*bytes.Reader

	bytes *int
}

func (c *counted) ReadAt(into []byte, offset int64) (int, error) {
	*c.bytes += len(into)
	return c.Reader.ReadAt(into, offset)
}
