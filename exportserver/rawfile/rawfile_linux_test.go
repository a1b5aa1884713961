package rawfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpen holds what is opened: files and devices, but neither links nor named pipes.
func TestOpen(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	if err := os.WriteFile(path("secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	volume := path("volume")
	if err := errors.Join(os.Mkdir(volume, 0o700), os.WriteFile(filepath.Join(volume, "disk.img"), []byte("content"), 0o600),
		os.Symlink("../secret", filepath.Join(volume, "outside")), os.Symlink("disk.img", filepath.Join(volume, "inside")),
		os.Symlink("/dev/zero", filepath.Join(volume, "device")), unix.Mkfifo(filepath.Join(volume, "pipe"), 0o600), os.Mkdir(filepath.Join(volume, "folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(filepath.Join(volume, "disk.img"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if data, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err != nil || string(data) != "content" {
		t.Errorf("got %q, %v", data, err)
	}
	for _, name := range []string{"outside", "inside", "device", "pipe", "folder"} {
		if _, err := Open(filepath.Join(volume, name)); !errors.Is(err, ErrKind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(volume, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(zero); !errors.Is(err, ErrKind) {
		t.Errorf("a character device: %v", err)
	}
}

// TestHoles holds that holes are found, and that an answer is not taken for another offset.
func TestHoles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk.img")
	const block = 1 << 20
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 * block); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, block), 4*block); err != nil {
		t.Fatal(err)
	}
	image, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	if next, err := image.NextData(0); err != nil || next != 4*block {
		t.Skipf("the file system of the test does not know its holes: %d, %v", next, err)
	}
	for offset, want := range map[int64]int64{1: 4 * block, 4 * block: 4 * block, 4*block + 1: 4*block + 1, 5 * block: 8 * block, 8 * block: 8 * block} {
		if next, err := image.NextData(offset); err != nil || next != want {
			t.Errorf("from %d: got %d, %v, want %d", offset, next, err, want)
		}
	}
}
