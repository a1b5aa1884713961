package options

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Free returns an error if a file exists that is not overwritten.
func Free(name string, overwrite bool) error {
	if _, err := os.Lstat(name); err == nil && !overwrite {
		return fmt.Errorf("%s exists: use --overwrite to replace it", name)
	}
	return nil
}

// Rename gives a file its name when it is complete. It replaces no file that appeared meanwhile, unless it is overwritten.
func Rename(from, to string, overwrite bool) error {
	if overwrite {
		return os.Rename(from, to)
	}
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s appeared meanwhile: use --overwrite to replace it", to)
	}
	return os.Rename(from, to) // the file system has no links
}
