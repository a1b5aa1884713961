package volumes_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/virtward/virtward/importserver/volumes"
	"github.com/virtward/virtward/ovf/transfer"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestOpen holds which file of a claim is opened, and that a claim can lead to nothing else: not to a file beside it, such as the token of
// the server, to a device, or to a pipe, whose opening would wait.
func TestOpen(t *testing.T) {
	for name, test := range map[string]struct {
		// files have their name as content, and end with / for folders. links lead from a name to another.
		files []string
		links map[string]string
		pipes []string
		path  string
		want  string
		err   error
	}{
		"CDI's file":                    {files: []string{"disk.img", "a.ova"}, want: "disk.img"},
		"the only OVA":                  {files: []string{"lost+found/", "notes.txt", "Quay.OVA"}, want: "Quay.OVA"},
		"several":                       {files: []string{"a.ova", "b.ova"}, err: volumes.ErrSeveral},
		"none":                          {files: []string{"a.tar"}, err: volumes.ErrAbsent},
		"an empty claim":                {err: volumes.ErrAbsent},
		"a folder is no OVA":            {files: []string{"a.ova/", "b.ova"}, want: "b.ova"},
		"a link is no OVA":              {files: []string{"b.ova"}, links: map[string]string{"a.ova": "b.ova"}, want: "b.ova"},
		"named":                         {files: []string{"disk.img", "a.ova", "b.ova"}, path: "b.ova", want: "b.ova"},
		"in a folder":                   {files: []string{"x/", "x/y/", "x/y/a.tar"}, path: "x/y/a.tar", want: "x/y/a.tar"},
		"absent":                        {files: []string{"disk.img"}, path: "x/a.ova", err: volumes.ErrAbsent},
		"a folder":                      {files: []string{"x/"}, path: "x", err: volumes.ErrKind},
		"a file as a folder":            {files: []string{"x"}, path: "x/a.ova", err: volumes.ErrKind},
		"a link":                        {files: []string{"b.ova"}, links: map[string]string{"a.ova": "b.ova"}, path: "a.ova", err: volumes.ErrKind},
		"a link out":                    {links: map[string]string{"a.ova": "../secret"}, path: "a.ova", err: volumes.ErrKind},
		"a link in place of CDI's file": {links: map[string]string{"disk.img": "../secret"}, err: volumes.ErrKind},
		"a link to a device":            {links: map[string]string{"a.ova": "/dev/zero"}, path: "a.ova", err: volumes.ErrKind},
		"a folder that is a link":       {files: []string{"x/", "x/a.ova"}, links: map[string]string{"y": "x"}, path: "y/a.ova", err: volumes.ErrKind},
		"a folder that is a link out":   {links: map[string]string{"y": ".."}, path: "y/secret", err: volumes.ErrKind},
		"a pipe":                        {pipes: []string{"disk.img"}, err: volumes.ErrKind},
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			folder := filepath.Join(outside, "claim")
			must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600), os.Mkdir(folder, 0o700))
			for _, f := range test.files {
				at := filepath.Join(folder, f)
				if f[len(f)-1] == '/' {
					must(t, os.Mkdir(at, 0o700))
				} else {
					must(t, os.WriteFile(at, []byte(f), 0o600))
				}
			}
			for from, to := range test.links {
				must(t, os.Symlink(to, filepath.Join(folder, from)))
			}
			for _, p := range test.pipes {
				must(t, unix.Mkfifo(filepath.Join(folder, p), 0o600))
			}
			f, err := volumes.Open(&transfer.Volume{Folder: folder, File: test.path})
			if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Fatalf("got %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			defer f.Close()
			if got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err != nil || string(got) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestDenied holds that the error of a file without permission differs from that of one that does not exist.
func TestDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read all files")
	}
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "disk.img"), nil, 0o000))
	if _, err := volumes.Open(&transfer.Volume{Folder: folder}); !errors.Is(err, volumes.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

// TestDeviceInClaim holds that a node of a device in a claim is not opened, such as that of a disk of the machine.
func TestDeviceInClaim(t *testing.T) {
	folder := t.TempDir()
	if err := unix.Mknod(filepath.Join(folder, "disk.img"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil { //nolint:gosec // a small number
		t.Skipf("the test may not create devices: %s", err)
	}
	if _, err := volumes.Open(&transfer.Volume{Folder: folder}); !errors.Is(err, volumes.ErrKind) {
		t.Errorf("got %v", err)
	}
}

// TestDevice holds that a device is opened by its path. A file stands for it, as a test has no block device.
func TestDevice(t *testing.T) {
	at := filepath.Join(t.TempDir(), "device")
	must(t, os.WriteFile(at, []byte("content"), 0o600))
	f, err := volumes.Open(&transfer.Volume{Device: at})
	must(t, err)
	defer f.Close()
	must(t, os.Chtimes(at, time.Time{}, time.Unix(1, 0)))
	if got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size())); err != nil || string(got) != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	again, err := volumes.Open(&transfer.Volume{Device: at})
	must(t, err)
	defer again.Close()
	if again.Tag != f.Tag {
		t.Errorf("the tags are %s and %s", f.Tag, again.Tag)
	}
	if _, err := volumes.Open(&transfer.Volume{Device: "/dev/zero"}); !errors.Is(err, volumes.ErrKind) {
		t.Errorf("a character device: %v", err)
	}
}

// TestChanged holds that a change is seen: in the tag of the file that is opened again, and by who reads the file.
func TestChanged(t *testing.T) {
	for name, change := range map[string]func(at string) error{
		"another size": func(at string) error { return os.Truncate(at, 3) },
		"another time": func(at string) error { return os.Chtimes(at, time.Time{}, time.Unix(1, 0)) },
		"other bytes of the same time": func(at string) error {
			info, err := os.Stat(at)
			return errors.Join(err, os.WriteFile(at, []byte("CONTENT"), 0o600), os.Chtimes(at, time.Time{}, info.ModTime()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "disk.img")
			must(t, os.WriteFile(at, []byte("content"), 0o600))
			v := &transfer.Volume{Folder: filepath.Dir(at)}
			f, err := volumes.Open(v)
			must(t, err)
			defer f.Close()
			must(t, change(at))
			again, err := volumes.Open(v)
			must(t, err)
			defer again.Close()
			if f.Tag == again.Tag {
				t.Error("the tags are equal")
			}
			if _, err := f.ReadAt(make([]byte, 7), 0); !errors.Is(err, volumes.ErrChanged) && name != "other bytes of the same time" {
				t.Errorf("reading: %v", err)
			}
		})
	}
}
