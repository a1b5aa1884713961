package web

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/virtward/virtward/test/isolated"
)

// origin serves a file, and counts requests. It rejects HEAD, as a URL that is signed for GET does.
type origin struct {
	data     []byte
	requests atomic.Int64
	// before is called with the number of the request, and reports whether it answered.
	before func(w http.ResponseWriter, r *http.Request, request int64) bool
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := o.requests.Add(1)
	if r.Method != http.MethodGet {
		http.Error(w, "signed for GET", http.StatusForbidden)
		return
	}
	w.Header().Set("ETag", `"1"`)
	if o.before != nil && o.before(w, r, n) {
		return
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(o.data))
}

func open(t *testing.T, o *origin) (*Ranged, error) {
	t.Helper()
	return newClient(t, nil).Open(t.Context(), serve(t, o.ServeHTTP)+"/a.ova?signature=secret")
}

// TestRanged holds that a file is read as from a disk, with blocks that are kept and bounded.
func TestRanged(t *testing.T) {
	for _, size := range []int{1, 511, BlockSize - 1, BlockSize, BlockSize + 1, len(content)} {
		o := &origin{data: content[:size]}
		r, err := open(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(io.NewSectionReader(r, 0, r.Size()), content[:size]); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if n := o.requests.Load(); n > int64(size/BlockSize+1) || n != int64(r.Requests()) {
			t.Errorf("%d bytes: %d requests, %d counted", size, n, r.Requests())
		}
	}
	large := bytes.Repeat(content, 8)
	for i := range 8 { // no two blocks are equal
		copy(large[i<<20:], fmt.Sprint("part ", i))
	}
	o := &origin{data: large}
	r, err := open(t, o)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // offsets of a test
	for range 300 {
		at := random.IntN(len(large))
		part := make([]byte, random.IntN(min(len(large)-at, 3*BlockSize))+1)
		if n, err := r.ReadAt(part, int64(at)); err != nil || !bytes.Equal(part[:n], large[at:at+len(part)]) {
			t.Fatalf("%d bytes at %d: %d, %v", len(part), at, n, err)
		}
		if len(r.blocks) > MaxBlocks || r.recent.Len() != len(r.blocks) {
			t.Fatalf("%d blocks are kept, %d in their order", len(r.blocks), r.recent.Len())
		}
	}
	if n, err := r.ReadAt(make([]byte, 10), int64(len(large))-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("across the end: %d, %v", n, err)
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset is read")
	}
}

// TestRangedMemory holds that a file that is read from its start to its end costs no memory for each block.
func TestRangedMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const size = 64 << 20
	r, err := open(t, &origin{data: make([]byte, size)})
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, maxRequested*BlockSize)
	before := isolated.Allocated()
	for at := int64(0); at < size; at += int64(len(part)) {
		if _, err := r.ReadAt(part, at); err != nil {
			t.Fatal(err)
		}
	}
	if n := isolated.Allocated() - before; n > size/4 {
		t.Errorf("%d bytes were allocated for %d", n, size)
	}
}

// TestRangedArchive counts the requests that the index of an archive with one disk needs.
func TestRangedArchive(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		data []byte
	}{{"a.ovf", content[:9000]}, {"a.mf", content[:200]}, {"a.vmdk", bytes.Repeat(content, 16)}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	o := &origin{data: archive.Bytes()}
	r, err := open(t, o)
	if err != nil {
		t.Fatal(err)
	}
	section := io.NewSectionReader(r, 0, r.Size())
	index, names := tar.NewReader(section), []string{}
	for {
		h, err := index.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		at, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			t.Fatal(err)
		}
		// What an inspection reads of a disk: the beginning, and the footer at the end.
		for _, part := range [][2]int64{{at, min(64<<10, h.Size)}, {at + h.Size - min(1024, h.Size), min(1024, h.Size)}} {
			if _, err := io.Copy(io.Discard, io.NewSectionReader(r, part[0], part[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if strings.Join(names, " ") != "a.ovf a.mf a.vmdk" || o.requests.Load() != 2 {
		t.Errorf("%d requests for %v", o.requests.Load(), names)
	}
	t.Logf("an archive of %d MiB with one disk: %d requests", archive.Len()>>20, o.requests.Load())
}

// TestRangedErrors holds what servers do that do not serve one file by ranges. No message has the query of the URL.
func TestRangedErrors(t *testing.T) {
	t.Parallel()
	whole := func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
		_, _ = w.Write(content)
		return true
	}
	header := func(from int64, name, value string) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			if n >= from {
				w.Header().Set(name, value)
			}
			return false
		}
	}
	partial := func(from int64, contentRange string, data []byte) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			if n < from {
				return false
			}
			w.Header().Set("Content-Range", contentRange)
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data)
			return true
		}
	}
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request, int64) bool
		reason string
	}{
		"no ranges":             {whole, ReasonNoRanges},
		"no size":               {partial(1, "bytes 0-99/*", content[:100]), ReasonNoRanges},
		"no Content-Range":      {partial(1, "", content[:100]), ReasonServerError},
		"several ranges":        {partial(1, "", content[:100]), ReasonServerError},
		"another range":         {partial(1, "bytes 10-109/1000", content[:100]), ReasonServerError},
		"another range later":   {partial(2, "bytes 0-99/1048576", content[:100]), ReasonServerError},
		"less than it says":     {partial(1, fmt.Sprintf("bytes 0-%d/1048576", BlockSize-1), content[:100]), ReasonTruncated},
		"less than it says now": {partial(2, fmt.Sprintf("bytes %d-%d/1048576", 7*BlockSize, 8*BlockSize-1), content[:100]), ReasonTruncated},
		"another tag":           {header(2, "ETag", `"2"`), ReasonChanged},
		"another size":          {partial(2, fmt.Sprintf("bytes %d-%d/1048577", 7*BlockSize, 8*BlockSize-1), content[:BlockSize]), ReasonChanged},
		"all of it later": {func(w http.ResponseWriter, r *http.Request, n int64) bool {
			return n > 1 && whole(w, r, n)
		}, ReasonChanged},
		"an encoding": {header(1, "Content-Encoding", "gzip"), ReasonServerError},
		"not found":   {func(w http.ResponseWriter, r *http.Request, _ int64) bool { http.NotFound(w, r); return true }, ReasonNotFound},
		"to the metadata of a cloud": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.Redirect(w, r, "http://169.254.169.254/latest/", http.StatusFound)
			return true
		}, ReasonNotPermitted},
		"to another scheme": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
			return true
		}, ReasonNotPermitted},
		"to itself": {func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			http.Redirect(w, r, "/a.ova?signature=secret", http.StatusFound)
			return true
		}, ReasonRedirects},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := open(t, &origin{data: content, before: c.before})
			if err == nil {
				_, err = r.ReadAt(make([]byte, 1), int64(len(content))-1)
			}
			if !HasReason(err, c.reason) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
			if r != nil && c.reason == ReasonChanged {
				before := r.Requests()
				if _, err := r.ReadAt(make([]byte, 1), 3*BlockSize); !HasReason(err, ReasonChanged) || r.Requests() != before {
					t.Errorf("after the change: %v", err)
				}
			}
		})
	}
}

