package oci_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/test/isolated"
)

const machine = `{"kind":"VirtualMachine","apiVersion":"kubevirt.io/v1","metadata":{"namespace":"a","name":"db","finalizers":["x"]},"spec":{` +
	`"dataVolumeTemplates":[{"metadata":{"name":"db-root"},"spec":{"source":{"pvc":{"name":"gold"}}}}],` +
	`"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"db-root"}},{"name":"init","cloudInitNoCloud":{"userData":"a<b"}},{"name":"logs","persistentVolumeClaim":{"claimName":"db.logs"}}]}}},"status":{"ready":true}}`

func TestNewObject(t *testing.T) {
	o, err := oci.NewObject([]byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"kind":"VirtualMachine","apiVersion":"kubevirt.io/v1","metadata":{"name":"db"},"spec":{` +
		`"template":{"spec":{"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"db-root"}},{"name":"init","cloudInitNoCloud":{"userData":"a\u003cb"}},{"name":"logs","persistentVolumeClaim":{"claimName":"db.logs"}}]}}}}`
	if string(o.Config) != want {
		t.Errorf("got  %s\nwant %s", o.Config, want)
	}
	if o.Architecture != oci.DefaultArchitecture || len(o.Volumes) != 2 || !o.Volumes[0].Layered {
		t.Errorf("got %+v", o)
	}
	for disk, volume := range map[string]string{"root": "root", "logs": "logs", "db-logs": "logs", "db-root": "root", "gold": "root"} {
		if v := o.VolumeOf(disk); v == nil || v.Name != volume {
			t.Errorf("%s: %+v", disk, v)
		}
	}
	if v := o.VolumeOf("init"); v != nil {
		t.Errorf("got %+v", v)
	}
}

func template(spec string) string {
	return `{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"web"},"spec":` + spec + `}`
}

// TestArchitecture: parameters have the values of the template.
func TestArchitecture(t *testing.T) {
	for name, c := range map[string]struct{ architecture, parameters, want string }{
		"none":              {"", `[]`, "amd64"},
		"plain":             {"s390x", `[]`, "s390x"},
		"a parameter":       {"${ARCH}", `[{"name":"ARCH","value":"arm64"}]`, "arm64"},
		"a part":            {"${A}64", `[{"name":"A","value":"arm"}]`, "arm64"},
		"without a value":   {"${ARCH}", `[{"name":"ARCH","required":true}]`, "amd64"},
		"another parameter": {"${ARCH}", `[]`, "amd64"},
	} {
		o, err := oci.NewObject([]byte(template(`{"parameters":` + c.parameters + `,"virtualMachine":{"spec":{"template":{"spec":{"architecture":"` + c.architecture + `"}}}}}`)))
		if err != nil || o.Architecture != c.want {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func TestTemplateVolumes(t *testing.T) {
	o, err := oci.NewObject([]byte(template(`{"virtualMachine":{"spec":{"dataVolumeTemplates":[` +
		`{"metadata":{"name":"a-${NAME}"},"spec":{"source":{"pvc":{"name":"gold","namespace":"n"}}}},{"metadata":{"name":"b"},"spec":{"sourceRef":{"kind":"DataSource","name":"x"}}}],` +
		`"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"a-${NAME}"}},{"name":"tools","dataVolume":{"name":"b"}}]}}}}}`)))
	if err != nil || len(o.Volumes) != 2 || !o.Volumes[0].Layered || o.Volumes[0].Source != "gold" || o.Volumes[1].Layered {
		t.Errorf("got %+v, %v", o, err)
	}
	if !strings.Contains(string(o.Config), `"namespace":"n"`) {
		t.Error("a source in another namespace is lost")
	}
}

const (
	sum      = "sha256:e01bfbcf16d918813c9c991781db9511dba46f3c821a213b779417789f6cae83"
	config   = `{"mediaType":"application/vnd.kubevirt.virtualmachinetemplate.config.v1+json","digest":"` + sum + `","size":644}`
	disk     = `{"mediaType":"application/vnd.kubevirt.disk.raw+zstd","digest":"` + sum + `","size":10,"annotations":{"io.kubevirt.disk.name":"root","io.kubevirt.disk.size":"1Mi"}}`
	entry    = `{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + sum + `","size":338,"platform":{"architecture":"arm64","os":"linux"}}`
	manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.kubevirt.virtualmachinetemplate.v1","config":` + config + `,"layers":[` + disk + `]}`
	index    = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","artifactType":"application/vnd.kubevirt.virtualmachinetemplate.v1","manifests":[` + entry + `]}`
	ova      = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.unknown","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"` + sum + `","size":2},` +
		`"layers":[{"mediaType":"application/octet-stream","digest":"` + sum + `","size":10,"annotations":{"org.opencontainers.image.title":"a.OVA"}}]}`
)

// TestRejected: no document of the table is read, and the reason is that of the table.
func TestRejected(t *testing.T) {
	for _, c := range []struct {
		name, document, before, after string
		reason                        oci.Reason
		says                          string
	}{
		{"no JSON", index, "{", "[", oci.InvalidJSON, "not valid JSON"},
		{"a field twice", index, `"schemaVersion":2`, `"schemaVersion":2,"schemaVersion":2`, oci.InvalidJSON, "duplicate field"},
		{"a wrong kind of value", index, `"size":338`, `"size":"338"`, oci.InvalidJSON, "size"},
		{"a large number", index, `"size":338`, `"size":99999999999999999999`, oci.InvalidJSON, "size"},
		{"another media type", index, `application/vnd.oci.image.index.v1+json`, "application/vnd.docker.distribution.manifest.list.v2+json", oci.WrongType, "neither that of an OCI index"},
		{"an image", index, `application/vnd.kubevirt.virtualmachinetemplate.v1`, "application/vnd.other", oci.WrongType, "no virtual machine and no template"},
		{"an old schema", index, `"schemaVersion":2`, `"schemaVersion":1`, oci.WrongType, "must be 2"},
		{"an empty index", index, entry, "", oci.NoVariant, "no manifest"},
		{"many manifests", index, entry, entry + strings.Repeat(","+entry, oci.MaxVariants), oci.LimitExceeded, "33 manifests: at most 32"},
		{"many objects", index, entry, entry + strings.Repeat(",{}", 5000), oci.LimitExceeded, "5003 objects: at most 4096"},
		{"a long index", index, entry, entry + strings.Repeat(" ", oci.MaxIndex), oci.LimitExceeded, "at most 262144"},
		{"the same architecture twice", index, entry, entry + "," + entry, oci.DuplicateName, "two manifests for arm64"},
		{"an index in an index", index, "image.manifest.v1+json", "image.index.v1+json", oci.WrongType, "an index in an index is not read"},
		{"an index of itself", index, `"digest":"` + sum + `","size":338`, `"digest":"` + sum + `","size":338,"artifactType":"application/vnd.other"`, oci.WrongType, "that of the index"},
		{"Windows", index, `"os":"linux"`, `"os":"windows"`, oci.WrongType, "must be linux"},
		{"no platform", index, entry, entry + "," + strings.Split(entry, `,"platform"`)[0] + "}", oci.InvalidDescriptor, "no platform"},
		{"a path as the architecture", index, `"architecture":"arm64"`, `"architecture":"../arm64"`, oci.InvalidDescriptor, "architecture"},
		{"a manifest elsewhere", index, `"size":338`, `"size":338,"urls":["http://169.254.169.254/"]`, oci.ForeignURL, "only from the registry"},
		{"no digest", index, sum, "", oci.InvalidDescriptor, "SHA-256"},
		{"a digest of a path", index, sum, "sha256:../../etc/passwd", oci.InvalidDescriptor, "SHA-256"},
		{"another algorithm", index, sum, "md5:d41d8cd98f00b204e9800998ecf8427e", oci.InvalidDescriptor, "SHA-256"},
		{"a negative size", index, `"size":338`, `"size":-1`, oci.InvalidDescriptor, "positive"},
		{"no size", index, `"size":338`, `"size":0`, oci.InvalidDescriptor, "positive"},
		{"a huge manifest", index, `"size":338`, `"size":1048577`, oci.LimitExceeded, "at most 1048576"},

		{"a huge configuration", manifest, `"size":644`, `"size":2097153`, oci.LimitExceeded, "at most 2097152"},
		{"another configuration", manifest, "virtualmachinetemplate.config", "virtualmachine.config", oci.WrongType, "config.mediaType"},
		{"many layers", manifest, disk, disk + strings.Repeat(","+disk, oci.MaxDisks), oci.LimitExceeded, "257 layers: at most 256"},
		{"a layer elsewhere", manifest, `"size":10`, `"size":10,"urls":["https://evil.example/"]`, oci.ForeignURL, "layers[0].urls"},
		{"a configuration elsewhere", manifest, `"size":644`, `"size":644,"urls":["https://evil.example/"]`, oci.ForeignURL, "config.urls"},
		{"a layer of an image", manifest, "vnd.kubevirt.disk.raw+zstd", "vnd.oci.image.layer.v1.tar+gzip", oci.WrongType, "layers[0].mediaType"},
		{"a huge layer", manifest, `"size":10`, `"size":70368744177665`, oci.LimitExceeded, "at most 70368744177664"},
		{"the same disk twice", manifest, disk, disk + "," + disk, oci.DuplicateName, "two layers have the disk root"},
		{"the same disk twice in names", manifest, `"io.kubevirt.disk.name":"root"`, `"io.kubevirt.disk.names":"root,root"`, oci.DuplicateName, "two layers have the disk root"},
		{"names that differ", manifest, `"io.kubevirt.disk.name"`, `"io.kubevirt.disk.names":"logs","io.kubevirt.disk.name"`, oci.DuplicateName, "differ"},
		{"a path as the name", manifest, `:"root"`, `:"../root"`, oci.UnsafeName, "not a name of a disk"},
		{"an absolute name", manifest, `:"root"`, `:"/etc/passwd"`, oci.UnsafeName, "not a name of a disk"},
		{"a hidden name", manifest, `:"root"`, `:".root"`, oci.UnsafeName, "not a name of a disk"},
		{"a long name", manifest, `:"root"`, `:"` + strings.Repeat("a", 254) + `"`, oci.UnsafeName, "not a name of a disk"},
		{"no name", manifest, `"io.kubevirt.disk.name":"root",`, "", oci.UnsafeName, "not a name of a disk"},
		{"a path as the title", manifest, `"io.kubevirt.disk.name"`, `"org.opencontainers.image.title":"../../root.raw","io.kubevirt.disk.name"`, oci.UnsafeName, "title"},
		{"an absolute title", manifest, `"io.kubevirt.disk.name"`, `"org.opencontainers.image.title":"/root.raw","io.kubevirt.disk.name"`, oci.UnsafeName, "title"},
		{"a path of Windows as the title", manifest, `"io.kubevirt.disk.name"`, `"org.opencontainers.image.title":"c:\\root.raw","io.kubevirt.disk.name"`, oci.UnsafeName, "title"},
		{"control characters in the title", manifest, `"io.kubevirt.disk.name"`, `"org.opencontainers.image.title":"a\u001b[2Jb","io.kubevirt.disk.name"`, oci.UnsafeName, "title"},
		{"no size of the disk", manifest, `,"io.kubevirt.disk.size":"1Mi"`, "", oci.InvalidSize, "missing"},
		{"a negative size of the disk", manifest, `"1Mi"`, `"-1"`, oci.InvalidSize, "whole number"},
		{"half a byte", manifest, `"1Mi"`, `"500m"`, oci.InvalidSize, "whole number"},
		{"a size that takes long to parse", manifest, `"1Mi"`, `"1e99999999"`, oci.InvalidSize, "not a quantity"},
		{"a size of no number", manifest, `"1Mi"`, `"large"`, oci.InvalidSize, "not a quantity"},
		{"a huge disk", manifest, `"1Mi"`, `"65Ti"`, oci.InvalidSize, "at most 70368744177664"},

		{"an image without an object", manifest, "vnd.kubevirt.virtualmachinetemplate.v1", "vnd.other", oci.WrongType, "no OVA file"},
		{"two OVA files", ova, `"layers":[`, `"layers":[` + disk + ",", oci.WrongType, "no OVA file"},
		{"a path as the name of an OVA", ova, "a.OVA", "../a.ova", oci.UnsafeName, "title"},
		{"an absolute name of an OVA", ova, "a.OVA", "/a.ova", oci.UnsafeName, "title"},
		{"an OVA elsewhere", ova, `"size":10`, `"size":10,"urls":["https://evil.example/"]`, oci.ForeignURL, "urls"},
	} {
		document := strings.Replace(c.document, c.before, c.after, 1)
		if document == c.document {
			t.Errorf("%s: the test is wrong", c.name)
		}
		var found *oci.Rejection
		if _, err := oci.ParseTop([]byte(document)); !errors.As(err, &found) || found.Reason != c.reason || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %#v, want %s: %s", c.name, err, c.reason, c.says)
		}
	}
}

// TestRead: documents of other programs are read.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		document, before, after string
		has                     func(*oci.Top) bool
	}{
		"an index":                   {index, "", "", func(t *oci.Top) bool { return t.Variants[0].Platform == "arm64" }},
		"a variant":                  {index, `"os":"linux"`, `"os":"linux","variant":"v8"`, func(t *oci.Top) bool { v, err := t.Select("arm64"); return err == nil && v.Platform == "arm64/v8" }},
		"one manifest, no platform":  {index, `,"platform":{"architecture":"arm64","os":"linux"}`, "", func(t *oci.Top) bool { return t.Variants[0].Platform == "amd64" }},
		"no media type of the index": {index, `"mediaType":"application/vnd.oci.image.index.v1+json",`, "", func(t *oci.Top) bool { return len(t.Variants) == 1 }},
		"no index":                   {manifest, "", "", func(t *oci.Top) bool { return t.Manifest.Disks[0].Size == 1<<20 && !t.Manifest.Disks[0].Capacity }},
		"the proposal's size": {manifest, `"io.kubevirt.disk.size":"1Mi"`, `"io.kubevirt.pvc.capacity":"10Gi","io.kubevirt.pvc.volumeMode":"Block","io.kubevirt.pvc.accessModes":"ReadWriteOnce,Other"`, func(t *oci.Top) bool {
			d := t.Manifest.Disks[0]
			return d.Size == 10<<30 && d.Capacity && d.VolumeMode == "Block" && len(d.AccessModes) == 1
		}},
		"several names":    {manifest, `"io.kubevirt.disk.name":"root"`, `"io.kubevirt.disk.names":"root,logs"`, func(t *oci.Top) bool { return len(t.Manifest.Disks[0].Names) == 2 }},
		"an empty disk":    {manifest, `"1Mi"`, `"0"`, func(t *oci.Top) bool { return t.Manifest.Disks[0].Size == 0 }},
		"embedded content": {manifest, `"size":644`, `"size":644,"data":"e30="`, func(t *oci.Top) bool { return t.Kind == oci.VirtualMachineTemplate }},
		"an OVA file":      {ova, "", "", func(t *oci.Top) bool { return t.Kind == oci.Appliance && t.Manifest.OVA.Name == "a.OVA" }},
	} {
		top, err := oci.ParseTop([]byte(strings.Replace(c.document, c.before, c.after, 1)))
		if err != nil || !c.has(top) {
			t.Errorf("%s: %+v, %v", name, top, err)
		}
	}
}

func TestSelect(t *testing.T) {
	top, err := oci.ParseTop([]byte(strings.Replace(index, entry, entry+","+strings.Replace(entry, "arm64", "amd64", 1), 1)))
	if err != nil {
		t.Fatal(err)
	}
	for platform, want := range map[string]string{"": "several architectures: choose one of arm64, amd64", "s390x": `no "s390x": choose one of arm64, amd64`, "amd64": ""} {
		if _, err := top.Select(platform); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", platform, err)
		}
	}
}

func TestObjectRejected(t *testing.T) {
	for name, c := range map[string]struct{ object, says string }{
		"no JSON":                         {`{`, "not valid JSON"},
		"a field twice":                   {strings.Replace(machine, `"name":"db"`, `"name":"db","name":"other"`, 1), "set twice"},
		"two objects":                     {machine + machine, "more than one value"},
		"another kind":                    {strings.Replace(machine, "VirtualMachine", "Pod", 1), "neither a VirtualMachine"},
		"another group":                   {strings.Replace(machine, "kubevirt.io/v1", "evil.example/v1", 1), "neither a VirtualMachine"},
		"a path as the name":              {strings.Replace(machine, `"name":"db"`, `"name":"../db"`, 1), "config.metadata.name"},
		"no name":                         {strings.Replace(machine, `"name":"db",`, "", 1), "config.metadata.name"},
		"nested":                          {`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}", "nested too deep"},
		"long":                            {machine + strings.Repeat(" ", oci.MaxConfig), "at most 2097152"},
		"a long architecture":             {template(`{"parameters":[{"name":"A","value":"arm64"}],"virtualMachine":{"spec":{"template":{"spec":{"architecture":"` + strings.Repeat("${A}", 1<<12) + `"}}}}}`), "architecture"},
		"a long value of an architecture": {template(`{"parameters":[{"name":"A","value":"` + strings.Repeat("a", 1<<12) + `"}],"virtualMachine":{"spec":{"template":{"spec":{"architecture":"${A}"}}}}}`), "architecture"},
		"another architecture":            {template(`{"virtualMachine":{"spec":{"template":{"spec":{"architecture":"a b"}}}}}`), "architecture"},
	} {
		if _, err := oci.NewObject([]byte(c.object)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := oci.ParseObject(oci.VirtualMachineTemplate, []byte(machine)); err == nil || !strings.Contains(err.Error(), "the artifact type says VirtualMachineTemplate") {
		t.Error(err)
	}
}

// TestArchitectureMemory holds that a small object needs little memory: parameters that are repeated are not put in.
func TestArchitectureMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	object := []byte(template(`{"parameters":[{"name":"A","value":"` + strings.Repeat("a", 1<<14) + `"}],"virtualMachine":{"spec":{"template":{"spec":{"architecture":"` + strings.Repeat("${A}", 1<<14) + `"}}}}}`))
	before := isolated.Allocated()
	if _, err := oci.NewObject(object); err == nil {
		t.Error("the architecture is valid")
	}
	if n := isolated.Allocated() - before; n > 16<<20 {
		t.Errorf("%d bytes were allocated for an object of %d", n, len(object))
	}
}

func descriptor(content []byte) oci.Descriptor {
	h := sha256.Sum256(content)
	return oci.Descriptor{Digest: digest.Digest("sha256:" + hex.EncodeToString(h[:])), Size: int64(len(content))}
}

func compressed(t testing.TB, raw []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err == nil {
		_, err = w.Write(raw)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestLayers: what a layer has wrong is found while it is read, or at its end.
func TestLayers(t *testing.T) {
	raw := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	good := compressed(t, raw)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	bomb := compressed(t, make([]byte, 64<<20))
	for name, c := range map[string]struct {
		d        oci.Descriptor
		size     int64
		capacity bool
		body     io.Reader
		says     string
	}{
		"valid":                        {descriptor(good), int64(len(raw)), false, bytes.NewReader(good), ""},
		"valid, byte by byte":          {descriptor(good), int64(len(raw)), false, iotest.OneByteReader(bytes.NewReader(good)), ""},
		"valid, EOF with the data":     {descriptor(good), int64(len(raw)), false, iotest.DataErrReader(bytes.NewReader(good)), ""},
		"in a larger claim":            {descriptor(good), int64(len(raw)) + 1, true, bytes.NewReader(good), ""},
		"two frames":                   {descriptor(append(bytes.Clone(good), good...)), 2 * int64(len(raw)), false, bytes.NewReader(append(bytes.Clone(good), good...)), ""},
		"an empty disk":                {descriptor(compressed(t, nil, zstd.WithZeroFrames(true))), 0, false, bytes.NewReader(compressed(t, nil, zstd.WithZeroFrames(true))), ""},
		"another digest":               {descriptor(flipped), int64(len(raw)), false, bytes.NewReader(good), "has the digest"},
		"truncated":                    {descriptor(good), int64(len(raw)), false, bytes.NewReader(good[:len(good)-4]), "ends 4 bytes before its size"},
		"longer":                       {descriptor(good), int64(len(raw)), false, io.MultiReader(bytes.NewReader(good), endless{}), "longer than its size"},
		"endless":                      {oci.Descriptor{Digest: descriptor(good).Digest, Size: 1 << 20}, int64(len(raw)), false, endless{}, "not valid zstd"},
		"not zstd":                     {descriptor(raw), int64(len(raw)), false, bytes.NewReader(raw), "not valid zstd"},
		"damaged":                      {descriptor(flipped), int64(len(raw)), false, bytes.NewReader(flipped), "not valid zstd"},
		"a bomb":                       {descriptor(bomb), 1 << 20, false, bytes.NewReader(bomb), "more raw bytes than the size"},
		"a bomb in an empty disk":      {descriptor(bomb), 0, false, bytes.NewReader(bomb), "more raw bytes than the size"},
		"a bomb in a claim":            {descriptor(bomb), 1 << 20, true, bytes.NewReader(bomb), "more raw bytes than the size"},
		"a shorter disk":               {descriptor(good), int64(len(raw)) + 1, false, bytes.NewReader(good), "ends 1 bytes before the size of the disk"},
		"what follows the frame":       {descriptor(append(bytes.Clone(good), "tail"...)), int64(len(raw)), false, bytes.NewReader(append(bytes.Clone(good), "tail"...)), "not valid zstd"},
		"a large window":               {descriptor(compressed(t, bomb, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))), int64(len(bomb)), false, bytes.NewReader(largeWindow()), "a window of more than 32 MiB"},
		"a connection that breaks":     {descriptor(good), int64(len(raw)), false, io.MultiReader(bytes.NewReader(good[:10]), iotest.ErrReader(errors.New("the connection broke"))), "the connection broke"},
		"one byte too long for a disk": {descriptor(compressed(t, append(bytes.Clone(raw), 0))), int64(len(raw)), false, bytes.NewReader(compressed(t, append(bytes.Clone(raw), 0))), "more raw bytes"},
	} {
		disk := oci.Disk{Descriptor: c.d, Size: c.size, Capacity: c.capacity}
		var got []byte
		r, err := oci.Decompress(oci.Verified(c.body, &c.d), &disk, oci.MaxWindow)
		if err == nil {
			got, err = io.ReadAll(r)
			r.Close()
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if int64(len(got)) > c.size {
			t.Errorf("%s: %d bytes of a disk of %d", name, len(got), c.size)
		}
	}
}

// largeWindow is a frame whose header demands 64 MiB.
func largeWindow() []byte {
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 16 << 3}, make([]byte, 100)...)
}

func TestMeasure(t *testing.T) {
	for _, name := range []string{"", "../a", "A", "a/b", "-a"} {
		if _, err := oci.Measure(name, strings.NewReader("")); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	d, err := oci.MeasureAppliance("a.ova", strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := oci.PackAppliance(d)
	if err != nil {
		t.Fatal(err)
	}
	top, err := oci.ParseTop(p.Manifest.Content)
	if err != nil || top.Kind != oci.Appliance || top.Manifest.OVA.Name != "a.ova" {
		t.Error(top, err)
	}
	if _, err := oci.MeasureAppliance("../a.ova", strings.NewReader("")); err == nil {
		t.Error("a path is a name")
	}
}

// FuzzParseTop: what is read is within the limits, and reading it again gives the same.
func FuzzParseTop(f *testing.F) {
	for _, document := range []string{index, manifest, ova} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		top, err := oci.ParseTop(document)
		if err != nil {
			return
		}
		if (top.Manifest == nil) == (len(top.Variants) == 0) || len(top.Variants) > oci.MaxVariants {
			t.Errorf("got %+v", top)
		}
		if top.Manifest != nil {
			for _, d := range top.Manifest.Disks {
				if d.Size < 0 || d.Size > oci.MaxDiskBytes || d.Descriptor.Size <= 0 || len(d.Names) == 0 || strings.ContainsAny(strings.Join(d.Names, ""), "/\\\x00") {
					t.Errorf("got %+v", d)
				}
			}
		}
	})
}

// FuzzObject: a configuration is read again as the same.
func FuzzObject(f *testing.F) {
	f.Add([]byte(machine))
	f.Add([]byte(template(`{"parameters":[{"name":"A","value":"arm64"}],"virtualMachine":{"spec":{"template":{"spec":{"architecture":"${A}"}}}}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := oci.NewObject(data)
		if err != nil {
			return
		}
		again, err := oci.NewObject(o.Config)
		if err != nil || !bytes.Equal(again.Config, o.Config) || again.Architecture != o.Architecture {
			t.Errorf("got %v, %s, then %s", err, o.Config, again.Config)
		}
	})
}

// FuzzDecompress: a layer never gives more bytes than its disk.
func FuzzDecompress(f *testing.F) {
	f.Add(compressed(f, []byte("abc")), int64(3))
	f.Add(compressed(f, make([]byte, 1<<20)), int64(100))
	f.Fuzz(func(t *testing.T, layer []byte, size int64) {
		size = min(max(size, 0), 1<<20)
		d := descriptor(layer)
		r, err := oci.Decompress(oci.Verified(bytes.NewReader(layer), &d), &oci.Disk{Descriptor: d, Size: size}, oci.MaxWindow)
		if err != nil {
			return
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, r); n > size || err == nil && n != size {
			t.Errorf("%d bytes of %d: %v", n, size, err)
		}
	})
}

// BenchmarkDecompress reads a layer, half of whose bytes are random.
func BenchmarkDecompress(b *testing.B) {
	raw := make([]byte, 64<<20)
	random := rand.NewChaCha8([32]byte{1})
	for i := 0; i < len(raw); i += 128 << 10 {
		_, _ = random.Read(raw[i : i+64<<10])
	}
	var layer bytes.Buffer
	w, err := oci.NewCompressor(&layer)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	d := descriptor(layer.Bytes())
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := oci.Decompress(oci.Verified(bytes.NewReader(layer.Bytes()), &d), &oci.Disk{Descriptor: d, Size: int64(len(raw))}, oci.MaxWindow)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != int64(len(raw)) {
			b.Fatal(n, err)
		}
		r.Close()
	}
	b.Logf("a layer of %d bytes", layer.Len())
}
