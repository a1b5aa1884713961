package compressions_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/sources/compressions"
	"github.com/virtward/virtward/sources/compressions/xz"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
)

// window is more than what all but one of the files of the tests need.
const window = 1 << 20

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func gzipped(t *testing.T, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(content))
	must(t, errors.Join(err, z.Close()))
	return out.Bytes()
}

func zstandard(t *testing.T, content []byte, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, options...)
	must(t, err)
	_, err = z.Write(content)
	must(t, errors.Join(err, z.Close()))
	return out.Bytes()
}

// endless repeats a part of a file.
type endless struct {
	part []byte
	at   int
}

func (e *endless) Read(into []byte) (int, error) {
	n := copy(into, e.part[e.at:])
	e.at = (e.at + n) % len(e.part)
	return n, nil
}

// xzFile is a file of the tests of package xz, and xzText the content of the one with the name parts.
func xzFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("xz", "testdata", name+".xz"))
	must(t, err)
	return data
}

func xzText(t *testing.T) []byte {
	t.Helper()
	data, err := io.ReadAll(xz.NewReader(bytes.NewReader(xzFile(t, "parts")), window))
	must(t, err)
	return data
}

// TestOverhead holds that a file is read whose content does not compress, although it is larger than its content: an archive of disks that are
// compressed can have many bytes of headers.
func TestOverhead(t *testing.T) {
	const size, part = 320 << 20, 2000
	from, to := io.Pipe()
	go func() {
		z, err := gzip.NewWriterLevel(to, gzip.NoCompression)
		for n := 0; n < size && err == nil; n += part {
			_, err = z.Write(make([]byte, min(part, size-n)))
			err = errors.Join(err, z.Flush()) // it begins another block
		}
		to.CloseWithError(errors.Join(err, z.Close()))
	}()
	content, err := compressions.Open("gzip", from, size, window)
	must(t, err)
	n, err := io.Copy(io.Discard, content)
	if n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestOpen holds what is read of each compression, and why it ends.
func TestOpen(t *testing.T) {
	text := "quay quay quay"
	bzip, err := hex.DecodeString("425a6839314159265359d680a58f0000029180400020002220200021b44f506681897444f177245385090d680a58f0")
	must(t, err)
	broken := errors.New("broken")
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	block := xztest.Stored(nil, 0) // the header of a stream has 12 bytes, and its block without content 20
	for name, test := range map[string]struct {
		kind string
		from io.Reader
		most int64
		want string
		err  error
	}{
		"gzip":                    {"gzip", bytes.NewReader(gzipped(t, text)), 14, text, nil},
		"gzip in two parts":       {"gzip", bytes.NewReader(append(gzipped(t, "quay "), gzipped(t, "quay quay")...)), 14, text, nil},
		"zstd":                    {"zstd", bytes.NewReader(zstandard(t, []byte(text))), 14, text, nil},
		"not gzip":                {"gzip", bytes.NewReader([]byte(text)), 14, "", compressions.ErrDamaged},
		"not bzip2":               {"bzip2", bytes.NewReader([]byte(text)), 14, "", compressions.ErrDamaged},
		"bzip2":                   {"bzip2", bytes.NewReader(bzip), 14, text, nil},
		"damaged bzip2":           {"bzip2", bytes.NewReader(bzip[:len(bzip)-4]), 14, "", compressions.ErrDamaged},
		"not zstd":                {"zstd", bytes.NewReader([]byte(text)), 14, "", compressions.ErrDamaged},
		"truncated":               {"gzip", bytes.NewReader(gzipped(t, text)[:20]), 14, "", compressions.ErrDamaged},
		"not compressed":          {"", bytes.NewReader([]byte(text)), 14, text, nil},
		"xz":                      {"xz", bytes.NewReader(xzFile(t, "parts")), 1000, string(xzText(t)), nil},
		"not xz":                  {"xz", bytes.NewReader([]byte(text)), 14, "", compressions.ErrDamaged},
		"truncated xz":            {"xz", bytes.NewReader(xzFile(t, "parts")[:400]), 1000, "", compressions.ErrDamaged},
		"too large for xz":        {"xz", bytes.NewReader(xzFile(t, "parts")), 999, "", compressions.ErrTooLarge},
		"empty streams of xz":     {"xz", &endless{part: xzFile(t, "empty")}, 14, "", compressions.ErrTooLarge},
		"empty blocks of xz":      {"xz", io.MultiReader(bytes.NewReader(block[:12]), &endless{part: block[12:32]}), 14, "", compressions.ErrTooLarge},
		"zeros behind xz":         {"xz", io.MultiReader(bytes.NewReader(xzFile(t, "parts")), bytes.NewReader(make([]byte, 1<<20))), 1000, string(xzText(t)), nil},
		"endless zeros behind xz": {"xz", io.MultiReader(bytes.NewReader(xzFile(t, "parts")), &endless{part: make([]byte, 1<<10)}), 1000, "", compressions.ErrTooLarge},
		"a large dictionary":      {"xz", bytes.NewReader(xzFile(t, "default")), 1 << 30, "", compressions.ErrDictionary},
		"a filter":                {"xz", bytes.NewReader(xzFile(t, "x86")), 1 << 30, "", compressions.ErrFilter},
		"too large, as it is":     {"", bytes.NewReader([]byte(text)), 13, "", compressions.ErrTooLarge},
		"empty parts, no end":     {"gzip", &endless{part: gzipped(t, "")}, 14, "", compressions.ErrTooLarge},
		"too large":               {"gzip", bytes.NewReader(gzipped(t, text)), 13, "", compressions.ErrTooLarge},
		"a connection that ends":  {"gzip", iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(gzipped(t, text)))), 14, "", iotest.ErrTimeout},
		"a connection that fails": {"zstd", io.MultiReader(bytes.NewReader(zstandard(t, []byte(text))[:8]), iotest.ErrReader(broken)), 14, "", broken},
		"a large window":          {"zstd", bytes.NewReader(zstandard(t, large, zstd.WithWindowSize(4<<20))), 1 << 30, "", compressions.ErrWindow},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			content, err := compressions.Open(test.kind, test.from, test.most, window)
			if err == nil {
				got, err = io.ReadAll(content)
				content.Close()
			}
			if !errors.Is(err, test.err) || test.err == nil && string(got) != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := compressions.Open("zip", bytes.NewReader(nil), 1, window); err == nil || err.Error() != `files that are compressed with "zip" are not read` {
		t.Errorf("got %v", err)
	}
}
