package transfer

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/ovf/appliance"
)

// valid is a plan of a disk in an OVA, and of one in two chunks.
func valid() *Plan {
	return &Plan{
		Files: []File{{URL: "https://example.com/a.ova?signature=secret", Size: 1 << 30, Validator: `"v1"`}, {Volume: true, Size: 4096, Validator: `"2"`}},
		Disks: []Disk{
			{Name: "a.vmdk", Format: "vmdk", Parts: []Part{{File: 0, Offset: 1024, Size: 1 << 20, Digest: "sha256:" + strings.Repeat("0a", 32)}}},
			{Name: "b.iso.gz", Compression: CompressionGzip, MaxContent: 1 << 20, Parts: []Part{{File: 1, Size: 2048}, {File: 1, Offset: 2048, Size: 2048}}},
		},
		Volume:          &Volume{Folder: "/import/source", File: "a/b.ova"},
		Sources:         Sources{Hosts: []string{"example.com"}, Networks: []string{"10.1.0.0/16"}},
		AuthoritiesFile: "/import/authorities/ca.pem",
		Credentials:     &Credentials{UserFile: "/import/credentials/user", PasswordFile: "/import/credentials/password"}, //nolint:gosec // paths
		Serving:         Serving{CertificateFile: "/import/serving/tls.crt", KeyFile: "/import/serving/tls.key", TokenFile: "/import/serving/token"},
	}
}

func TestParse(t *testing.T) {
	data, err := json.Marshal(valid())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(valid(), got); diff != "" {
		t.Error(diff)
	}
	if size := got.Disks[1].Size(); size != 4096 {
		t.Errorf("the second disk has %d bytes", size)
	}
	archive := &Plan{Volume: &Volume{Device: "/import/device"}, Serving: valid().Serving}
	if found := archive.Validate(); len(found) > 0 {
		t.Errorf("a plan with an archive only: %v", found)
	}
	for text, want := range map[string]string{
		`{"files":[],"other":1}`:             "unknown field",
		string(data) + "{}":                  "text behind the JSON",
		"":                                   "not valid JSON",
		strings.Repeat(" ", MaxBytes) + "{}": "more than 900 KiB",
		"{}":                                 "files: Required value",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v", text, err)
		}
	}
}

