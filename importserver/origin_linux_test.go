package importserver

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/virtward/virtward/exportserver/rawfile"
	"github.com/virtward/virtward/ovf/transfer"
)

// TestOpenPath holds that only the regular file that was inspected is opened: a link could name a credential of the pod, and the opening of
// a named pipe would wait.
func TestOpenPath(t *testing.T) {
	volume := t.TempDir()
	path := func(name string) string { return filepath.Join(volume, name) }
	if err := errors.Join(os.WriteFile(path("a.ova"), []byte("content"), 0o600), os.Symlink("a.ova", path("link")), unix.Mkfifo(path("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	opened, err := openPath(&transfer.File{Path: path("a.ova"), Size: 7}, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if got, err := io.ReadAll(opened); err != nil || string(got) != "tent" {
		t.Errorf("got %q, %v, want the last four bytes", got, err)
	}
	for name, want := range map[string]error{"link": rawfile.ErrKind, "pipe": rawfile.ErrKind, "absent": os.ErrNotExist} {
		if _, err := openPath(&transfer.File{Path: path(name), Size: 7}, 0, 7); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	if _, err := openPath(&transfer.File{Path: path("a.ova"), Size: 8}, 0, 7); !errors.Is(err, errChanged) {
		t.Errorf("another size: got %v, want %v", err, errChanged)
	}
}
