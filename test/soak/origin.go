package soak

import (
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Fifth is content without an end, of which one MiB of five does not compress, and the others are zeros.
type Fifth struct {
	random *rand.ChaCha8
	at     int64
}

// NewFifth returns the same content each time.
func NewFifth() *Fifth { return &Fifth{random: rand.NewChaCha8([32]byte{2})} }

// Read implements io.Reader. It reads no further than to the end of a MiB.
func (f *Fifth) Read(p []byte) (int, error) {
	block := f.at >> 20
	p = p[:min(int64(len(p)), (block+1)<<20-f.at)]
	if block%5 == 0 {
		_, _ = f.random.Read(p) // it returns no error
	} else {
		clear(p)
	}
	f.at += int64(len(p))
	return len(p), nil
}

// Origin is a web server with a file whose connections break.
type Origin struct {
	File string
	// Cut is the number of bytes after which an answer breaks; 0 for never.
	Cut int64
	// Cuts counts the answers that broke.
	Cuts atomic.Int64
}

// ServeHTTP implements http.Handler.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, err := os.Open(o.File)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	w.Header().Set("ETag", `"1"`)
	if o.Cut > 0 {
		w = &limited{ResponseWriter: w, left: o.Cut, cuts: &o.Cuts}
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), f)
}

// limited breaks a connection after some bytes.
type limited struct {
	http.ResponseWriter

	left int64
	cuts *atomic.Int64
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.ResponseWriter.Write(p[:min(int64(len(p)), l.left)])
	if l.left -= int64(n); l.left <= 0 && n < len(p) {
		l.cuts.Add(1)
		panic(http.ErrAbortHandler)
	}
	return n, err //nolint:wrapcheck // it is a writer of a test
}
