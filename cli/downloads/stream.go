package downloads

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/virtward/virtward/cli/options"
)

// Stream reads a file without storing it, and continues after a connection that broke. It needs a server that sends ranges.
type Stream struct {
	*download

	ctx context.Context //nolint:containedctx // io.Reader passes none

	// The request that is read; nil for none.
	body    io.ReadCloser
	within  context.Context //nolint:containedctx // of the request
	cancel  context.CancelCauseFunc
	stalled *time.Timer
}

// Open reads the size and the tag of a file. The doing is what the progress says, such as sending.
func Open(ctx context.Context, doing string, o Options) (*Stream, error) {
	d, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	d.meter.End()
	d.meter = options.NewMeter(d.ErrOut, doing, d.size)
	return &Stream{download: d, ctx: ctx}, nil
}

// Offset is the place of the next byte that is read.
func (s *Stream) Offset() int64 { return s.offset }

// maxGap is the number of bytes that are read and discarded rather than that a request is sent for those behind them.
const maxGap = 64 << 10

// SeekTo continues at a place of the file.
func (s *Stream) SeekTo(offset int64) {
	if gap := offset - s.offset; s.body != nil && gap > 0 && gap <= maxGap {
		if _, err := io.CopyN(io.Discard, s.body, gap); err != nil {
			s.drop() // the next read sends a request for what is behind the gap
		}
	} else if gap != 0 {
		s.drop()
	}
	if offset > s.offset {
		s.meter.Skip(offset - s.offset)
	}
	s.offset = offset
}

// Read implements io.Reader.
func (s *Stream) Read(into []byte) (n int, err error) {
	if s.offset == s.size {
		return 0, io.EOF
	}
	if len(into) == 0 {
		return 0, nil
	}
	into = into[:min(int64(len(into)), s.size-s.offset)]
	err = s.retry(s.ctx, func(context.Context) error {
		n, err = s.read(into)
		return err
	})
	s.offset += int64(n)
	s.meter.Add(int64(n))
	return n, err
}

// read reads some bytes, or drops the connection.
func (s *Stream) read(into []byte) (int, error) {
	if s.body == nil {
		if err := s.request(); err != nil {
			return 0, err
		}
	}
	n, err := s.body.Read(into)
	s.stalled.Reset(s.Stall)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	err = cause(s.within, err)
	s.drop()
	return 0, err
}

// request requests what is missing.
func (s *Stream) request() error {
	s.within, s.cancel = context.WithCancelCause(s.ctx)
	s.stalled = s.download.stalled(s.cancel)
	response, err := s.get(s.within)
	if err == nil && s.offset > 0 && response.StatusCode != http.StatusPartialContent {
		err = final{errors.New("the server sends no ranges")}
	}
	if err == nil {
		err = s.checkRange(response)
	}
	if err != nil {
		if response != nil {
			response.Body.Close()
		}
		s.end()
		return err
	}
	s.body = response.Body
	return nil
}

// drop ends the request.
func (s *Stream) drop() {
	if s.body != nil {
		s.body.Close()
		s.body = nil
		s.end()
	}
}

func (s *Stream) end() {
	s.stalled.Stop()
	s.cancel(nil)
}

// Close ends the request and the progress.
func (s *Stream) Close() {
	s.drop()
	s.meter.End()
}
