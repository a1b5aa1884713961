package ova

import (
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/cli/scratch"
	"github.com/virtward/virtward/virtualimages"
)

// maxDecompressed bounds a decompressed archive in bytes.
const maxDecompressed = 256 << 30

// maxWindow bounds the memory of the decompression of zstd in bytes.
const maxWindow = 128 << 20

// decompressed is a temporary file with the archive in a compressed file, and the compression. Of a file that is not compressed, or in a
// way that is not supported, it is the file itself.
func decompressed(f file) (file, string, error) {
	head := make([]byte, min(f.size, 512))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return file{}, "", err
	}
	kind := virtualimages.Inspect(head, nil).Compressed
	source := io.NewSectionReader(f, 0, f.size)
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
	default: // the inspection says what to do with others
		return f, "", nil
	}
	if err != nil {
		return file{}, "", fmt.Errorf("%s: the archive is not compressed with %s, although it begins so", f.Name(), kind)
	}
	to, err := scratch.New()
	if err != nil {
		return file{}, "", err //nolint:wrapcheck // it names the folder
	}
	n, err := io.Copy(to, io.LimitReader(content, maxDecompressed+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s: decompressing the archive: %w", f.Name(), err)
	case n > maxDecompressed:
		err = fmt.Errorf("%s: the decompressed archive has more than %d GiB", f.Name(), maxDecompressed>>30)
	default:
		return file{to.File, n}, kind, nil
	}
	return file{}, "", errors.Join(err, to.Close())
}

// remove closes and removes the temporary file of an archive.
func remove(f file) error { return errors.Join(f.Close(), os.Remove(f.Name())) }
