package vmdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// disk has random, compressible and empty grains in several grain tables, one of which is empty.
func disk(size int) []byte {
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{3})
	for at := 0; at < size; at += grainBytes {
		part := data[at:min(size, at+grainBytes)]
		switch grain := at / grainBytes; {
		case grain/entriesPerTable == 1 && grain%entriesPerTable > 1, grain%7 == 0:
		case grain%3 == 0:
			_, _ = random.Read(part)
		default:
			copy(part, bytes.Repeat([]byte{byte(grain), 2, 3, byte(grain >> 8)}, 1+grain%1000))
		}
	}
	return data
}

// holey is content that knows its zeros, and fails the test if they are read.
type holey struct {
	*bytes.Reader

	t    *testing.T
	data []byte
}

func (h *holey) NextData(offset int64) (int64, error) {
	for ; offset < int64(len(h.data)); offset += grainBytes {
		if !zero(append(bytes.Clone(h.data[offset:min(int64(len(h.data)), offset+grainBytes)]), make([]byte, 7)...)) {
			return offset, nil
		}
	}
	return int64(len(h.data)), nil
}

func measured(t testing.TB, content io.ReaderAt, size int) (*Layout, []byte) {
	t.Helper()
	var file bytes.Buffer
	l, err := Measure(&file, content, MeasureOptions{Capacity: int64(size), Name: "disk.vmdk"})
	if err != nil {
		t.Fatal(err)
	}
	if l.Size() != int64(file.Len()) {
		t.Fatalf("the layout has %d bytes, the file %d", l.Size(), file.Len())
	}
	return l, file.Bytes()
}

// TestRanges holds that each part of a file can be made again.
func TestRanges(t *testing.T) {
	const size = entriesPerTable*grainBytes + 37*grainBytes + 3*sector + 17
	data := disk(size)
	l, file := measured(t, bytes.NewReader(data), size)
	if _, again := measured(t, &holey{bytes.NewReader(data), t, data}, size); !bytes.Equal(file, again) {
		t.Fatal("holes change the file")
	}
	if _, err := Inspect(bytes.NewReader(file), int64(len(file))); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	ends := []int64{0, 511, int64(l.starts[1]) * sector, int64(l.directory) * sector, l.Size()}
	var windows [][2]int64
	for _, from := range ends {
		for _, up := range ends {
			if from <= up {
				windows = append(windows, [2]int64{from, up})
			}
		}
	}
	for range 30 {
		from := random.Int64N(l.Size())
		windows = append(windows, [2]int64{from, from + random.Int64N(min(l.Size()-from, 300_000)) + 1})
	}
	for _, w := range windows {
		var got bytes.Buffer
		if err := l.WriteRange(&got, bytes.NewReader(data), w[0], w[1]); err != nil {
			t.Fatal(w, err)
		}
		if !bytes.Equal(got.Bytes(), file[w[0]:w[1]]) {
			t.Fatalf("the bytes %d to %d are not those of the file", w[0], w[1])
		}
	}
}

// TestChanged holds that changed content is noticed, and that nothing wrong is written before.
func TestChanged(t *testing.T) {
	data := disk(8 << 20)
	l, file := measured(t, bytes.NewReader(data), len(data))
	for name, change := range map[string]func(data []byte){
		"a byte":     func(data []byte) { data[5<<20]++ },
		"to zeros":   func(data []byte) { clear(data[5<<20 : 6<<20]) },
		"the length": func(data []byte) { copy(data[5<<20:], bytes.Repeat([]byte("changed"), 1<<16)) },
	} {
		changed := bytes.Clone(data)
		change(changed)
		for _, content := range []io.ReaderAt{bytes.NewReader(changed), &holey{bytes.NewReader(changed), t, changed}} {
			var got bytes.Buffer
			err := l.WriteRange(&got, content, 0, l.Size())
			if !errors.Is(err, ErrChanged) || !bytes.HasPrefix(file, got.Bytes()) {
				t.Errorf("%s: got %v after %d bytes", name, err, got.Len())
			}
		}
	}
	if err := l.WriteRange(io.Discard, bytes.NewReader(data[:3<<20]), 0, l.Size()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a shorter disk: got %v", err)
	}
}

// TestBounds holds the errors of contents and options that are not measured.
func TestBounds(t *testing.T) {
	for want, options := range map[string]MeasureOptions{
		"the capacity must be":                              {},
		"the name has more":                                 {Capacity: 1, Name: strings.Repeat("a", 1025)},
		"more than 33554432 bytes that":                     {Capacity: 80 << 20, MaxTables: 1},
		"reading the disk at byte 83886080: unexpected EOF": {Capacity: 81 << 20},
	} {
		if _, err := Measure(io.Discard, bytes.NewReader(bytes.Repeat([]byte{1}, 80<<20)), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	failed := errors.New("full")
	if _, err := Measure(writerFunc(func([]byte) (int, error) { return 0, failed }), bytes.NewReader(make([]byte, 1)), MeasureOptions{Capacity: 1}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

// TestPinned holds that another version of the compressor is noticed: exports that began with the old one cannot continue.
func TestPinned(t *testing.T) {
	data := disk(4 << 20)
	_, file := measured(t, bytes.NewReader(data), len(data))
	sum := sha256.Sum256(file)
	if got, want := hex.EncodeToString(sum[:]), "92df5e1fb9c14c278e89ef529af0744e52a5753a7cd357a2f56181ac2bd55b4c"; got != want {
		t.Errorf("the file has the digest %s, not %s", got, want)
	}
}

// TestQEMUReads lets qemu-img read files that were written.
func TestQEMUReads(t *testing.T) {
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed")
	}
	for _, size := range []int{512, 4096, grainBytes, grainBytes + 512, 40 << 20, entriesPerTable*grainBytes + 5*sector, 2*entriesPerTable*grainBytes + 512} {
		data := disk(size)
		_, file := measured(t, bytes.NewReader(data), size)
		folder := t.TempDir()
		raw, written := filepath.Join(folder, "disk.raw"), filepath.Join(folder, "disk.vmdk")
		for name, content := range map[string][]byte{raw: data, written: file} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"compare", "-f", "raw", "-F", "vmdk", raw, written}, {"check", "-f", "vmdk", written}} {
			if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
				t.Errorf("%d bytes: qemu-img %s: %v: %s", size, args[0], err, out)
			}
		}
	}
}
