package oci_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/virtward/virtward/oci"
)

// entryOf is a file of an archive.
type entryOf struct {
	name, content string
	kind          byte
}

// archived is an archive of tar.
func archived(t testing.TB, files ...entryOf) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(f.content))}
		if f.kind != 0 {
			header.Typeflag, header.Size, header.Linkname = f.kind, 0, "elsewhere"
		}
		err := w.WriteHeader(header)
		if err == nil && f.kind == 0 {
			_, err = io.WriteString(w, f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const version = `{"imageLayoutVersion":"1.0.0"}`

// blobFile is a file of a layout.
func blobFile(content string) entryOf {
	return entryOf{name: "blobs/sha256/" + descriptor([]byte(content)).Digest.Encoded(), content: content}
}

// refer is an index with a manifest.
func refer(artifactType, content string) string {
	return fmt.Sprintf(`{"schemaVersion":2,"artifactType":%q,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":%d,"platform":{"architecture":"arm64","os":"linux"}}]}`,
		artifactType, descriptor([]byte(content)).Digest, len(content))
}

// TestStored: what KubeVirt and other programs write is read, and each layer is where the archive has it.
func TestStored(t *testing.T) {
	const kind = "application/vnd.kubevirt.virtualmachinetemplate.v1"
	ofArtifact := refer(kind, manifest)
	for name, files := range map[string][]entryOf{
		"of KubeVirt":        {{name: "oci-layout", content: version}, {name: "index.json", content: ofArtifact}, blobFile(manifest)},
		"with folders":       {{name: "./blobs/", kind: tar.TypeDir}, {name: "./index.json", content: ofArtifact}, {name: "./oci-layout", content: version}, {name: "./" + blobFile(manifest).name, content: manifest}},
		"of other programs":  {{name: "oci-layout", content: version}, {name: "index.json", content: refer("", ofArtifact)}, blobFile(ofArtifact), blobFile(manifest)},
		"of a lone manifest": {{name: "oci-layout", content: version}, {name: "index.json", content: refer("", manifest)}, blobFile(manifest)},
	} {
		t.Run(name, func(t *testing.T) {
			data := archived(t, files...)
			if !oci.IsLayout(bytes.NewReader(data), int64(len(data))) {
				t.Error("it is not recognized")
			}
			layout, err := oci.OpenLayout(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			top, err := layout.Top()
			if err != nil {
				t.Fatal(err)
			}
			parsed := top.Manifest
			if parsed == nil {
				content, err := layout.Blob(&top.Variants[0].Descriptor)
				if err == nil {
					parsed, err = oci.ParseManifest(content)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(parsed.Disks) != 1 || parsed.Disks[0].Names[0] != "root" {
				t.Errorf("got %+v", parsed)
			}
			d := descriptor([]byte(manifest))
			at, err := layout.Layer(&d)
			if err != nil || string(data[at:at+d.Size]) != manifest {
				t.Errorf("%d, %v", at, err)
			}
		})
	}
	for name, data := range map[string][]byte{"an OVA": archived(t, entryOf{name: "a.ovf"}, entryOf{name: "index.json"}), "noise": bytes.Repeat([]byte("noise "), 1000), "nothing": nil} {
		if oci.IsLayout(bytes.NewReader(data), int64(len(data))) {
			t.Errorf("%s is a layout", name)
		}
	}
}

// TestStoredRejected: no archive of the table is read, and the reason is that of the table.
func TestStoredRejected(t *testing.T) {
	const kind = "application/vnd.kubevirt.virtualmachinetemplate.v1"
	layout, index, whole := entryOf{name: "oci-layout", content: version}, entryOf{name: "index.json", content: refer(kind, manifest)}, blobFile(manifest)
	many := make([]entryOf, 1001)
	for n := range many {
		many[n] = entryOf{name: fmt.Sprint(n)}
	}
	good := archived(t, layout, index, whole)
	for name, c := range map[string]struct {
		data   []byte
		reason oci.Reason
	}{
		"nothing":                        {nil, oci.InvalidDescriptor},
		"noise":                          {bytes.Repeat([]byte("noise "), 1000), oci.InvalidImage},
		"half of it":                     {good[:1600], oci.SizeMismatch},
		"a symbolic link":                {archived(t, layout, index, entryOf{name: whole.name, kind: tar.TypeSymlink}), oci.UnsafeName},
		"a hard link":                    {archived(t, layout, index, entryOf{name: whole.name, kind: tar.TypeLink}), oci.UnsafeName},
		"a device":                       {archived(t, layout, index, entryOf{name: whole.name, kind: tar.TypeBlock}), oci.UnsafeName},
		"a file twice":                   {archived(t, layout, index, whole, whole), oci.DuplicateName},
		"a file twice by a folder":       {archived(t, layout, index, whole, entryOf{name: "./index.json", content: index.content}), oci.DuplicateName},
		"many files":                     {archived(t, many...), oci.LimitExceeded},
		"a long name":                    {archived(t, layout, index, whole, entryOf{name: strings.Repeat("a/", 513) + "b", content: "c"}), oci.LimitExceeded},
		"no version":                     {archived(t, index, whole), oci.InvalidDescriptor},
		"another version":                {archived(t, entryOf{name: "oci-layout", content: `{"imageLayoutVersion":"2.0.0"}`}, index, whole), oci.WrongType},
		"a long version":                 {archived(t, entryOf{name: "oci-layout", content: strings.Repeat(" ", 5000)}, index, whole), oci.LimitExceeded},
		"no index":                       {archived(t, layout, whole), oci.InvalidDescriptor},
		"a long index":                   {archived(t, layout, entryOf{name: "index.json", content: strings.Repeat(" ", oci.MaxIndex+1)}, whole), oci.LimitExceeded},
		"an index that is not JSON":      {archived(t, layout, entryOf{name: "index.json", content: "["}, whole), oci.InvalidJSON},
		"several artifacts":              {archived(t, layout, entryOf{name: "index.json", content: `{"schemaVersion":2,"manifests":[{},{}]}`}), oci.NoVariant},
		"no artifact":                    {archived(t, layout, entryOf{name: "index.json", content: `{"schemaVersion":2}`}), oci.NoVariant},
		"a digest of a path":             {archived(t, layout, entryOf{name: "index.json", content: `{"schemaVersion":2,"manifests":[{"digest":"sha256:../../a","size":1}]}`}), oci.InvalidDescriptor},
		"another blob":                   {archived(t, layout, index, entryOf{name: whole.name, content: strings.Replace(manifest, "root", "boot", 1)}), oci.DigestMismatch},
		"a longer blob":                  {archived(t, layout, index, entryOf{name: whole.name, content: manifest + " "}), oci.SizeMismatch},
		"no blob":                        {archived(t, layout, index), oci.InvalidDescriptor},
		"another blob of a lone index":   {archived(t, layout, entryOf{name: "index.json", content: refer("", manifest)}, entryOf{name: whole.name, content: strings.Replace(manifest, "root", "boot", 1)}), oci.DigestMismatch},
		"an image of a container":        {archived(t, layout, entryOf{name: "index.json", content: refer("application/vnd.other", manifest)}, whole), oci.WrongType},
		"a lone image of a container":    {archived(t, layout, entryOf{name: "index.json", content: refer("", `{"schemaVersion":2}`)}, blobFile(`{"schemaVersion":2}`)), oci.InvalidDescriptor},
		"an index of an index of itself": {archived(t, layout, entryOf{name: "index.json", content: refer("", refer("", manifest))}, blobFile(refer("", manifest)), whole), oci.WrongType},
	} {
		err := func() error {
			stored, err := oci.OpenLayout(bytes.NewReader(c.data), int64(len(c.data)))
			if err != nil {
				return err
			}
			top, err := stored.Top()
			if err != nil {
				return err
			}
			_, err = stored.Blob(&top.Variants[0].Descriptor)
			return err
		}()
		var found *oci.Rejection
		if !errors.As(err, &found) || found.Reason != c.reason {
			t.Errorf("%s: %v, want %s", name, err, c.reason)
		}
	}
}

// FuzzOpenLayout: no archive makes the reader panic, what it finds is within the archive, and a manifest or a configuration has the digest of
// its descriptor.
func FuzzOpenLayout(f *testing.F) {
	const kind = "application/vnd.kubevirt.virtualmachinetemplate.v1"
	ofArtifact := refer(kind, manifest)
	layout, whole := entryOf{name: "oci-layout", content: version}, blobFile(manifest)
	for _, files := range [][]entryOf{
		{layout, {name: "index.json", content: refer("", manifest)}, whole},
		{layout, {name: "index.json", content: ofArtifact}, whole, {name: "blobs/sha256/" + strings.Repeat("0", 64)}},
		{{name: "./blobs/", kind: tar.TypeDir}, {name: "./index.json", content: refer("", ofArtifact)}, layout, blobFile(ofArtifact), whole},
		{layout, {name: "index.json", content: ofArtifact}, {name: whole.name, content: manifest[1:]}},
		{{name: strings.Repeat("a/", 200) + "b", content: "c"}},
		{layout, {name: whole.name, kind: tar.TypeLink}},
	} {
		data := archived(f, files...)
		f.Add(data)
		f.Add(data[:len(data)-1100])
	}
	d := descriptor([]byte(manifest))
	f.Fuzz(func(t *testing.T, data []byte) {
		from, size := bytes.NewReader(data), int64(len(data))
		_ = oci.IsLayout(from, size)
		stored, err := oci.OpenLayout(from, size)
		if err != nil {
			if known := (*oci.Rejection)(nil); !errors.As(err, &known) {
				t.Errorf("got %v", err)
			}
			return
		}
		all := []oci.Descriptor{d}
		if top, err := stored.Top(); err == nil {
			for _, v := range top.Variants {
				all = append(all, v.Descriptor)
			}
		}
		for i := range all {
			if at, err := stored.Layer(&all[i]); err == nil && (at < 0 || at+all[i].Size > size) {
				t.Errorf("a blob is at %d of %d bytes", at, size)
			}
			if content, err := stored.Blob(&all[i]); err == nil && descriptor(content).Digest != all[i].Digest {
				t.Errorf("the blob %s has another digest", all[i].Digest)
			}
		}
	})
}
