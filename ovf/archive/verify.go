package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/vmdk"
)

// ErrDamaged is a file that no Archive has written.
var ErrDamaged = errors.New("the file is damaged")

// The bounds of what Verify reads.
const (
	maxMembers = 1000
	// maxSmall bounds the descriptor and the manifest in bytes.
	maxSmall = 8 << 20
)

// blobs is the folder of the blobs of an artifact, whose names are their digests.
const blobs = v1.ImageBlobsDir + "/sha256/"

// Verified is what is known about a whole OVA or artifact.
type Verified struct {
	// Tag is that of the Archive that wrote it.
	Tag string
	// SHA256 is the digest of the file in hexadecimal digits.
	SHA256 string
	// Files are the members. They have the digests of the manifest.
	Files []File
}

// Verify reads a file that an Archive has written, to its end. A file of another program is ErrDamaged, too. With the same Tag as an
// Archive, it has the same bytes.
func Verify(from io.Reader) (*Verified, error) {
	whole, tag := sha256.New(), sha256.New()
	r := io.TeeReader(from, whole)
	found := &Verified{}
	var manifest []byte
	small, artifact := smallFiles, false
	for {
		h, err := nextHeader(r)
		switch {
		case err != nil:
			return nil, err
		case h == nil:
			if !artifact && !bytes.Equal(manifest, manifestOf(found.Files)) {
				return nil, fmt.Errorf("%w: its files have other digests than the manifest", ErrDamaged)
			}
			found.Tag, found.SHA256 = hex.EncodeToString(tag.Sum(nil)[:tagBytes]), hex.EncodeToString(whole.Sum(nil))
			return found, nil
		case len(found.Files) == maxMembers:
			return nil, fmt.Errorf("%w: it has more than %d files", ErrDamaged, maxMembers)
		}
		if len(found.Files) == 0 && h.name == v1.ImageLayoutFile {
			small, artifact = artifactFiles, true
		}
		sum := sha256.New()
		var content bytes.Buffer
		to := io.Writer(sum)
		if len(found.Files) < small {
			if h.size > maxSmall {
				return nil, fmt.Errorf("%w: %s has more than %d MiB", ErrDamaged, h.name, maxSmall>>20)
			}
			to = io.MultiWriter(sum, &content)
		}
		if _, err := io.CopyN(to, r, h.size); err != nil {
			return nil, truncated(err)
		}
		if err := zeros(r, (blockSize-h.size%blockSize)%blockSize); err != nil {
			return nil, err
		}
		_, _ = tag.Write(h.bytes)         // a hash returns no error
		_, _ = tag.Write(content.Bytes()) // as above
		if len(found.Files) == 1 {
			manifest = content.Bytes()
		}
		digest := hex.EncodeToString(sum.Sum(nil))
		if name, is := strings.CutPrefix(h.name, blobs); artifact && is && name != digest {
			return nil, fmt.Errorf("%w: a blob has another digest than its name", ErrDamaged)
		}
		found.Files = append(found.Files, File{h.name, h.size, digest})
	}
}

// memberHeader is the header of a member.
type memberHeader struct {
	name  string
	size  int64
	bytes []byte
}

// nextHeader reads the header of the next member; nil at the end of the archive.
func nextHeader(r io.Reader) (*memberHeader, error) {
	block := make([]byte, blockSize)
	if _, err := io.ReadFull(r, block); err != nil {
		return nil, truncated(err)
	}
	if vmdk.AllZero(block) {
		if err := zeros(r, blockSize); err != nil {
			return nil, err
		}
		if n, err := r.Read(block[:1]); n > 0 || !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: there are bytes behind its end", ErrDamaged)
		}
		return nil, nil
	}
	parsed, err := tar.NewReader(bytes.NewReader(block)).Next()
	if err != nil {
		return nil, fmt.Errorf("%w: a header of tar is not valid", ErrDamaged)
	}
	if again, err := header(parsed.Name, parsed.Size); err != nil || !bytes.Equal(again, block) {
		return nil, fmt.Errorf("%w: a header of tar has other fields", ErrDamaged)
	}
	return &memberHeader{parsed.Name, parsed.Size, block}, nil
}

// zeros reads a number of bytes, which must be zeros.
func zeros(r io.Reader, n int64) error {
	padding := make([]byte, n)
	if _, err := io.ReadFull(r, padding); err != nil {
		return truncated(err)
	}
	if !vmdk.AllZero(padding) {
		return fmt.Errorf("%w: there are bytes between its files", ErrDamaged)
	}
	return nil
}

// truncated is the error of a read.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	return err
}
