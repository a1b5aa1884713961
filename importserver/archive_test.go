package importserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/virtward/virtward/importserver/volumes"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/web"
)

// volumeOf is a claim with an OVA.
func volumeOf(t *testing.T, data []byte) (volume *transfer.Volume, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return &transfer.Volume{Folder: filepath.Dir(file)}, file
}

// TestArchive holds that the OVA of a volume is served by ranges, with a tag that changes with it, to who has the token.
func TestArchive(t *testing.T) {
	data := guest(3 << 20)
	volume, file := volumeOf(t, data)
	s := startPlan(t, nil, &transfer.Plan{Volume: volume})
	whole, body, err := s.get(t, http.MethodGet, transfer.PathArchive)
	if err != nil || whole.code != http.StatusOK || !bytes.Equal(body, data) {
		t.Fatalf("%d, %d bytes, %v", whole.code, len(body), err)
	}
	tag := whole.header.Get("ETag")
	part, body, err := s.get(t, http.MethodGet, transfer.PathArchive, "Range", "bytes=512-1535", "If-Range", tag)
	if err != nil || part.code != http.StatusPartialContent || !bytes.Equal(body, data[512:1536]) || part.header.Get("Content-Range") != fmt.Sprintf("bytes 512-1535/%d", len(data)) {
		t.Errorf("a range: %d, %d bytes, %v, %v", part.code, len(body), part.header, err)
	}
	if without, _, _ := s.get(t, http.MethodGet, transfer.PathArchive, transfer.TokenHeader, ""); without.code != http.StatusNotFound {
		t.Errorf("without the token: %d", without.code)
	}
	if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	changed, body, _ := s.get(t, http.MethodGet, transfer.PathArchive, "Range", "bytes=512-1535", "If-Range", tag)
	if changed.code != http.StatusOK || len(body) != len(data) || changed.header.Get("ETag") == tag {
		t.Errorf("a range of the file as it was: %d, %d bytes, %s", changed.code, len(body), changed.header.Get("ETag"))
	}
	none := (&upstream{data: image(t, guest(1<<20))}).serve(t, of(image(t, guest(1<<20))))
	if answer, _, _ := none.get(t, http.MethodGet, transfer.PathArchive); answer.code != http.StatusNotFound {
		t.Errorf("a plan without a volume: %d", answer.code)
	}
}

// TestArchiveCodes holds that each reason why a claim has no OVA has a code of its own.
func TestArchiveCodes(t *testing.T) {
	codes := map[int]bool{}
	for _, c := range archiveCodes {
		codes[c.code] = true
	}
	if len(codes) != len(archiveCodes) {
		t.Errorf("got %d codes for %d errors", len(codes), len(archiveCodes))
	}
	volume, _ := volumeOf(t, nil)
	for code, file := range map[int]string{http.StatusNotFound: "a.ova", http.StatusUnprocessableEntity: "disk.img/a.ova"} {
		volume.File = file
		s := startPlan(t, nil, &transfer.Plan{Volume: volume})
		if answer, _, _ := s.get(t, http.MethodGet, transfer.PathArchive); answer.code != code {
			t.Errorf("%s: got %d, want %d", file, answer.code, code)
		}
	}
}

// TestVolume holds that the disks of a volume are those of the version that was indexed: another one is not served, and one that changes
// while it is sent is not complete.
func TestVolume(t *testing.T) {
	disk := image(t, guest(4<<20))
	data := append(bytes.Repeat([]byte("h"), 512), disk...)
	volume, file := volumeOf(t, data)
	opened, err := volumes.Open(volume)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	s := startPlan(t, nil, &transfer.Plan{
		Volume: volume, Files: []transfer.File{{Volume: true, Size: opened.Size(), Validator: opened.Tag}},
		Disks: []transfer.Disk{{Name: "a.vmdk", Parts: []transfer.Part{{Offset: 512, Size: int64(len(disk)), Digest: digest(disk)}}}},
	})
	if _, body, err := s.get(t, http.MethodGet, "/disks/0"); err != nil || !bytes.Equal(body, disk) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	part, err := openVolume(volume, &transfer.File{Size: opened.Size(), Validator: opened.Tag}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := part.Read(make([]byte, 10)); !errors.Is(err, errChanged) {
		t.Errorf("a file that changes while it is read: %v", err)
	}
	if answer, _, _ := s.get(t, http.MethodGet, "/disks/0"); answer.code != http.StatusBadGateway || s.problem(t).Reason != web.ReasonChanged {
		t.Errorf("another version: %d, %+v", answer.code, s.problem(t))
	}
	if _, err := openVolume(volume, &transfer.File{Size: opened.Size() + 1}, 0, 100); !errors.Is(err, errChanged) {
		t.Errorf("another size: %v", err)
	}
}
