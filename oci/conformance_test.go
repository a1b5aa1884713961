package oci_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/oci"
)

// recorded has archives that KubeVirt's exporter wrote (August 2026).
const recorded = "../conformance/testdata/oci"

// archive reads the files of an archive.
func archive(t *testing.T, path string) (content []byte, files map[string][]byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return content, files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func blob(t *testing.T, files map[string][]byte, d *oci.Descriptor) []byte {
	t.Helper()
	content, err := io.ReadAll(oci.Verified(bytes.NewReader(files["blobs/sha256/"+d.Digest.Encoded()]), d))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// belonging adds the fields that belong to a cluster.
func belonging(t *testing.T, config []byte) []byte {
	t.Helper()
	const fields = `"namespace":"harbours","uid":"1","resourceVersion":"2","generation":3,"creationTimestamp":"2026-11-01T12:00:00Z","managedFields":[{"manager":"kubectl"}],`
	written := strings.Replace(string(config), `"metadata":{`, `"metadata":{`+fields, 1)
	return []byte(strings.TrimSuffix(written, "}") + `,"status":{"ready":true}}`)
}

// TestRecorded writes the artifacts of the same objects and disks again. All bytes are equal: the index, the manifest and the
// configuration. So are the layers and the archive while the version of the compressor is that of KubeVirt.
func TestRecorded(t *testing.T) {
	paths, err := filepath.Glob(recorded + "/*.oci.tar")
	if err != nil || len(paths) < 2 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			content, files := archive(t, path)
			top, err := oci.ParseTop(files["index.json"])
			if err != nil {
				t.Fatal(err)
			}
			var packed []*oci.Packed
			raws := map[string][]byte{}
			for i := range top.Variants {
				manifest, err := oci.ParseManifest(blob(t, files, &top.Variants[i].Descriptor))
				if err != nil {
					t.Fatal(err)
				}
				config := blob(t, files, &manifest.Config)
				object, err := oci.NewObject(belonging(t, config))
				if err != nil {
					t.Fatal(err)
				}
				object.Architecture = top.Variants[i].Platform // a parameter can be all that the template says
				if diff := cmp.Diff(string(config), string(object.Config)); diff != "" {
					t.Errorf("the configuration (-KubeVirt +Virtward):\n%s", diff)
				}
				var disks []oci.Descriptor
				for j := range manifest.Disks {
					disk := &manifest.Disks[j]
					r, err := oci.Decompress(bytes.NewReader(blob(t, files, &disk.Descriptor)), disk, oci.MaxWindow)
					if err != nil {
						t.Fatal(err)
					}
					raw, err := io.ReadAll(r)
					if err != nil {
						t.Fatal(err)
					}
					measured, err := oci.Measure(disk.Names[0], bytes.NewReader(raw))
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(disk.Annotations, measured.Annotations); diff != "" {
						t.Errorf("the annotations (-KubeVirt +Virtward):\n%s", diff)
					}
					if measured.Digest != disk.Digest { // another version of the compressor; the manifest names what KubeVirt wrote
						t.Logf("layer %s: KubeVirt's compressor wrote other bytes", disk.Names[0])
						measured.Digest, measured.Size = disk.Digest, disk.Size
					} else {
						raws[measured.Digest.String()] = raw
					}
					disks = append(disks, measured)
				}
				p, err := oci.Pack(object, disks)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(blob(t, files, &top.Variants[i].Descriptor)), string(p.Manifest.Content)); diff != "" {
					t.Errorf("the manifest (-KubeVirt +Virtward):\n%s", diff)
				}
				packed = append(packed, p)
			}
			index, err := oci.NewIndex(packed, top.Created)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(files["index.json"]), string(index.Content)); diff != "" {
				t.Errorf("the index (-KubeVirt +Virtward):\n%s", diff)
			}
			if len(packed) != 1 || len(raws) != len(packed[0].Layers) {
				t.Skip("the archive has other layers")
			}
			var written bytes.Buffer
			err = oci.WriteLayout(&written, index, packed[0], func(w io.Writer, d *oci.Descriptor) error {
				c, err := oci.NewCompressor(w)
				if err != nil {
					return err
				}
				_, err = c.Write(raws[d.Digest.String()])
				return errors.Join(err, c.Close())
			})
			if err != nil || !bytes.Equal(written.Bytes(), content) {
				t.Errorf("the archive of %d bytes differs from that of %d: %v", written.Len(), len(content), err)
			}
		})
	}
}

// TestPattern: the disks are those that the exporter read.
func TestPattern(t *testing.T) {
	_, files := archive(t, recorded+"/vm-two-disks-arm64.oci.tar")
	want := map[string][]byte{"root": make([]byte, 2<<20), "logs": make([]byte, 1<<20)}
	for i := range want["root"] {
		want["root"][i] = byte((i>>9 ^ i>>17) & 0xff)
	}
	top, err := oci.ParseTop(files["index.json"])
	if err != nil || top.Kind != oci.VirtualMachine || top.Variants[0].Platform != "arm64" || top.Created != "2026-11-01T12:00:00Z" {
		t.Fatal(top, err)
	}
	manifest, err := oci.ParseManifest(blob(t, files, &top.Variants[0].Descriptor))
	if err != nil || len(manifest.Disks) != 2 {
		t.Fatal(manifest, err)
	}
	for i := range manifest.Disks {
		disk := &manifest.Disks[i]
		r, err := oci.Decompress(oci.Verified(bytes.NewReader(files["blobs/sha256/"+disk.Digest.Encoded()]), &disk.Descriptor), disk, oci.MaxWindow)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want[disk.Names[0]]) {
			t.Errorf("%s: %d bytes, %v", disk.Names[0], len(got), err)
		}
	}
	object, err := oci.ParseObject(manifest.Kind, blob(t, files, &manifest.Config))
	if err != nil || object.Name != "harbour" || object.Architecture != "arm64" || object.VolumeOf("logs") == nil {
		t.Error(object, err)
	}
}

// TestCaseOfFields: names of fields are case-sensitive, as those of Kubernetes.
func TestCaseOfFields(t *testing.T) {
	_, files := archive(t, recorded+"/template-no-disk.oci.tar")
	upper := bytes.Replace(files["index.json"], []byte(`"artifactType"`), []byte(`"ArtifactType"`), 1)
	var found *oci.Rejection
	if _, err := oci.ParseTop(upper); !errors.As(err, &found) || found.Reason != oci.WrongType {
		t.Error(err)
	}
	if !json.Valid(upper) {
		t.Error("the test is wrong")
	}
}
