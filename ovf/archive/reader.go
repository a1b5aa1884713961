package archive

import (
	"errors"
	"io"
)

// Reader reads an Archive, as http.ServeContent needs it. Close it in the end.
type Reader struct {
	archive *Archive
	at      int64
	pipe    *io.PipeReader
	ended   chan struct{}
}

// Reader returns a reader of the whole OVA. Its contents decide how long a read takes.
func (a *Archive) Reader() *Reader { return &Reader{archive: a} }

// Read implements io.Reader.
func (r *Reader) Read(into []byte) (int, error) {
	if r.at >= r.archive.size {
		return 0, io.EOF
	}
	if r.pipe == nil {
		from, to := io.Pipe()
		r.pipe, r.ended = from, make(chan struct{})
		go func(at int64, ended chan struct{}) {
			defer close(ended)
			to.CloseWithError(r.archive.WriteRange(to, at, r.archive.size))
		}(r.at, r.ended)
	}
	n, err := r.pipe.Read(into)
	r.at += int64(n)
	return n, err //nolint:wrapcheck // io.EOF, or of the archive
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.archive.size
	}
	if offset < 0 {
		return 0, errors.New("the offset is negative")
	}
	if offset != r.at {
		r.end()
		r.at = offset
	}
	return offset, nil
}

// end ends the goroutine that writes, and waits for it.
func (r *Reader) end() {
	if r.pipe == nil {
		return
	}
	r.pipe.Close()
	<-r.ended
	r.pipe = nil
}

// Close ends the reading.
func (r *Reader) Close() error {
	r.end()
	return nil
}
