package appliance

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Padded reads a file that was written into a volume, with zeros up to the end of the volume, and compares the digest of the file. It is not
// noted where the file ends, so the digest may be that of any part from the beginning to the end of a block of tar, if only zeros follow.
// The error in place of io.EOF is a *ChecksumError. Create it with NewPadded.
type Padded struct {
	io.Reader

	wanted string
	sum    hash.Hash
	// block has the bytes behind the last whole block.
	block []byte
	// matched tells that what is before some block had the digest, and that all blocks from there on are zeros.
	matched bool
}

// NewPadded returns a reader of a file with a digest, such as sha256: and hexadecimal digits.
func NewPadded(file io.Reader, digest string) (*Padded, error) {
	sum := hashOf(digest)
	if sum == nil {
		return nil, errors.New("the algorithm of the digest is not known")
	}
	return &Padded{Reader: file, wanted: digest, sum: sum, block: make([]byte, 0, tarBlock)}, nil
}

// Read implements io.Reader.
func (p *Padded) Read(into []byte) (int, error) {
	n, err := p.Reader.Read(into)
	for rest := into[:n]; len(rest) > 0; {
		size := min(len(rest), tarBlock-len(p.block))
		p.block = append(p.block, rest[:size]...)
		if rest = rest[size:]; len(p.block) == tarBlock {
			p.add()
		}
	}
	if errors.Is(err, io.EOF) {
		p.add()
		if !p.matched && p.digest() != p.wanted {
			return n, &ChecksumError{p.digest(), p.wanted}
		}
	}
	return n, err //nolint:wrapcheck // io.EOF must stay
}

// ChecksumError is the error of a file with another digest.
type ChecksumError struct{ Got, Wanted string }

// Error implements error.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("the file has the checksum %s, not %s", e.Got, e.Wanted)
}

var zeros [tarBlock]byte

// add adds the block to the digest.
func (p *Padded) add() {
	switch zero := bytes.Equal(p.block, zeros[:len(p.block)]); {
	case !zero:
		p.matched = false
	case !p.matched:
		p.matched = p.digest() == p.wanted
	}
	_, _ = p.sum.Write(p.block) // a hash returns no error
	p.block = p.block[:0]
}

// digest is that of the bytes so far.
func (p *Padded) digest() string {
	kind := p.wanted[:bytes.IndexByte([]byte(p.wanted), ':')+1]
	return kind + hex.EncodeToString(p.sum.Sum(nil))
}
