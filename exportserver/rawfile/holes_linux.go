package rawfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextData is the first offset from an offset on that is not in a hole; the size if there is none.
func nextData(f *os.File, offset, size int64) (int64, error) {
	next, err := f.Seek(offset, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return offset, nil // a block device, or a file system that does not know its holes
	}
	return next, err
}
