package web

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

// Resumptions of a stream: at most so many without a byte in between, with a growing pause before each. After enough bytes, the first one
// has no pause.
const (
	maxResumptions = 5
	firstPause     = time.Second
	enough         = 1 << 20
)

// Stream is the content of a file from its start, or a part of it. It continues after a broken connection. Create it with Client.Stream, and
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
	// offset is that of the next byte in the file, end that behind the last one; -1 for the end of the file.
	offset, end int64
	// begun is the offset at which the connection began; failures is the number of resumptions since the last byte.
	begun       int64
	failures    int
	resumptions int
	pause       time.Duration
	err         error
}

// Stream opens a file that was probed. At the end of the stream its size and its checksum are as expected, or Read returns
// an Error.
func (c *Client) Stream(ctx context.Context, file *File, checksum string) (*Stream, error) {
	s := &Stream{client: c, file: file, checksum: checksum, parent: ctx, pause: c.Pause, end: -1}
	switch {
	case strings.HasPrefix(checksum, "sha256:"):
		s.sum = sha256.New()
	case strings.HasPrefix(checksum, "sha512:"):
		s.sum = sha512.New()
	}
	return s, s.open()
}

// Part opens a part of a file whose server sends ranges. The part is within the file.
func (c *Client) Part(ctx context.Context, file *File, offset, length int64) (*Stream, error) {
	s := &Stream{client: c, file: file, parent: ctx, pause: c.Pause, offset: offset, end: offset + length}
	err := s.open()
	if transient(err) {
		err = s.resume(err)
	}
	return s, err
}

// transient reports whether the next request can succeed.
func transient(err error) bool {
	for _, reason := range []string{ReasonUnreachable, ReasonServerError, ReasonStalled, ReasonTruncated} {
		if HasReason(err, reason) {
			return true
		}
	}
	return false
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for s.err == nil {
		if s.end >= 0 {
			if p = p[:min(int64(len(p)), s.end-s.offset)]; s.offset == s.end {
				s.err = io.EOF
				continue
			}
		}
		n, err := s.read(p)
		if n > 0 {
			s.offset += int64(n)
			s.failures, s.pause = 0, s.client.Pause
			if s.sum != nil {
				_, _ = s.sum.Write(p[:n]) // a hash returns no error
			}
			return n, nil
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && s.end < 0:
			s.err = s.complete()
		case errors.Is(err, io.EOF):
			s.err = s.resume(io.ErrUnexpectedEOF)
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

// Offset is that of the next byte in the file.
func (s *Stream) Offset() int64 { return s.offset }

// Resumptions is how often the stream continued after a broken connection.
func (s *Stream) Resumptions() int { return s.resumptions }

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
	length := int64(0)
	if s.end >= 0 {
		length = s.end - s.offset
	}
	response, err := s.client.get(s.ctx, s.file.URL, s.offset, length, s.validator()) //nolint:bodyclose // Close closes it
	if err != nil {
		s.cancel(nil)
		return err
	}
	s.body, s.begun = response.Body, s.offset
	switch {
	case s.offset > 0 || s.end >= 0:
		start, size, err := contentRange(response)
		if err != nil || start != s.offset || size >= 0 && s.file.Size >= 0 && size != s.file.Size || !sameVersion(response, s.file.Validator) {
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
	if s.offset == 0 && s.end < 0 {
		return ""
	}
	return s.file.Validator
}

var errChanged = &Error{Reason: ReasonChanged, Message: "the file changed while it was read"}

// resume opens a connection again. An Error of the server or of the file ends the stream.
func (s *Stream) resume(cause error) error {
	found := Described(s.ctx, cause, s.client.Sources)
	if s.offset-s.begun >= enough {
		s.pause = 0
	}
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
		s.pause = max(2*s.pause, s.client.Pause)
		err := s.open()
		if err == nil {
			s.resumptions++
			return nil
		}
		if errors.As(err, &found) && !transient(err) {
			return found
		}
	}
}

// complete checks the whole file.
func (s *Stream) complete() error {
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
