package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/vmdk"
)

// recordedArtifact is an archive that KubeVirt's exporter wrote of a virtual machine whose disks are harbour: a pattern, and zeros.
const recordedArtifact = "../../conformance/testdata/oci/vm-two-disks-arm64.oci.tar"

// artifact makes the artifact of the recorded one again.
func artifact(t *testing.T, root []byte) (recorded []byte, made *Archive) {
	t.Helper()
	recorded, err := os.ReadFile(recordedArtifact)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(recorded)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	top, err := oci.ParseTop(files["index.json"])
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := oci.ParseManifest(files[blobs+top.Variants[0].Digest.Encoded()])
	if err != nil {
		t.Fatal(err)
	}
	object, err := oci.NewObject(files[blobs+manifest.Config.Digest.Encoded()])
	if err != nil {
		t.Fatal(err)
	}
	made, err = NewArtifact(object, top.Created, map[string]Content{"root": bytes.NewReader(root), "logs": bytes.NewReader(make([]byte, 1<<20))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return recorded, made
}

func pattern() []byte {
	data := make([]byte, 2<<20)
	for i := range data {
		data[i] = byte((i>>9 ^ i>>17) & 0xff)
	}
	return data
}

// TestArtifact: the artifact has the bytes that KubeVirt's exporter wrote, also in parts. Verify returns the tag of the archive.
func TestArtifact(t *testing.T) {
	recorded, a := artifact(t, pattern())
	var whole bytes.Buffer
	digest, err := a.Write(&whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole.Bytes(), recorded) {
		t.Errorf("the archive of %d bytes differs from that of KubeVirt of %d bytes", whole.Len(), len(recorded))
	}
	if sum := sha256.Sum256(whole.Bytes()); digest != hex.EncodeToString(sum[:]) || a.Size() != int64(whole.Len()) {
		t.Errorf("digest %s, size %d of %d", digest, a.Size(), whole.Len())
	}
	for from := int64(0); from < a.Size(); from += 1499 {
		for _, up := range []int64{from + 1, from + 1500, a.Size()} {
			up = min(up, a.Size())
			var part bytes.Buffer
			if err := a.WriteRange(&part, from, up); err != nil || !bytes.Equal(part.Bytes(), whole.Bytes()[from:up]) {
				t.Fatalf("bytes %d to %d: %d bytes, %v", from, up, part.Len(), err)
			}
		}
	}
	verified, err := Verify(bytes.NewReader(whole.Bytes()))
	if err != nil || verified.Tag != a.Tag() || verified.SHA256 != digest || len(verified.Files) != len(a.Files) {
		t.Errorf("%+v %v", verified, err)
	}
	at := bytes.Index(whole.Bytes(), []byte{0x28, 0xb5, 0x2f, 0xfd}) // the first layer
	whole.Bytes()[at+10]++
	if _, err := Verify(&whole); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged layer: %v", err)
	}
}

// TestArtifactOfChangedDisk: a disk that changes after it was measured is found before the end of its layer.
func TestArtifactOfChangedDisk(t *testing.T) {
	root := pattern()
	_, a := artifact(t, root)
	root[len(root)-1]++
	var part bytes.Buffer
	if err := a.WriteRange(&part, 0, a.Size()); !errors.Is(err, vmdk.ErrChanged) {
		t.Errorf("%v", err)
	}
	if int64(part.Len()) >= a.Size() {
		t.Errorf("all %d bytes were written", part.Len())
	}
}

// TestArtifactWithoutContent names the volume.
func TestArtifactWithoutContent(t *testing.T) {
	object, err := oci.NewObject([]byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"},"spec":{"template":{"spec":{"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"b"}}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewArtifact(object, "", nil, Options{}); err == nil || !strings.Contains(err.Error(), "the volume root has no content") {
		t.Error(err)
	}
}
