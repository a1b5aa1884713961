package xz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/virtward/virtward/sources/compressions/xz"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
	"github.com/virtward/virtward/test/isolated"
)

// most is the dictionary that the tests permit: that of the highest preset.
const most = 64 << 20

// text is what most files of testdata have, and noise follows it in some: it does not compress.
func text() []byte {
	var out bytes.Buffer
	for i := range 4000 {
		fmt.Fprintf(&out, "quay %d, berth %d\n", i, i*i%997)
	}
	return out.Bytes()
}

func noise() []byte {
	out, state := make([]byte, 70_000), uint32(1)
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = byte(state >> 24)
	}
	return out
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".xz"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// files are those of testdata, as xz 5.4 makes them of a content with options.
func files() map[string]made {
	lines := text()
	return map[string]made{
		"default": {lines, nil}, "fast": {lines, []string{"-0"}}, "best": {lines, []string{"-9e"}},
		"none": {lines, []string{"--check=none"}}, "crc32": {lines, []string{"--check=crc32"}}, "sha256": {lines, []string{"--check=sha256"}},
		"positions": {lines, []string{"--lzma2=preset=6,lc=0,lp=4,pb=0,dict=64KiB"}}, "small": {lines, []string{"--lzma2=preset=6,dict=4KiB"}},
		"blocks": {lines, []string{"-T2", "--block-size=4KiB", "--lzma2=dict=64KiB"}}, "empty": {nil, []string{"--lzma2=dict=4KiB"}}, "noise": {append(text(), noise()...), []string{"--lzma2=dict=64KiB"}},
		"x86": {lines, []string{"--x86", "--lzma2"}}, "parts": {lines[:1000], []string{"-T2", "--block-size=300", "--lzma2=dict=4KiB"}},
	}
}

// made is a content and options.
type made struct {
	content []byte
	options []string
}

var update = flag.Bool("update", false, "write the files of testdata with xz")

