package appliance

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/vmdk"
)

// Scratch is a place for a decompressed disk.
type Scratch interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// maxHashed bounds the content that is calculated a digest of, in bytes of all disks: a small file can have much of it.
const maxHashed = 8 << 30

// maxMedium bounds a decompressed CD image in bytes.
const maxMedium = 16 << 30

// inspected is what was found of an image.
type inspected struct {
	format string
	size   int64
	sum    string
	boots  boots
}

// images inspects the images of a package.
type images struct {
	options Options
	// left is how many bytes can be calculated a digest of.
	left int64
}

// inspect inspects an image. A compressed one has at most a number of bytes. The error is a *ovf.Rejection, or one of reading.
func (i *images) inspect(href string, data Data, compression string, limit int64) (inspected, error) {
	if compression == "gzip" {
		if i.options.HeadersOnly || i.options.Scratch == nil {
			return inspected{}, nil
		}
		scratch, err := i.options.Scratch()
		if err != nil {
			return inspected{}, fmt.Errorf("creating a file for a decompressed disk: %w", err)
		}
		defer scratch.Close()
		size, err := decompress(scratch, href, data, limit)
		if err != nil {
			return inspected{}, err
		}
		data = io.NewSectionReader(scratch, 0, size)
	}
	image, err := vmdk.Inspect(data, data.Size())
	if err != nil {
		return inspected{}, ImageRejection(href, err)
	}
	found := inspected{format: image.Format, size: image.Size}
	if i.options.HeadersOnly {
		return found, nil
	}
	switch image.Format {
	case "vmdk":
		found.sum, found.boots, err = i.decode(image.VMDK)
	case "raw", "iso":
		if found.boots, err = bootsOfRaw(data); err != nil {
			break
		}
		if data.Size() <= i.left {
			i.left -= data.Size()
			found.sum, err = sum(io.NewSectionReader(data, 0, data.Size()))
		}
	}
	if err != nil {
		return inspected{}, ImageRejection(href, err)
	}
	return found, nil
}

// decompress writes a disk that is compressed with gzip, and returns its size.
func decompress(to io.Writer, href string, data Data, limit int64) (int64, error) {
	z, err := gzip.NewReader(io.NewSectionReader(data, 0, data.Size()))
	if err != nil {
		return 0, rejection(ovf.InvalidImage, href, "the image is not compressed with gzip, although the descriptor says so", "correct the attribute compression")
	}
	size, err := io.Copy(to, io.LimitReader(z, limit+1))
	switch {
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF), err != nil && strings.HasPrefix(err.Error(), "flate:"):
		return 0, rejection(ovf.InvalidImage, href, "the compressed image is damaged or truncated", "download it again")
	case err != nil:
		return 0, fmt.Errorf("decompressing a disk: %w", err)
	case size > limit:
		return 0, rejection(ovf.LimitExceeded, href, "the compressed image is larger than its capacity", "correct the capacity of the disk")
	}
	return size, nil
}

// ImageRejection is the rejection of an image that package vmdk does not accept, or the error if the file cannot be read.
func ImageRejection(href string, err error) error {
	const convert = "convert the image to a streamOptimized VMDK"
	for _, c := range []struct {
		err    error
		reason ovf.Reason
		remedy string
	}{
		{vmdk.ErrParent, ovf.ParentDisk, "export the virtual machine without snapshots"},
		{vmdk.ErrReference, ovf.ExternalReference, convert},
		{vmdk.ErrEncrypted, ovf.EncryptedImage, "export the virtual machine without encryption"},
		{vmdk.ErrInvalid, ovf.InvalidImage, convert},
	} {
		if errors.Is(err, c.err) {
			return rejection(c.reason, href, err.Error(), c.remedy)
		}
	}
	return err
}

// errEnough ends the calculation of a digest that is too long.
var errEnough = errors.New("enough")

// decode reads all grains of a disk, and returns the digest of its content, which is empty if it is too large, and how it boots.
func (i *images) decode(disk *vmdk.Disk) (string, boots, error) {
	begin := make([]byte, maxBeginning)
	digest, err := i.digest(disk, begin)
	if err != nil {
		return "", boots{}, err
	}
	return digest, bootsOf(begin), nil
}

// digest is the digest of the content of a disk, and copies the beginning of the content. It is empty if the content is too large.
func (i *images) digest(disk *vmdk.Disk, begin []byte) (string, error) {
	calculate := disk.Capacity <= i.left
	if calculate {
		i.left -= disk.Capacity
	}
	hashed, at, decoded := sha256.New(), int64(0), int64(0)
	zeros := make([]byte, 1<<20)
	fill := func(to int64) {
		for at < to {
			n := min(to-at, int64(len(zeros)))
			hashed.Write(zeros[:n])
			at += n
		}
	}
	err := disk.Walk(func(offset int64, content []byte) error {
		if offset < int64(len(begin)) {
			copy(begin[offset:], content)
		}
		if decoded += int64(len(content)); decoded > maxHashed {
			return errEnough
		}
		if calculate {
			fill(offset)
			hashed.Write(content)
			at += int64(len(content))
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return "", nil
	case err != nil:
		return "", err
	case !calculate:
		return "", nil
	}
	fill(disk.Capacity)
	return hex.EncodeToString(hashed.Sum(nil)), nil
}

func sum(r io.Reader) (string, error) {
	hashed := sha256.New()
	if _, err := io.Copy(hashed, r); err != nil {
		return "", fmt.Errorf("reading the image: %w", err)
	}
	return hex.EncodeToString(hashed.Sum(nil)), nil
}
