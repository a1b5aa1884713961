package importserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/virtward/virtward/ovf/transfer"
)

// tagOf is the ETag of a disk: it changes with the plan.
func tagOf(p *transfer.Plan, d *transfer.Disk) string {
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	_ = encoder.Encode(p.Files) // a hash returns no error
	_ = encoder.Encode(d)       // as above
	return strconv.Quote(hex.EncodeToString(sum.Sum(nil)[:16]))
}

// hasURL reports whether a file is at a URL, and hasBlob whether one is in a registry.
func hasURL(files []transfer.File) bool {
	return slices.ContainsFunc(files, func(f transfer.File) bool { return f.URL != "" })
}

func hasBlob(files []transfer.File) bool {
	return slices.ContainsFunc(files, func(f transfer.File) bool { return f.Blob != "" })
}

// Close implements io.Closer: it ends a connection whose bytes were not all read.
func (c *content) Close() error {
	if c.current == nil {
		return nil
	}
	c.sum = nil
	return c.close()
}

// answer sends a part of a disk.
type answer struct {
	server  *Server
	disk    *disk
	part    span
	control *http.ResponseController
	// left is the error of a request whose client has gone, or that another one ended.
	left func() error
	// begun is set when the header was sent.
	begun bool
	sent  int64
}

// send sends each block once the next one was read without an error, so the last one waits for the digests.
func (a *answer) send(w http.ResponseWriter, r *http.Request, partial bool) error {
	source, inspected, err := a.open(r.Context())
	if err != nil {
		return err
	}
	defer source.Close()
	if inspected != nil {
		defer func() { _ = inspected.close() }() // it was closed before, if all was sent
	}
	var waiting []byte
	blocks := [2][]byte{make([]byte, BlockBytes), make([]byte, BlockBytes)}
	at := a.part.offset
	for i := 0; ; i++ {
		block := blocks[i%2]
		n, err := fill(source, block)
		block = block[:n]
		ended := errors.Is(err, io.EOF)
		switch {
		case err != nil && !ended:
			return err
		case !a.disk.kept.same(at, block):
			return errChanged
		case inspected != nil:
			if err := inspected.next(block, ended); err != nil {
				return err
			}
		}
		at += int64(n)
		if len(waiting) > 0 {
			if err := a.write(w, waiting, partial); err != nil {
				return err
			}
		}
		if waiting = block; ended {
			break
		}
	}
	if len(waiting) > 0 {
		if err := a.write(w, waiting, partial); err != nil {
			return err
		}
	}
	a.complete()
	return nil
}

// inspector inspects the content of a disk while it is sent. Close it.
type inspector interface {
	next(block []byte, last bool) error
	close() error
}

// open returns what is sent, and what inspects it; nil for what was inspected before.
func (a *answer) open(ctx context.Context) (io.ReadCloser, inspector, error) {
	plan := a.disk.plan
	if plan.Compression == transfer.CompressionZstd {
		source, err := a.server.layered(ctx, a.disk)
		return source, &scan{plan: plan}, err
	}
	source := a.server.content(ctx, a.disk, a.part)
	if plan.Compression == "" || !a.whole() {
		return source, nil, nil
	}
	return source, newUnzip(plan), nil
}

// next inspects a block, and the end behind the last one.
func (u *unzip) next(block []byte, last bool) error {
	if len(block) > 0 {
		if err := u.write(block); err != nil {
			return err
		}
	}
	if last {
		return u.close()
	}
	return nil
}

func (a *answer) whole() bool { return a.part == span{0, a.disk.size} }

// write sends a block.
func (a *answer) write(w http.ResponseWriter, block []byte, partial bool) error {
	if !a.begun {
		a.begun = true
		if partial {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a.part.offset, a.part.end-1, a.disk.size))
			w.WriteHeader(http.StatusPartialContent)
		}
	}
	_ = a.control.SetWriteDeadline(time.Now().Add(stall)) // the server ends requests that take long
	if err := a.left(); err != nil {
		return &gone{err}
	}
	n, err := w.Write(block)
	a.sent += int64(n)
	a.server.metrics.sent.Add(float64(n))
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	a.disk.status.Sent += int64(n)
	if a.whole() {
		a.disk.status.Furthest = max(a.disk.status.Furthest, a.sent)
	}
	if err != nil {
		return &gone{err}
	}
	return nil
}

// gone is the error of a client that takes no bytes.
type gone struct{ error }

// complete notes that all was sent.
func (a *answer) complete() {
	a.disk.mu.Lock()
	defer a.disk.mu.Unlock()
	if !a.whole() {
		return
	}
	a.disk.status.Completed++
	if a.disk.status.Digest == transfer.DigestPending {
		a.disk.status.Digest = transfer.DigestVerified
	}
}

// fill reads until a block is full. The error is io.EOF at the end of the content.
func fill(r io.Reader, block []byte) (n int, err error) {
	for n < len(block) && err == nil {
		var more int
		more, err = r.Read(block[n:])
		n += more
	}
	return n, err
}