// TestRead holds what is read of each file, and of files with several streams.
func TestRead(t *testing.T) {
	all := files()
	if *update {
		for name, m := range all {
			compress := exec.CommandContext(t.Context(), "xz", append([]string{"--compress", "--stdout", "--no-adjust"}, m.options...)...)
			compress.Stdin = bytes.NewReader(m.content)
			data, err := compress.Output()
			if err == nil {
				err = os.WriteFile(filepath.Join("testdata", name+".xz"), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	delete(all, "x86")
	data := map[string][]byte{
		"streams": slices.Concat(file(t, "fast"), make([]byte, 8), file(t, "crc32"), file(t, "empty"), make([]byte, 4)),
		"zeros":   slices.Concat(file(t, "fast"), make([]byte, 1<<20), file(t, "crc32"), make([]byte, 1<<20)),
	}
	all["streams"], all["zeros"] = made{content: append(text(), text()...)}, made{content: append(text(), text()...)}
	for name, m := range all {
		t.Run(name, func(t *testing.T) {
			if data[name] == nil {
				data[name] = file(t, name)
			}
			for how, from := range map[string]io.Reader{"at once": bytes.NewReader(data[name]), "byte by byte": iotest.OneByteReader(bytes.NewReader(data[name]))} {
				if err := iotest.TestReader(xz.NewReader(from, most), m.content); err != nil {
					t.Errorf("%s: %v", how, err)
				}
			}
		})
	}
}

// TestDamaged holds that a file of which a bit is changed, or that ends early, is an error, wherever it is. The file has two streams, of
// several blocks with their sizes, and zeros between them.
func TestDamaged(t *testing.T) {
	part := file(t, "parts")
	want, good := bytes.Repeat(text()[:1000], 2), slices.Concat(part, make([]byte, 4), part)
	for n := range good {
		whole := n == len(part) || n == len(part)+4
		if got, err := io.ReadAll(xz.NewReader(bytes.NewReader(good[:n]), 4<<10)); (err == nil) != whole || !bytes.HasPrefix(want, got) {
			t.Fatalf("the first %d bytes: %d bytes, %v", n, len(got), err)
		}
		for bit := range 8 {
			changed := bytes.Clone(good)
			changed[n] ^= 1 << bit
			if _, err := io.ReadAll(xz.NewReader(bytes.NewReader(changed), 4<<10)); err == nil {
				t.Fatalf("byte %d with another bit %d is read", n, bit)
			}
		}
	}
}

// TestErrors holds why a file is not read.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		from io.Reader
		most int64
		want string
	}{
		"another file":           {strings.NewReader(strings.Repeat("x", 100)), most, "the file does not begin as one of xz"},
		"nothing":                {strings.NewReader(""), most, io.ErrUnexpectedEOF.Error()},
		"a filter":               {bytes.NewReader(file(t, "x86")), most, xz.ErrFilter.Error()},
		"a large dictionary":     {bytes.NewReader(file(t, "best")), most - 1, xz.ErrDictionary.Error()},
		"the largest one":        {bytes.NewReader(header(t, func(h []byte) { h[4] = 40 })), most, xz.ErrDictionary.Error()},
		"an unknown one":         {bytes.NewReader(header(t, func(h []byte) { h[4] = 41 })), most, "a header is damaged"},
		"two filters":            {bytes.NewReader(header(t, func(h []byte) { h[1] = 1 })), most, xz.ErrFilter.Error()},
		"flags of the future":    {bytes.NewReader(header(t, func(h []byte) { h[1] = 4 })), most, "a header is damaged"},
		"padding with content":   {bytes.NewReader(header(t, func(h []byte) { h[7] = 1 })), most, "a header is damaged"},
		"an unknown checksum":    {bytes.NewReader(summed(6, 2, func(h []byte) { h[1] = 2 })), most, "the file has a kind of checksums that is not known"},
		"other sizes":            {bytes.NewReader(summed(36, 4, func(h []byte) { h[3]++ })), most, "the index does not fit the blocks"},
		"other bytes":            {bytes.NewReader(summed(36, 4, func(h []byte) { h[2]++ })), most, "the index does not fit the blocks"},
		"more blocks":            {bytes.NewReader(summed(36, 4, func(h []byte) { h[1]++ })), most, "the index does not fit the blocks"},
		"another end":            {bytes.NewReader(footed(func(h []byte) { h[0]++ })), most, "the index does not fit the blocks"},
		"other flags":            {bytes.NewReader(footed(func(h []byte) { h[5] = 4 })), most, "a header is damaged"},
		"bytes behind":           {bytes.NewReader(append(file(t, "default"), "these are others"...)), most, "bytes that are no stream follow a stream"},
		"some zeros behind":      {bytes.NewReader(append(file(t, "default"), 0, 0, 0)), most, io.ErrUnexpectedEOF.Error()},
		"zeros between, too few": {bytes.NewReader(slices.Concat(file(t, "default"), make([]byte, 6), file(t, "default"))), most, "bytes that are no stream follow a stream"},
		"zeros before":           {bytes.NewReader(append(make([]byte, 4), file(t, "default")...)), most, "the file does not begin as one of xz"},
		"an error of the file":   {io.MultiReader(bytes.NewReader(file(t, "default")[:500]), iotest.ErrReader(broken)), most, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := io.ReadAll(xz.NewReader(test.from, test.most)); err == nil || err.Error() != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// summed is a small file with another part, at a place and with a size, whose checksum behind it fits.
func summed(at, size int, change func([]byte)) []byte {
	data := xztest.Stored([]byte("quay"), 0)
	change(data[at : at+size])
	binary.LittleEndian.PutUint32(data[at+size:], crc32.ChecksumIEEE(data[at:at+size]))
	return data
}

// footed is a small file with another end, whose checksum fits.
func footed(change func([]byte)) []byte {
	data := xztest.Stored([]byte("quay"), 0)
	end := data[len(data)-8 : len(data)-2]
	change(end)
	binary.LittleEndian.PutUint32(data[len(data)-12:], crc32.ChecksumIEEE(end))
	return data
}

// header is a file with another header of its block, whose checksum fits.
func header(t *testing.T, change func([]byte)) []byte {
	t.Helper()
	data := file(t, "default")
	h := data[12 : 12+(int(data[12])+1)*4]
	change(h)
	binary.LittleEndian.PutUint32(h[len(h)-4:], crc32.ChecksumIEEE(h[:len(h)-4]))
	return data
}

// TestMemory holds that a file allocates one dictionary, whatever the number of its blocks and what they name.
func TestMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const dictionary = 64 << 10
	blocks := bytes.Repeat(file(t, "blocks"), 50)
	before := isolated.Allocated()
	if _, err := io.Copy(io.Discard, xz.NewReader(bytes.NewReader(blocks), dictionary)); err != nil {
		t.Fatal(err)
	}
	if got := isolated.Allocated() - before; got > 4*dictionary+xz.MaxBuffers {
		t.Errorf("%d bytes", got)
	}
}

// FuzzReader: no file causes a panic or a loop, and what is read is bounded by the file.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"parts", "empty", "small", "blocks", "noise", "positions"} {
		f.Add(file(f, name))
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = io.Copy(io.Discard, io.LimitReader(xz.NewReader(bytes.NewReader(data), 64<<10), 1<<20)) // most are damaged
	})
}

// resets is a file whose state is reset before each byte of its content, which are zeros: no other file takes longer for its size.
func resets(n int) []byte {
	data := []byte("\xfd7zXZ\x00\x00\x00")
	data = binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data[6:8]))
	header := []byte{2, 0, 0x21, 1, 0, 0, 0, 0}
	data = append(binary.LittleEndian.AppendUint32(append(data, header...), crc32.ChecksumIEEE(header)), 0xe0, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0)
	for range n - 1 {
		data = append(data, 0xc0, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0)
	}
	return data
}

// TestResets holds that a file with a reset for each byte is decompressed.
func TestResets(t *testing.T) {
	got, err := io.ReadAll(xz.NewReader(bytes.NewReader(resets(100)), 4<<10))
	if !bytes.Equal(got, make([]byte, 100)) || !errors.Is(err, io.ErrUnexpectedEOF) { // it has no end
		t.Errorf("got %x, %v", got, err)
	}
}

// BenchmarkResets measures the slowest decompression, by the compressed bytes.
func BenchmarkResets(b *testing.B) {
	data := resets(100_000)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		_, _ = io.Copy(io.Discard, xz.NewReader(bytes.NewReader(data), 4<<10)) // it has no end
	}
}

// BenchmarkReader measures the decompression of a text.
func BenchmarkReader(b *testing.B) {
	data := file(b, "default")
	b.SetBytes(int64(len(text())))
	for b.Loop() {
		if _, err := io.Copy(io.Discard, xz.NewReader(bytes.NewReader(data), 8<<20)); err != nil {
			b.Fatal(err)
		}
	}
}