// sum is a digest.
var sum = "sha256:" + strings.Repeat("0a", 32)

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"sources.networks: Invalid value":                                                            func(p *Plan) { p.Sources.Networks = []string{"10.1"} },
		"files: Too many":                                                                            func(p *Plan) { p.Files = make([]File, MaxParts+1) },
		"disks: Required value":                                                                      func(p *Plan) { p.Disks = nil },
		"disks: Too many: 129: must have at most 128 items":                                          func(p *Plan) { p.Disks = make([]Disk, MaxDisks+1) },
		"disks: Too many: 1003: must have at most 1000 items":                                        func(p *Plan) { p.Disks[0].Parts = make([]Part, MaxParts+1) },
		"files[0]: Required value: name one of url, volume and blob":                                 func(p *Plan) { p.Files[0].Volume = true },
		"files[1]: Required value: name one of url, volume and blob":                                 func(p *Plan) { p.Files[1].Volume = false },
		"files[0].url: Invalid value: \"http://127.0.0.1/?redacted\"":                                func(p *Plan) { p.Files[0].URL = "http://127.0.0.1/?token=secret" },
		"files[0].url: Invalid value: \"https://example.org/\"":                                      func(p *Plan) { p.Files[0].URL = "https://example.org/" },
		"files[0].url: Too long":                                                                     func(p *Plan) { p.Files[0].URL = "https://example.com/" + strings.Repeat("a", maxURL) },
		"files[1].volume: Invalid value: true: the plan has no volume":                               func(p *Plan) { p.Volume = nil },
		"volume: Required value: name one of folder and device":                                      func(p *Plan) { p.Volume.Device = "/import/device" },
		"volume.folder: Invalid value":                                                               func(p *Plan) { p.Volume.Folder = "/import/../etc" },
		"volume.device: Invalid value":                                                               func(p *Plan) { *p.Volume = Volume{Device: "dev"} },
		"volume.file: Invalid value: \"a\": must be empty for a device":                              func(p *Plan) { *p.Volume = Volume{Device: "/dev/a", File: "a"} },
		"volume.file: Invalid value: \"../a.ova\"":                                                   func(p *Plan) { p.Volume.File = "../a.ova" },
		"volume.file: Invalid value: \"/a.ova\"":                                                     func(p *Plan) { p.Volume.File = "/a.ova" },
		"volume.file: Invalid value: \"a/../b.ova\"":                                                 func(p *Plan) { p.Volume.File = "a/../b.ova" },
		"volume.file: Invalid value: \".\"":                                                          func(p *Plan) { p.Volume.File = "." },
		"volume.file: Too long":                                                                      func(p *Plan) { p.Volume.File = strings.Repeat("a", maxPath+1) },
		"files[0].size: Invalid value":                                                               func(p *Plan) { p.Files[0].Size = MaxSize + 1 },
		"files[0].validator: Invalid value":                                                          func(p *Plan) { p.Files[0].Validator = `W/"v1"` },
		"files[1].validator: Invalid value":                                                          func(p *Plan) { p.Files[1].Validator = "a\r\nHost: other" },
		"files[0].validator: Too long":                                                               func(p *Plan) { p.Files[0].Validator = strings.Repeat("a", maxValidator+1) },
		"disks[0].name: Too long":                                                                    func(p *Plan) { p.Disks[0].Name = strings.Repeat("a", maxName+1) },
		"disks[0].format: Unsupported value":                                                         func(p *Plan) { p.Disks[0].Format = "vhdx" },
		"files[0].blob: Invalid value: \"quay.io/a/b:1\": must be REGISTRY/REPOSITORY@sha256:DIGEST": func(p *Plan) { p.Files[0] = File{Blob: "quay.io/a/b:1", Size: 1 << 30} },
		"files[1].blob: Invalid value: \"quay.io/a/c@sha256:": func(p *Plan) {
			p.Files[0], p.Files[1] = File{Blob: "quay.io/a/b@" + sum, Size: 1 << 30}, File{Blob: "quay.io/a/c@" + sum, Size: 4096}
		},
		"disks[0].padded: Invalid value": func(p *Plan) { p.Disks[0].Padded = true },
		"disks[1].parts: Invalid value":  func(p *Plan) { p.Disks[1].Compression = CompressionZstd },
		"disks[0].maxContent: Invalid value: 511: must be at least": func(p *Plan) {
			p.Disks[0].Compression, p.Disks[0].Format, p.Disks[0].MaxContent = CompressionZstd, "raw", 511
		},
		"disks[0].format: Unsupported value: \"vmdk\"":               func(p *Plan) { p.Disks[0].Compression, p.Disks[0].MaxContent = CompressionZstd, 512 },
		"disks[0].compression: Unsupported value":                    func(p *Plan) { p.Disks[0].Compression, p.Disks[0].MaxContent = "xz", 1 },
		"disks[0].maxContent: Invalid value":                         func(p *Plan) { p.Disks[0].MaxContent = 1 },
		"disks[1].maxContent: Invalid value":                         func(p *Plan) { p.Disks[1].MaxContent = 0 },
		"disks[0].parts: Required value":                             func(p *Plan) { p.Disks[0].Parts = nil },
		"disks[0].parts: Invalid value: 511":                         func(p *Plan) { p.Disks[0].Parts[0].Size = 511 },
		"disks[0].parts[0].file: Invalid value: 2":                   func(p *Plan) { p.Disks[0].Parts[0].File = 2 },
		"disks[0].parts[0].offset: Invalid value":                    func(p *Plan) { p.Disks[0].Parts[0].Offset = -1 },
		"disks[1].parts[1].size: Invalid value: 2049":                func(p *Plan) { p.Disks[1].Parts[1].Size = 2049 },
		"disks[0].parts[0].size: Invalid value: 9223372036854775807": func(p *Plan) { p.Disks[0].Parts[0].Size = 1<<63 - 1 },
		"disks[0].parts[0].digest: Invalid value":                    func(p *Plan) { p.Disks[0].Parts[0].Digest = "md5:00" },
		"disks[1].parts[0].digest: Invalid value":                    func(p *Plan) { p.Disks[1].Parts[0].Digest = "sha1:" + strings.Repeat("0A", 20) },
		"serving.tokenFile: Required value":                          func(p *Plan) { p.Serving.TokenFile = "" },
		"serving.keyFile: Invalid value":                             func(p *Plan) { p.Serving.KeyFile = "tls.key" },
		"credentials.passwordFile: Required value":                   func(p *Plan) { p.Credentials.PasswordFile = "" },
	} {
		p := valid()
		change(p)
		found := p.Validate().ToAggregate()
		if found == nil || !strings.Contains(found.Error(), want) || strings.Contains(found.Error(), "secret") {
			t.Errorf("want %s, got %v", want, found)
		}
	}
}

