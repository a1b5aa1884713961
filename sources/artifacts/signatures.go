package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/oci"
)

// Limits of signatures.
const (
	// MaxSignatures bounds the signatures with the tag of cosign; MaxReferrers bounds those that refer to the artifact.
	MaxSignatures = 100
	// MaxBundle bounds a signature with its certificate and its proofs, in bytes.
	MaxBundle = 256 << 10
	// MaxPayload bounds what is signed in the format of simple signing, in bytes.
	MaxPayload = 16 << 10
)

// The media types of signatures. cosign writes both.
const (
	mediaTypeBundle  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	mediaTypePayload = "application/vnd.dev.cosign.simplesigning.v1+json"
)

// Signature is a signature as a registry sends it. It is not verified.
type Signature struct {
	// Digest names it in the repository.
	Digest digest.Digest
	// Bundle is a Sigstore bundle; nil in the format of simple signing.
	Bundle []byte
	// Payload is what is signed in the format of simple signing, and Annotations have its signature, its certificate and its entry in
	// a transparency log.
	Payload     []byte
	Annotations map[string]string
}

// Signatures reads the signatures of an artifact, one at a time: bundles that refer to it, and then those with the tag
// sha256-DIGEST.sig. An error belongs to the signature with the digest. Without a digest, it is that of a list.
func (r *Repository) Signatures(ctx context.Context, of digest.Digest) iter.Seq2[Signature, error] {
	return func(yield func(Signature, error) bool) {
		bundles, err := r.Referrers(ctx, of, mediaTypeBundle)
		if err != nil && !yield(Signature{}, err) {
			return
		}
		for i := range bundles {
			if !yield(r.bundle(ctx, &bundles[i])) {
				return
			}
		}
		payloads, err := r.payloads(ctx, of)
		if err != nil && !yield(Signature{}, err) {
			return
		}
		for i := range payloads {
			s := Signature{Digest: payloads[i].Digest, Annotations: payloads[i].Annotations}
			var err error
			s.Payload, err = r.Blob(ctx, &payloads[i], MaxPayload)
			if !yield(s, err) {
				return
			}
		}
	}
}

// bundle reads the bundle of a referrer.
func (r *Repository) bundle(ctx context.Context, d *oci.Descriptor) (Signature, error) {
	s := Signature{Digest: d.Digest}
	b, err := r.manifest(ctx, d)
	if err != nil {
		return s, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(b.Content, &m); err != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != mediaTypeBundle {
		return s, r.described(ctx, "reading the signature "+d.Digest.String(), &oci.Rejection{Reason: oci.WrongType, Message: "it is not a manifest with one layer of the type " + mediaTypeBundle})
	}
	s.Bundle, err = r.Blob(ctx, &m.Layers[0], MaxBundle)
	return s, err
}

// payloads lists the layers of the manifest with the tag of cosign.
func (r *Repository) payloads(ctx context.Context, of digest.Digest) ([]oci.Descriptor, error) {
	tag := strings.Replace(of.String(), ":", "-", 1) + ".sig"
	doing := "reading the signatures with the tag " + tag
	content, _, err := r.small(ctx, "manifests/"+tag, "", v1.MediaTypeImageManifest)
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	var m v1.Manifest
	if err == nil && json.Unmarshal(content, &m) != nil {
		err = &oci.Rejection{Reason: oci.InvalidJSON, Message: "the manifest is not valid JSON"}
	}
	if err != nil {
		return nil, r.described(ctx, doing, err)
	}
	var found []oci.Descriptor
	for i := range m.Layers {
		d := &m.Layers[i]
		if d.MediaType != mediaTypePayload {
			continue
		}
		if d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256 {
			return nil, r.described(ctx, doing, &oci.Rejection{Reason: oci.InvalidDescriptor, Element: fmt.Sprintf("layers[%d]", i), Message: "the digest is not valid: use sha256"})
		}
		if found = append(found, *d); len(found) > MaxSignatures {
			return nil, r.described(ctx, doing, &oci.Rejection{Reason: oci.LimitExceeded, Message: fmt.Sprintf("there are more than %d", MaxSignatures)})
		}
	}
	return found, nil
}
