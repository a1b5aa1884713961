package vmdk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zlib"
)

// level is the level of compression. The bytes of a file depend on it, and on the version of the library.
const level = 3

// compressor compresses grains. It is not safe for concurrent use.
type compressor struct{ z *zlib.Writer }

// grain appends a grain that begins at a sector of the disk: its marker, its compressed content and zeros up to the end of the sector.
func (c *compressor) grain(to *bytes.Buffer, content []byte, position uint64) error {
	start := to.Len()
	to.Write(make([]byte, 12))
	if c.z == nil {
		z, err := zlib.NewWriterLevel(to, level)
		if err != nil {
			return fmt.Errorf("compressing: %w", err)
		}
		c.z = z
	} else {
		c.z.Reset(to)
	}
	if _, err := c.z.Write(content); err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	if err := c.z.Close(); err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	marker := to.Bytes()[start:]
	binary.LittleEndian.PutUint64(marker, position)
	binary.LittleEndian.PutUint32(marker[8:], uint32(len(marker)-12))
	if over := (to.Len() - start) % sector; over > 0 {
		to.Write(make([]byte, sector-over))
	}
	return nil
}
