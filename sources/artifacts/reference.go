package artifacts

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/virtward/virtward/addresses"
)

// Scheme is the beginning of a reference.
const Scheme = "oci://"

// Reference names an artifact, or a repository.
type Reference struct {
	addresses.Image

	// Named tells that the text has a tag or a digest.
	Named bool
}

// IsReference reports whether a text is meant as a reference.
func IsReference(text string) bool { return strings.HasPrefix(text, Scheme) }

// ParseReference reads oci://REGISTRY/REPOSITORY, with :TAG or @DIGEST.
func ParseReference(text string) (Reference, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Reference{}, errors.New("it does not begin with " + Scheme)
	}
	image, err := addresses.ParseImage(rest)
	switch {
	case err != nil:
		return Reference{}, err //nolint:wrapcheck // a message for users
	case image.Transport != "":
		return Reference{}, fmt.Errorf("it names the transport %s too", image.Transport)
	case !image.Qualified:
		return Reference{}, errors.New("it names no registry: write oci://REGISTRY/REPOSITORY:TAG")
	}
	last := rest[strings.LastIndexByte(rest, '/')+1:]
	return Reference{image, image.Digest != "" || strings.Contains(last, ":")}, nil
}

// String is the reference in its normal form.
func (r *Reference) String() string {
	if r.Named {
		return Scheme + r.Canonical
	}
	return Scheme + r.Name
}

// At is another artifact of the same repository.
func (r *Reference) At(digest string) Reference {
	other := *r
	other.Tag, other.Digest, other.Canonical, other.Named = "", digest, r.Name+"@"+digest, true
	return other
}

// identifier is the tag or the digest.
func (r *Reference) identifier() string {
	if r.Digest != "" {
		return r.Digest
	}
	return r.Tag
}

// named is the reference for go-containerregistry.
func (r *Reference) named(insecure bool) (name.Reference, error) {
	options := []name.Option{}
	if insecure {
		options = append(options, name.Insecure)
	}
	parsed, err := name.ParseReference(r.Canonical, options...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	return parsed, nil
}
