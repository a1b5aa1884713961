package ova

import (
	"context"

	"github.com/virtward/virtward/exportserver/rawfile"
)

// rawImage is a raw image. Reading ends with a context.
type rawImage struct {
	*rawfile.File

	ctx context.Context //nolint:containedctx // io.ReaderAt passes none
}

// ReadAt implements io.ReaderAt.
func (r *rawImage) ReadAt(into []byte, offset int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.File.ReadAt(into, offset)
}
