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
	"sync/atomic"
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

// Blocks is a content that is read at random, by ranges. It keeps the blocks that were read last. It is safe for concurrent use, and reads
// one range at a time. Create it with NewBlocks.
type Blocks struct {
	// fetch reads a range within the content. The result is valid until the next call.
	fetch func(offset, length int64) ([]byte, error)

	mu   sync.Mutex
	size int64
	// blocks are the elements of recent, by the number of the block. The first of recent was used last.
	blocks map[int64]*list.Element
	recent *list.List
}

// block is a block that is kept.
type block struct {
	number int64
	data   []byte
}

// NewBlocks returns a content of a size in bytes. The function reads a range within it, of at most maxRequested blocks. It may use its
// result again in the next call.
func NewBlocks(size int64, fetch func(offset, length int64) ([]byte, error)) *Blocks {
	return &Blocks{fetch: fetch, size: size, blocks: map[int64]*list.Element{}, recent: list.New()}
}

// Size is that of the content in bytes.
func (b *Blocks) Size() int64 { return b.size }

// ReadAt implements io.ReaderAt. The error is io.EOF behind the end, or one of reading a range.
func (b *Blocks) ReadAt(into []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, errors.New("the offset is negative")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for n < len(into) {
		at := offset + int64(n)
		if at >= b.size {
			return n, io.EOF
		}
		data, err := b.block(at/BlockSize, (offset+int64(len(into))-1)/BlockSize)
		if err != nil {
			return n, err
		}
		n += copy(into[n:], data[at%BlockSize:])
	}
	return n, nil
}

// block returns a block. If it must be read, those behind it are read too, up to the last one.
func (b *Blocks) block(number, last int64) ([]byte, error) {
	if e, kept := b.blocks[number]; kept {
		b.recent.MoveToFront(e)
		return e.Value.(*block).data, nil //nolint:forcetypeassert // the list has blocks only
	}
	end := number + 1
	for end <= min(last, (b.size-1)/BlockSize) && end < number+maxRequested && b.blocks[end] == nil {
		end++
	}
	data, err := b.fetch(number*BlockSize, min(end*BlockSize, b.size)-number*BlockSize)
	if err != nil {
		return nil, err
	}
	for i := end - 1; i >= number; i-- { // the first one is used next
		from := (i - number) * BlockSize
		b.keep(i, data[from:min(from+BlockSize, int64(len(data)))])
	}
	return data[:min(BlockSize, len(data))], nil
}

// keep keeps a copy of a block, in the memory of the one that was not used for the longest time.
func (b *Blocks) keep(number int64, data []byte) {
	var memory []byte
	if len(b.blocks) >= MaxBlocks {
		oldest := b.recent.Remove(b.recent.Back()).(*block) //nolint:forcetypeassert // the list has blocks only
		delete(b.blocks, oldest.number)
		memory = oldest.data[:0]
	}
	b.blocks[number] = b.recent.PushFront(&block{number, append(memory, data...)})
}

// Ranged is a file that is read at random, by requests for ranges. It is safe for concurrent use, and sends one request at a time. Create
// it with Client.Open.
type Ranged struct {
	*Blocks

	client   *Client
	ctx      context.Context //nolint:containedctx // io.ReaderAt passes none
	file     File
	requests atomic.Int64
	// received has the bytes of the last request.
	received []byte
	// failed is the error after which no request is sent.
	failed error
}

// Open reads the first block of a file. The context ends all later reads. The error has the reason ReasonNoRanges if the server sends no
// ranges, or does not state the size: such a file can only be read from its start to its end.
func (c *Client) Open(ctx context.Context, url string) (*Ranged, error) {
	r := &Ranged{client: c, ctx: ctx, file: File{URL: url, Size: -1}}
	// The first block is the probe: HEAD does not work with URLs that are signed for GET, and it saves a request.
	data, err := r.try(0, BlockSize)
	if err != nil {
		return nil, err
	}
	r.Blocks = NewBlocks(r.file.Size, r.request)
	r.keep(0, data)
	return r, nil
}

// File is what the server says about the file.
func (r *Ranged) File() *File {
	f := r.file
	return &f
}

// Requests is the number of requests that were sent, redirects not counted.
func (r *Ranged) Requests() int { return int(r.requests.Load()) }

// request reads a range, and tries again if the connection breaks or the server fails.
func (r *Ranged) request(offset, length int64) ([]byte, error) {
	if r.failed != nil {
		return nil, r.failed
	}
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
	r.requests.Add(1)
	response, err := r.client.get(ctx, r.file.URL, offset, length, r.file.Validator)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if err := r.compare(response, offset); err != nil {
		return nil, err
	}
	length = min(length, r.file.Size-offset)
	if int64(cap(r.received)) < length {
		r.received = make([]byte, length)
	}
	data := r.received[:length]
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
