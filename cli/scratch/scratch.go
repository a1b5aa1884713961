package scratch

import (
	"errors"
	"os"
)

// File is a temporary file that is removed when it is closed.
type File struct{ *os.File }

// New creates an empty file.
func New() (*File, error) {
	created, err := os.CreateTemp("", "virtward-disk-")
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the folder
	}
	return &File{created}, nil
}

// Close removes the file.
func (f *File) Close() error { return errors.Join(f.File.Close(), os.Remove(f.Name())) }
