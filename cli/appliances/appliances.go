package appliances

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtward/virtward/cli/scratch"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/texts"
)

// File is an open appliance: an OVA, or a descriptor with files beside it. Close it.
type File struct {
	*uploadproxy.File

	// Compression is that of the whole archive; empty if it has none.
	Compression string
	// content is the file, or a temporary one if it is compressed.
	content *uploadproxy.File
	folder  *os.Root
	// beside are the files beside a descriptor that were opened, by their names.
	beside map[string]*uploadproxy.File
}

// Open opens a file. It is a regular one.
func Open(name string) (*File, error) {
	file, err := uploadproxy.Open(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	folder, err := os.OpenRoot(filepath.Dir(name)) // links that leave the folder are not followed
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &File{File: file, content: file, folder: folder, beside: map[string]*uploadproxy.File{}}, nil
}

// Name is that of a file without its folder, and without its extensions.
func Name(file string) string { return strings.TrimSuffix(ovf.FileName(unpacked(file)), ".oci") }

// Extension is that of a file in lower case, without that of a compression.
func Extension(file string) string { return strings.ToLower(filepath.Ext(unpacked(file))) }

// unpacked is the name of a file without its folder and without the extension of a compression.
func unpacked(file string) string {
	base := filepath.Base(file)
	if packed := strings.ToLower(filepath.Ext(base)); slices.Contains([]string{".gz", ".bz2", ".zst", ".xz"}, packed) {
		return base[:len(base)-len(packed)]
	}
	return base
}

// Data is the content of the OVA or of the descriptor, after Decompress.
func (f *File) Data() appliance.Data { return io.NewSectionReader(f.content, 0, f.content.Size) }

// Beside opens a file beside the descriptor. It returns nil for a file that does not exist.
func (f *File) Beside(name string) (appliance.Data, error) {
	file := f.beside[name]
	if file == nil {
		if len(f.beside) == ovf.MaxFiles {
			return nil, fmt.Errorf("the descriptor and its manifest have more than %d files", ovf.MaxFiles)
		}
		var err error
		file, err = uploadproxy.OpenIn(f.folder, filepath.FromSlash(name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("opening %s in the folder of the descriptor: %w", texts.Shorten(name, 256), err)
		}
		f.beside[name] = file
	}
	return io.NewSectionReader(file, 0, file.Size), nil
}

// Part is where a part of a disk is. The part is one of an inspection of Data and Beside.
func (f *File) Part(p *appliance.Part) uploadproxy.Section {
	file := f.content
	if beside := f.beside[p.Name]; beside != nil {
		file = beside
	}
	return uploadproxy.Section{File: file, Offset: p.Offset, Size: p.Size}
}

// NewScratch is a place for a decompressed disk.
func NewScratch() (appliance.Scratch, error) { return scratch.New() }

// Close closes all files, and removes temporary ones.
func (f *File) Close() error {
	all := []error{f.File.Close(), f.folder.Close()}
	for _, file := range f.beside {
		all = append(all, file.Close())
	}
	if f.content != f.File {
		all = append(all, f.content.Close(), os.Remove(f.content.Name()))
	}
	return errors.Join(all...)
}