// TestRangedAgain holds that a broken connection and a server that fails are tried again.
func TestRangedAgain(t *testing.T) {
	o := &origin{data: content, before: func(w http.ResponseWriter, _ *http.Request, n int64) bool {
		switch n {
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}}
	r, err := open(t, o)
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 100)
	if _, err := r.ReadAt(part, 500_000); err != nil || !bytes.Equal(part, content[500_000:500_100]) || o.requests.Load() != 4 {
		t.Errorf("%d requests, %v", o.requests.Load(), err)
	}
}

// TestRangedCredentials holds that credentials reach the host of the URL, and no other.
func TestRangedCredentials(t *testing.T) {
	var leaked atomic.Int64
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			leaked.Add(1)
		}
		file(w, r)
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "me" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other, http.StatusFound)
	})
	r, err := newClient(t, func(o *Options) { o.User, o.Password = "me", "secret" }).Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadAt(make([]byte, 10), 900_000); err != nil || leaked.Load() != 0 {
		t.Errorf("leaked %d times, %v", leaked.Load(), err)
	}
}

// TestPart holds that a part of a file continues after broken connections, and that no byte of another version is in it.
func TestPart(t *testing.T) {
	t.Parallel()
	const from, length = 1000, 900_000
	for name, c := range map[string]struct {
		before      func(http.ResponseWriter, *http.Request, int64) bool
		reason      string
		resumptions int
	}{
		"whole":  {nil, "", 0},
		"breaks": {cutAt(300_000, 2), "", 2},
		"at first": {func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return n == 1
		}, "", 1},
		"no ranges": {func(w http.ResponseWriter, _ *http.Request, _ int64) bool { _, _ = w.Write(content); return true }, ReasonChanged, 0},
		"another": {func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
			w.Header().Set("ETag", `"2"`)
			return false
		}, ReasonChanged, 0},
		"then other": {then(cutAt(300_000, 1), `"2"`), ReasonChanged, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &origin{data: content, before: c.before}
			client := newClient(t, nil)
			file := &File{URL: serve(t, o.ServeHTTP), Size: int64(len(content)), Validator: `"1"`, Ranges: true}
			s, err := client.Part(t.Context(), file, from, length)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(s)
			}
			switch {
			case c.reason != "":
				if !HasReason(err, c.reason) || !bytes.HasPrefix(content[from:], got) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			case err != nil || !bytes.Equal(got, content[from:from+length]) || s.Resumptions() != c.resumptions || s.Offset() != from+length:
				t.Errorf("%d bytes, %d resumptions: %v", len(got), s.Resumptions(), err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// cutAt breaks a number of connections after some bytes.
func cutAt(after, times int64) func(http.ResponseWriter, *http.Request, int64) bool {
	return func(w http.ResponseWriter, r *http.Request, n int64) bool {
		if n > times {
			return false
		}
		http.ServeContent(&cut{ResponseWriter: w, left: int(after)}, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(content))
		return true
	}
}

// then answers later requests with another tag.
func then(first func(http.ResponseWriter, *http.Request, int64) bool, tag string) func(http.ResponseWriter, *http.Request, int64) bool {
	return func(w http.ResponseWriter, r *http.Request, n int64) bool {
		if first(w, r, n) {
			return true
		}
		w.Header().Set("ETag", tag)
		return false
	}
}
