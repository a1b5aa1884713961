package appliances

import (
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/cli/scratch"
	"github.com/virtward/virtward/cli/uploadproxy"
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
	var content io.Reader
	var err error
	switch kind {
	case "gzip":
		content, err = gzip.NewReader(source)
	case "bzip2":
		content = bzip2.NewReader(source)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(source, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			content = z
		}
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: the archive is not compressed with %s, although it begins so", f.Name(), kind)
	}
	to, err := scratch.New()
	if err != nil {
		return err //nolint:wrapcheck // it names the folder
	}
	n, err := io.Copy(to, io.LimitReader(content, maxDecompressed+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s: decompressing the archive into a temporary file: %w", f.Name(), err)
	case n > maxDecompressed:
		err = fmt.Errorf("%s: the decompressed archive has more than %d GiB", f.Name(), maxDecompressed>>30)
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
