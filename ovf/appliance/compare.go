package appliance

import (
	"archive/tar"
	"crypto/sha256"
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

// Digests reads an OVA from its start to the last of some files, and returns their SHA-256 digests by their names. The files have the
// digests that they must have, such as sha256: and hexadecimal digits; an empty one is any. The error is a *ovf.Rejection, or one of
// reading. It holds no content of files.
func Digests(archive io.Reader, files map[string]string) (map[string]string, error) {
	left, found := maps.Clone(files), map[string]string{}
	reader := tar.NewReader(archive)
	for entries := 0; len(left) > 0; entries++ {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, rejection(ovf.MissingFile, slices.Sorted(maps.Keys(left))[0], "the archive ends before the file", "download it again")
		case errors.Is(err, tar.ErrHeader):
			return nil, rejection(ovf.NotAnArchive, "", "the archive is damaged", "download it again")
		case err != nil:
			return nil, fmt.Errorf("reading the archive: %w", err)
		case entries == maxEntries:
			return nil, tooMany(header)
		}
		// A sparse file has as many zeros as its header says, and needs no bytes for them.
		if found := checkMember(header); found != nil {
			return nil, found
		}
		name := strings.TrimPrefix(header.Name, here)
		wanted, listed := left[name]
		if !listed || header.Typeflag != tar.TypeReg {
			continue
		}
		delete(left, name)
		if found[name], err = digestOf(name, reader, wanted); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// digestOf is the SHA-256 digest of a file that must have another digest too; an empty one is any.
func digestOf(name string, content io.Reader, wanted string) (string, error) {
	own, compared := sha256.New(), hash.Hash(nil)
	var to io.Writer = own
	if wanted != "" {
		if compared = hashOf(wanted); compared == nil {
			return "", rejection(ovf.ManifestInvalid, name, "the algorithm of the digest is not known", "use SHA256")
		}
		to = io.MultiWriter(own, compared)
	}
	if _, err := io.Copy(to, content); err != nil {
		return "", fmt.Errorf("reading the archive: %w", err)
	}
	if compared != nil {
		if _, value, _ := strings.Cut(wanted, ":"); hex.EncodeToString(compared.Sum(nil)) != value {
			return "", rejection(ovf.ManifestMismatch, name, "the file does not have the digest of the manifest", "download the package again")
		}
	}
	return "sha256:" + hex.EncodeToString(own.Sum(nil)), nil
}

// hashOf is the algorithm of a digest; nil if it is not known.
func hashOf(digest string) hash.Hash {
	algorithm, _, _ := strings.Cut(digest, ":")
	if create := newHash(algorithm); create != nil {
		return create()
	}
	return nil
}
