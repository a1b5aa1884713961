package web

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The blocks of a file that is read at random.
const (
	// BlockSize is the size of a block in bytes.
	BlockSize = 128 << 10
	// MaxBlocks bounds the blocks of a file that are kept: 4 MiB.
	MaxBlocks = 32
	// maxRequested bounds the blocks of one request.
	maxRequested = 8
	// maxRanges bounds the requests for one block, the first included.
	maxRanges = 4

	// MaxRangedBytes bounds the memory of a Ranged: its blocks, and those of a request.
	MaxRangedBytes = (MaxBlocks + maxRequested) * BlockSize
)

// Ranged is a file that is read at random, by requests for ranges. It keeps the blocks that were read last. It is safe for concurrent use,
// and sends one request at a time. Create it with Client.Open.
type Ranged struct {
	client *Client
	ctx    context.Context //nolint:containedctx // io.ReaderAt passes none
	file   File

	mu       sync.Mutex
	requests int
	// blocks are the elements of recent, by the number of the block. The first of recent was used last.
	blocks map[int64]*list.Element
	recent *list.List
	// failed is the error after which no request is sent.
	failed error
}

// block is a block that is kept.
type block struct {
	number int64
	data   []byte
}

// Open reads the first block of a file. The context ends all later reads. The error has the reason ReasonNoRanges if the server sends no
// ranges, or does not state the size: such a file can only be read from its start to its end.
func (c *Client) Open(ctx context.Context, url string) (*Ranged, error) {
	r := &Ranged{client: c, ctx: ctx, file: File{URL: url, Size: -1}, blocks: map[int64]*list.Element{}, recent: list.New()}
	// The first block is the probe: HEAD does not work with URLs that are signed for GET, and it saves a request.
	data, err := r.try(0, BlockSize)
	if err != nil {
		return nil, err
	}
	r.keep(0, data)
	return r, nil
}

// Size is that of the file in bytes.
func (r *Ranged) Size() int64 { return r.file.Size }

// File is what the server says about the file.
func (r *Ranged) File() *File {
	f := r.file
	return &f
}

// Requests is the number of requests that were sent, redirects not counted.
func (r *Ranged) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// ReadAt implements io.ReaderAt. The error is io.EOF behind the end, or an Error.
func (r *Ranged) ReadAt(into []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, errors.New("the offset is negative")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n < len(into) {
		at := offset + int64(n)
		if at >= r.file.Size {
			return n, io.EOF
		}
		data, err := r.block(at/BlockSize, (offset+int64(len(into))-1)/BlockSize)
		if err != nil {
			return n, err
		}
		n += copy(into[n:], data[at%BlockSize:])
	}
	return n, nil
}

// block returns a block. If it must be requested, those behind it are requested too, up to the last one.
func (r *Ranged) block(number, last int64) ([]byte, error) {
	if e, kept := r.blocks[number]; kept {
		r.recent.MoveToFront(e)
		return e.Value.(*block).data, nil //nolint:forcetypeassert // the list has blocks only
	}
	if r.failed != nil {
		return nil, r.failed
	}
	end := number + 1
	for end <= min(last, (r.file.Size-1)/BlockSize) && end < number+maxRequested && r.blocks[end] == nil {
		end++
	}
	data, err := r.request(number*BlockSize, min(end*BlockSize, r.file.Size)-number*BlockSize)
	if err != nil {
		return nil, err
	}
	for i := end - 1; i >= number; i-- { // the first one is used next
		from := (i - number) * BlockSize
		r.keep(i, data[from:min(from+BlockSize, int64(len(data)))])
	}
	return data[:min(BlockSize, len(data))], nil
}

// keep keeps a block, and forgets the one that was not used for the longest time.
func (r *Ranged) keep(number int64, data []byte) {
	if len(r.blocks) >= MaxBlocks {
		oldest := r.recent.Back()
		delete(r.blocks, r.recent.Remove(oldest).(*block).number) //nolint:forcetypeassert // the list has blocks only
	}
	// A copy: a request for several blocks must not stay in memory for one of them.
	r.blocks[number] = r.recent.PushFront(&block{number, append([]byte(nil), data...)})
}

// request reads a range, and tries again if the connection breaks or the server fails.
func (r *Ranged) request(offset, length int64) ([]byte, error) {
	pause := r.client.Pause
	for i := 1; ; i++ {
		data, err := r.try(offset, length)
		if err == nil {
			return data, nil
		}
		if !transient(err) || i == maxRanges || r.ctx.Err() != nil {
			if HasReason(err, ReasonChanged) {
				r.failed = err
			}
			return nil, err
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// try reads a range once. The first call learns what the file is.
func (r *Ranged) try(offset, length int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(r.ctx, 3*r.client.Timeout)
	defer cancel()
	r.requests++
	response, err := r.client.get(ctx, r.file.URL, offset, length, r.file.Validator)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if err := r.compare(response, offset); err != nil {
		return nil, err
	}
	data := make([]byte, min(length, r.file.Size-offset))
	if _, err := io.ReadFull(response.Body, data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, Described(ctx, err, r.client.Sources)
	}
	return data, nil
}

// compare compares an answer with what the file was at first.
func (r *Ranged) compare(response *http.Response, offset int64) error {
	first := r.file.Size < 0
	start, size, err := contentRange(response)
	switch {
	case response.StatusCode == http.StatusOK && first:
		return &Error{Reason: ReasonNoRanges, Message: "the server does not send ranges of the file", Permanent: true}
	case err != nil && first:
		return &Error{Reason: ReasonServerError, Message: "the server sends a range without a valid Content-Range"}
	case err != nil: // all of the file: it has another validator
		return errChanged
	case size < 0 && first:
		return &Error{Reason: ReasonNoRanges, Message: "the server does not state the size of the file", Permanent: true}
	case start != offset:
		return &Error{Reason: ReasonServerError, Message: fmt.Sprintf("the server sends the file from byte %d instead of %d", start, offset)}
	case first:
		r.file.Size, r.file.Validator, r.file.Ranges = size, validatorOf(response), true
		return nil
	case size >= 0 && size != r.file.Size, !sameVersion(response, r.file.Validator):
		return errChanged
	}
	return nil
}

// sameVersion reports whether an answer may be of a version of a file: some servers ignore If-Range.
func sameVersion(response *http.Response, validator string) bool {
	now := validatorOf(response)
	known := now != "" && validator != "" && strings.HasPrefix(now, `"`) == strings.HasPrefix(validator, `"`)
	return !known || now == validator
}
