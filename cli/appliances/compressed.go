package appliances

import (
	"errors"
	"fmt"
	"io"

	"github.com/virtward/virtward/cli/scratch"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/sources/compressions"
	"github.com/virtward/virtward/virtualimages"
)

// maxDecompressed bounds a decompressed archive in bytes.
const maxDecompressed = 256 << 30

// maxWindow bounds the memory of the decompression of zstd in bytes.
const maxWindow = 128 << 20

// Decompress decompresses an archive that is compressed as a whole. It does nothing with another file, and with one whose compression is
// not supported, which the inspection rejects. The function returns a reader of the same bytes.
func (f *File) Decompress(through func(io.Reader) io.Reader) error {
	head := make([]byte, min(f.Size, 512))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	kind := virtualimages.Inspect(head, nil).Compressed
	source := through(io.NewSectionReader(f, 0, f.Size))
	if !compressions.IsReadable(kind) {
		return nil
	}
	content, err := compressions.Open(kind, source, maxDecompressed, maxWindow)
	if err != nil {
		return fmt.Errorf("%s: the archive is not compressed with %s, although it begins so", f.Name(), kind)
	}
	defer content.Close()
	to, err := scratch.New()
	if err != nil {
		return err //nolint:wrapcheck // it names the folder
	}
	_, err = io.Copy(to, content)
	switch {
	case errors.Is(err, compressions.ErrTooLarge):
		err = fmt.Errorf("%s: the decompressed archive has more than %d GiB", f.Name(), maxDecompressed>>30)
	case err != nil:
		err = fmt.Errorf("%s: decompressing the archive into a temporary file: %w", f.Name(), err)
	default:
		err = f.Unchanged()
	}
	if err == nil {
		f.content, err = uploadproxy.Open(to.Name())
	}
	if err != nil {
		f.content = f.File
		return errors.Join(err, to.Close())
	}
	f.Compression = kind
	return to.File.Close() //nolint:wrapcheck // it names the file, which Close removes
}
