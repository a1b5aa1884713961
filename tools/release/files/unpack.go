package files

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Unpack writes the regular files of an archive without compression into a folder.
func Unpack(path, folder string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	archive := tar.NewReader(file)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%s has the entry %q, which is not a file below the folder", path, header.Name)
		}
		target := filepath.Join(folder, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		err = create(target, func(writer io.Writer) error {
			_, err := io.Copy(writer, archive) //nolint:gosec // an archive of this program
			return err
		})
		if err != nil {
			return err
		}
	}
}
