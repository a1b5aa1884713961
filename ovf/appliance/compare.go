package appliance

import (
	"archive/tar"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/ovf"
)

// Compare reads an OVA from its start to its end, and compares the digests of files by their names, such as sha256: and hexadecimal digits.
// The error is a *ovf.Rejection, or one of reading. It holds no content of files.
func Compare(archive io.Reader, digests map[string]string) error {
	left := maps.Clone(digests)
	reader := tar.NewReader(archive)
	for members := 0; len(left) > 0; members++ {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return rejection(ovf.MissingFile, slices.Sorted(maps.Keys(left))[0], "the archive ends before the file", "download it again")
		case errors.Is(err, tar.ErrHeader):
			return rejection(ovf.NotAnArchive, "", "the archive is damaged", "download it again")
		case err != nil:
			return fmt.Errorf("reading the archive: %w", err)
		case members >= 2*ovf.MaxFiles:
			return rejection(ovf.LimitExceeded, header.Name, "the archive has too many entries", "remove files")
		}
		name := strings.TrimPrefix(header.Name, "./")
		wanted, listed := left[name]
		if !listed || header.Typeflag != tar.TypeReg {
			continue
		}
		delete(left, name)
		sum := hashOf(wanted)
		if sum == nil {
			return rejection(ovf.ManifestInvalid, name, "the algorithm of the digest is not known", "use SHA256")
		}
		if _, err := io.Copy(sum, reader); err != nil { //nolint:gosec // the archive is not compressed
			return fmt.Errorf("reading the archive: %w", err)
		}
		if _, value, _ := strings.Cut(wanted, ":"); hex.EncodeToString(sum.Sum(nil)) != value {
			return rejection(ovf.ManifestMismatch, name, "the file does not have the digest of the manifest", "download the package again")
		}
	}
	return nil
}

// hashOf is the algorithm of a digest; nil if it is not known.
func hashOf(digest string) hash.Hash {
	algorithm, _, _ := strings.Cut(digest, ":")
	if create := newHash(algorithm); create != nil {
		return create()
	}
	return nil
}
