package volumes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/virtward/virtward/exportserver/rawfile"
	"github.com/virtward/virtward/ovf/transfer"
)

// Why a claim has no OVA that can be opened. Errors of reading are others.
var (
	// ErrAbsent means that there is no file with the name, or no file with one of the default names.
	ErrAbsent = errors.New("the volume has no such file")
	// ErrSeveral means that no file is named, and several have the extension .ova.
	ErrSeveral = errors.New("the volume has several files with the extension .ova")
	// ErrKind means that the file, or a folder of its path, is a link or something else than a file.
	ErrKind = errors.New("the path leads to a link, a folder, a device or a pipe")
	// ErrDenied means that the user of the process may not read the file.
	ErrDenied = errors.New("the file may not be read")
	// ErrChanged means that the file changed while it was read.
	ErrChanged = errors.New("the file changed while it was read")
)

// diskImage is the file of CDI in a claim with a file system.
const diskImage = "disk.img"

// extension is that of an OVA.
const extension = ".ova"

// The bounds: of the beginning of a file that the tag depends on, in bytes, and of the entries of a folder that are looked at.
const (
	headBytes  = 64 << 10
	maxEntries = 10_000
	batch      = 100
)

// File is an OVA in a claim. Close it.
type File struct {
	file *rawfile.File
	// Tag identifies the version of the file, as a strong ETag: a digest of its size, the time of its last change and its beginning. A
	// device has no such time.
	Tag string

	device   bool
	modified time.Time
}

// Open opens the OVA of a volume.
func Open(v *transfer.Volume) (*File, error) {
	f, err := open(v)
	if err != nil {
		return nil, described(err)
	}
	opened := &File{file: f, device: v.Device != ""}
	if err := opened.identify(); err != nil {
		f.Close()
		return nil, described(err)
	}
	return opened, nil
}

func open(v *transfer.Volume) (*rawfile.File, error) {
	if v.Device != "" {
		return rawfile.Open(v.Device) //nolint:wrapcheck // described
	}
	folder, err := os.OpenRoot(v.Folder)
	if err != nil {
		return nil, err //nolint:wrapcheck // described
	}
	defer func() { _ = folder.Close() }() // nothing is written
	name := v.File
	if name == "" {
		if name, err = defaultName(folder); err != nil {
			return nil, err
		}
	}
	for {
		first, rest, nested := strings.Cut(name, "/")
		if !nested {
			return openFile(folder, first)
		}
		below, err := openFolder(folder, first)
		if err != nil {
			return nil, err
		}
		_ = folder.Close() // as above
		folder, name = below, rest
	}
}

// openFolder opens a folder that is not a link.
func openFolder(in *os.Root, name string) (*os.Root, error) {
	entry, err := in.Lstat(name)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // described
	case !entry.IsDir():
		return nil, ErrKind
	}
	return in.OpenRoot(name) //nolint:wrapcheck // as above
}

func openFile(in *os.Root, name string) (*rawfile.File, error) {
	entry, err := in.Lstat(name)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // described
	case !entry.Mode().IsRegular():
		return nil, ErrKind
	}
	return rawfile.OpenIn(in, name) //nolint:wrapcheck // as above
}

// defaultName is disk.img, or the only file with the extension of an OVA.
func defaultName(in *os.Root) (string, error) {
	if _, err := in.Lstat(diskImage); err == nil {
		return diskImage, nil
	}
	folder, err := in.Open(".")
	if err != nil {
		return "", err //nolint:wrapcheck // described
	}
	defer folder.Close()
	found := ""
	for range maxEntries / batch {
		entries, err := folder.ReadDir(batch)
		for _, e := range entries {
			switch {
			case !e.Type().IsRegular() || !strings.EqualFold(path.Ext(e.Name()), extension):
			case found != "":
				return "", ErrSeveral
			default:
				found = e.Name()
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err //nolint:wrapcheck // as above
		}
	}
	if found == "" {
		return "", ErrAbsent
	}
	return found, nil
}

// described is one of the errors of the package, or that of reading.
func described(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrAbsent
	case errors.Is(err, fs.ErrPermission):
		return ErrDenied
	case errors.Is(err, rawfile.ErrKind):
		return ErrKind
	}
	return err
}

// identify computes the tag.
func (f *File) identify() error {
	if !f.device {
		info, err := f.file.Stat()
		if err != nil {
			return err //nolint:wrapcheck // described
		}
		f.modified = info.ModTime()
	}
	head := make([]byte, min(headBytes, f.Size()))
	if _, err := f.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err //nolint:wrapcheck // as above
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %d\n", f.Size(), f.modified.UnixNano())
	_, _ = sum.Write(head) // a hash returns no error
	f.Tag = strconv.Quote(hex.EncodeToString(sum.Sum(nil)[:16]))
	return nil
}

// Size is that of the file in bytes.
func (f *File) Size() int64 { return f.file.Size() }

// ReadAt implements io.ReaderAt. The error is ErrChanged if the file is not the one that was opened, as far as its size and the time of its
// last change show it. A device shows nothing.
func (f *File) ReadAt(into []byte, offset int64) (int, error) {
	n, err := f.file.ReadAt(into, offset)
	if f.device {
		return n, err //nolint:wrapcheck // io.EOF must stay
	}
	info, failed := f.file.Stat()
	if failed != nil || info.Size() != f.Size() || !info.ModTime().Equal(f.modified) {
		return 0, ErrChanged
	}
	return n, err //nolint:wrapcheck // as above
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() } //nolint:wrapcheck // it names the path
