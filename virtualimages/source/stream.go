package source

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"
)

// Resumptions of a stream: at most so many without a byte in between, with a growing pause before each.
const (
	maxResumptions = 5
	firstPause     = time.Second
)

// Stream is the content of a file from its start. It continues after a broken connection. Create it with Client.Stream, and
// close it.
type Stream struct {
	client *Client
	file   *File
	// checksum is what the file must have, such as sha256:…; empty for none.
	checksum string
	sum      hash.Hash

	parent context.Context //nolint:containedctx // a stream is read by a client of Glance, which passes none
	body   io.ReadCloser
	ctx    context.Context //nolint:containedctx // of the connection; it ends when no byte arrives
	cancel context.CancelCauseFunc
	// offset is the number of bytes that were read, failures that of resumptions since the last byte.
	offset   int64
	failures int
	pause    time.Duration
	err      error
}

// Stream opens a file that was probed. At the end of the stream its size and its checksum are as expected, or Read returns
// an Error.
func (c *Client) Stream(ctx context.Context, file *File, checksum string) (*Stream, error) {
	s := &Stream{client: c, file: file, checksum: checksum, parent: ctx, pause: firstPause}
	switch {
	case strings.HasPrefix(checksum, "sha256:"):
		s.sum = sha256.New()
	case strings.HasPrefix(checksum, "sha512:"):
		s.sum = sha512.New()
	}
	return s, s.open()
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	for s.err == nil {
		n, err := s.read(p)
		if n > 0 {
			s.offset += int64(n)
			s.failures, s.pause = 0, firstPause
			if s.sum != nil {
				_, _ = s.sum.Write(p[:n]) // a hash returns no error
			}
			return n, nil
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			s.err = s.end()
		default:
			s.err = s.resume(err)
		}
	}
	return 0, s.err
}

// read reads from the connection, and ends it if no byte arrives.
func (s *Stream) read(p []byte) (int, error) {
	stalled := time.AfterFunc(s.client.Stall, func() { s.cancel(errStalled) })
	defer stalled.Stop()
	return s.body.Read(p)
}

// Offset is the number of bytes that were read.
func (s *Stream) Offset() int64 { return s.offset }

// Close ends the stream.
func (s *Stream) Close() error {
	if s.body == nil {
		return nil
	}
	s.cancel(nil)
	if err := s.body.Close(); err != nil {
		return fmt.Errorf("closing the connection: %w", err)
	}
	return nil
}

// open opens a connection at the offset.
func (s *Stream) open() error {
	s.ctx, s.cancel = context.WithCancelCause(s.parent)
	response, err := s.client.get(s.ctx, s.file.URL, s.offset, 0, s.validator()) //nolint:bodyclose // Close closes it
	if err != nil {
		s.cancel(nil)
		return err
	}
	s.body = response.Body
	switch {
	case s.offset > 0:
		start, size, err := contentRange(response)
		if err != nil || start != s.offset || size >= 0 && s.file.Size >= 0 && size != s.file.Size {
			err = errChanged
		}
		return err
	case response.StatusCode != http.StatusOK, s.file.Validator != validatorOf(response), s.file.Size >= 0 && response.ContentLength >= 0 && response.ContentLength != s.file.Size:
		return errChanged
	}
	return nil
}

// validator makes a server send the rest only of the same file.
func (s *Stream) validator() string {
	if s.offset == 0 {
		return ""
	}
	return s.file.Validator
}

var errChanged = &Error{Reason: ReasonChanged, Message: "the file changed while it was read"}

// resume opens a connection again. An Error of the server or of the file ends the stream.
func (s *Stream) resume(cause error) error {
	found := Described(s.ctx, cause, s.client.Sources)
	for {
		if s.parent.Err() != nil {
			return Described(s.parent, context.Cause(s.parent), s.client.Sources)
		}
		if s.failures++; s.failures > maxResumptions || !s.file.Ranges || s.file.Validator == "" {
			return found
		}
		_ = s.Close()
		select {
		case <-s.parent.Done():
			continue
		case <-time.After(s.pause):
		}
		s.pause *= 2
		err := s.open()
		if err == nil {
			return nil
		}
		if errors.As(err, &found) && found.Reason != ReasonUnreachable && found.Reason != ReasonServerError && found.Reason != ReasonStalled {
			return found
		}
	}
}

// end checks the whole file.
func (s *Stream) end() error {
	if s.file.Size >= 0 && s.offset != s.file.Size {
		return &Error{Reason: ReasonTruncated, Message: fmt.Sprintf("the file has %d bytes instead of %d", s.offset, s.file.Size)}
	}
	if s.sum == nil {
		return io.EOF
	}
	kind, _, _ := strings.Cut(s.checksum, ":")
	if got := kind + ":" + hex.EncodeToString(s.sum.Sum(nil)); got != s.checksum {
		return &Error{Reason: ReasonChecksumMismatch, Message: fmt.Sprintf("the file has the checksum %s, not %s", got, s.checksum), Permanent: true}
	}
	return io.EOF
}
