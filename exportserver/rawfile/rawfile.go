package rawfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ErrKind is a path to something else than a file or a block device.
var ErrKind = errors.New("it is neither a regular file nor a block device")

// File is a raw image. It is safe for concurrent use.
type File struct {
	*os.File

	size int64

	mu sync.Mutex
	// next is the first offset with data from an offset on.
	from, next int64
}

// Open opens a file or a block device in a folder that the process controls, such as the folder where a volume is mounted. The last
// element of the path is not a link.
func Open(name string) (*File, error) {
	folder, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	defer folder.Close()
	return OpenIn(folder, filepath.Base(name))
}

// OpenIn opens a file or a block device of a folder. Its name is not a link.
func OpenIn(folder *os.Root, name string) (*File, error) {
	entry, err := folder.Lstat(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	if !isImage(entry.Mode()) { // the opening of a named pipe would wait
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder.Name(), name), ErrKind)
	}
	f, err := folder.Open(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(entry, info) {
		err = fmt.Errorf("%s was replaced while it was opened", filepath.Join(folder.Name(), name))
	}
	if err != nil {
		f.Close()
		return nil, err //nolint:wrapcheck // as above
	}
	return New(f)
}

// New takes a file that is open. It closes the file if it cannot be an image.
func New(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err == nil && !isImage(info.Mode()) {
		err = fmt.Errorf("%s: %w", f.Name(), ErrKind)
	}
	var size int64
	if err == nil {
		size, err = f.Seek(0, io.SeekEnd) // of a block device too
	}
	if err != nil {
		f.Close()
		return nil, err //nolint:wrapcheck // it names the path
	}
	return &File{File: f, size: size}, nil
}

// isImage reports whether a mode is that of a regular file or of a block device.
func isImage(mode fs.FileMode) bool {
	return mode.IsRegular() || mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
}

// Size is that of the image in bytes.
func (f *File) Size() int64 { return f.size }

// NextData is the first offset from an offset on that is not in a hole; the size if there is none.
func (f *File) NextData(offset int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if offset >= f.from && offset < f.next {
		return f.next, nil
	}
	next, err := nextData(f.File, offset, f.size)
	if err != nil {
		return 0, fmt.Errorf("reading the holes of %s: %w", f.Name(), err)
	}
	f.from, f.next = offset, next
	return next, nil
}