// TestStage holds what a plan that copies a file can have.
func TestStage(t *testing.T) {
	valid := func() *Plan {
		return &Plan{
			Volume: &Volume{Folder: "/import/volume"}, Stage: &Stage{URL: "https://example.com/a.ova?key=secret", Compression: "gzip", MaxBytes: 1},
			Serving: Serving{CertificateFile: "/a", KeyFile: "/b", TokenFile: "/c"},
		}
	}
	ofBlob := valid()
	ofBlob.Stage.URL, ofBlob.Stage.Blob, ofBlob.Stage.Size = "", "quay.io/a/b@sha256:"+strings.Repeat("0", 64), 1
	for _, p := range []*Plan{valid(), ofBlob} {
		if found := p.Validate(); len(found) > 0 {
			t.Fatal(found)
		}
	}
	for want, change := range map[string]func(*Plan){
		"volume.folder: Required value":                   func(p *Plan) { p.Volume = &Volume{Device: "/dev/a"} },
		"volume.folder: Required value: name a folder":    func(p *Plan) { p.Volume.File = "a.ova" },
		"stage.compression: Unsupported value: \"zip\"":   func(p *Plan) { p.Stage.Compression = "zip" },
		"stage.maxBytes: Invalid value: 0":                func(p *Plan) { p.Stage.MaxBytes = 0 },
		"stage.url: Invalid value":                        func(p *Plan) { p.Stage.URL = "https://169.254.169.254/?key=secret" },
		"stage.url: Too long":                             func(p *Plan) { p.Stage.URL = "https://example.com/" + strings.Repeat("a", 9000) },
		"stage: Required value: name one of url and blob": func(p *Plan) { p.Stage.Blob = "quay.io/a/b@sha256:" + strings.Repeat("0", 64) },
		"stage: Required value: name one of url and":      func(p *Plan) { p.Stage.URL = "" },
		"stage.blob: Invalid value":                       func(p *Plan) { p.Stage.URL, p.Stage.Blob, p.Stage.Size = "", "quay.io/a/b:latest", 1 },
		"stage.size: Invalid value: 0":                    func(p *Plan) { p.Stage.URL, p.Stage.Blob = "", "quay.io/a/b@sha256:"+strings.Repeat("0", 64) },
		"stage: Forbidden: a plan with a copy":            func(p *Plan) { p.Files = []File{{Volume: true, Size: 1}}; p.Disks = []Disk{{}} },
	} {
		p := valid()
		change(p)
		found := p.Validate().ToAggregate()
		if found == nil || !strings.Contains(found.Error(), want) || strings.Contains(found.Error(), "secret") {
			t.Errorf("want %s, got %v", want, found)
		}
	}
}

// TestDisks holds that the parts of a package are those of the plan.
func TestDisks(t *testing.T) {
	found := &appliance.Appliance{Files: []appliance.File{
		{Href: "a.vmdk", Format: "vmdk", Parts: []appliance.Part{{Name: "a.vmdk", Offset: 512, Size: 600, Digest: "sha1:" + strings.Repeat("0", 40)}}},
		{Href: "b.vmdk", Compression: "gzip", MaxContent: 7, Parts: []appliance.Part{{Name: "b.vmdk.000000000", Size: 400}, {Name: "b.vmdk.000000001", Size: 200}}},
	}}
	want := []Disk{
		{Name: "a.vmdk", Format: "vmdk", Parts: []Part{{File: 0, Offset: 512, Size: 600, Digest: "sha1:" + strings.Repeat("0", 40)}}},
		{Name: "b.vmdk", Compression: "gzip", MaxContent: 7, Parts: []Part{{File: 1, Size: 400}, {File: 2, Size: 200}}},
	}
	index := map[string]int{"b.vmdk.000000000": 1, "b.vmdk.000000001": 2}
	if diff := cmp.Diff(want, Disks(found, func(name string) int { return index[name] })); diff != "" {
		t.Error(diff)
	}
}

func TestParseStatus(t *testing.T) {
	want := &Status{Disks: []DiskStatus{{Name: "a.vmdk", Size: 1 << 20, Digest: DigestMismatch, Problem: &Problem{Reason: "ChecksumMismatch", Message: "…", Permanent: true}}}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseStatus(data, 1)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := ParseStatus(data, 2); err == nil || err.Error() != "the status has 1 disks instead of 2" {
		t.Error(err)
	}
	if _, err := ParseStatus([]byte("["), 1); err == nil || !strings.Contains(err.Error(), "not valid JSON") {
		t.Error(err)
	}
}

// FuzzParse holds that what is parsed is within all bounds, and is parsed again.
func FuzzParse(f *testing.F) {
	data, err := json.Marshal(valid())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"files":[{"path":"/a","size":9223372036854775807}],"disks":[{"parts":[{"offset":9223372036854775807,"size":1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		for i := range p.Disks {
			if size := p.Disks[i].Size(); size < MinSize || size > MaxSize {
				t.Errorf("a disk of %d bytes", size)
			}
			for _, part := range p.Disks[i].Parts {
				if part.Offset < 0 || part.Size <= 0 || part.Offset+part.Size > p.Files[part.File].Size {
					t.Errorf("a part outside of its file: %+v", part)
				}
			}
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(again); err != nil {
			t.Errorf("not parsed again: %v", err)
		}
	})
}
