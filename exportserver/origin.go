package exportserver

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/vmdk"
)

// maxOpen bounds the files at URLs that keep blocks in memory.
const maxOpen = 2

// origin opens disks. It keeps the ones that were used last.
type origin struct {
	ctx    context.Context //nolint:containedctx // io.ReaderAt passes none
	client *web.Client

	mu   sync.Mutex
	open []*remote // the last one was used last
}

// remote is a raw image at a URL.
type remote struct {
	origin *origin
	url    string
	// first is what the server said at first.
	first web.File
	// ranged is nil if other disks were used since.
	ranged *web.Ranged
}

// remote opens the raw image at a URL.
func (o *origin) remote(url string) (*remote, error) {
	r := &remote{origin: o, url: url}
	ranged, err := r.use()
	if err != nil {
		return nil, err
	}
	r.first = *ranged.File()
	return r, nil
}

// Size is that of the image in bytes.
func (r *remote) Size() int64 { return r.first.Size }

// ReadAt implements io.ReaderAt.
func (r *remote) ReadAt(into []byte, offset int64) (int, error) {
	ranged, err := r.use()
	if err != nil {
		return 0, err
	}
	return ranged.ReadAt(into, offset) //nolint:wrapcheck // of this program's package
}

// use opens the file if it is not open, and forgets the blocks of the one that was not used for the longest time.
func (r *remote) use() (*web.Ranged, error) {
	o := r.origin
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.open, r); i >= 0 {
		o.open = append(slices.Delete(o.open, i, i+1), r)
		return r.ranged, nil
	}
	ranged, err := o.client.Open(o.ctx, r.url)
	if err != nil {
		return nil, err //nolint:wrapcheck // of this program's package
	}
	if f := ranged.File(); r.first.URL != "" && (f.Size != r.first.Size || f.Validator != r.first.Validator) {
		return nil, fmt.Errorf("%w: the server has another file", vmdk.ErrChanged)
	}
	if len(o.open) == maxOpen {
		o.open[0].ranged = nil
		o.open = slices.Delete(o.open, 0, 1)
	}
	r.ranged = ranged
	o.open = append(o.open, r)
	return ranged, nil
}
