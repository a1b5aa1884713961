package artifacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	spec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/oci"
)

// Writer writes to a repository. Create it with NewWriter. It is safe for concurrent use.
type Writer struct {
	Reference

	options Options
	named   name.Reference
	pusher  *remote.Pusher
}

// NewWriter returns a writer. It connects when it writes.
func NewWriter(ctx context.Context, reference Reference, options Options) (*Writer, error) {
	named, err := reference.named(options.Insecure)
	if err != nil {
		return nil, err
	}
	all := []remote.Option{remote.WithTransport(options.Transport), remote.WithContext(ctx), remote.WithUserAgent("virtward")}
	if options.Keychain != nil {
		all = append(all, remote.WithAuthFromKeychain(options.Keychain))
	}
	pusher, err := remote.NewPusher(all...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", reference.Name, err)
	}
	return &Writer{Reference: reference, options: options, named: named, pusher: pusher}, nil
}

// Upload writes a blob, unless the repository has it. The function returns its bytes, and can be called again. From is the repository
// of the same registry that has the blob; nil for none.
func (w *Writer) Upload(ctx context.Context, d *oci.Descriptor, open func() (io.ReadCloser, error), from *Reference) error {
	var l v1.Layer = &layer{d, open}
	if from != nil && from.Registry == w.Registry {
		source, err := from.named(w.options.Insecure)
		if err != nil {
			return err
		}
		l = &remote.MountableLayer{Layer: l, Reference: source}
	}
	if err := w.pusher.Upload(ctx, w.named.Context(), l); err != nil {
		return fmt.Errorf("%s: writing the blob %s: %w", w.Name, d.Digest, err)
	}
	return nil
}

// layer is a blob for go-containerregistry.
type layer struct {
	d    *oci.Descriptor
	open func() (io.ReadCloser, error)
}

// Digest implements v1.Layer.
func (l *layer) Digest() (v1.Hash, error) { return v1.NewHash(l.d.Digest.String()) }

// DiffID implements v1.Layer.
func (l *layer) DiffID() (v1.Hash, error) { return l.Digest() }

// Size implements v1.Layer.
func (l *layer) Size() (int64, error) { return l.d.Size, nil }

// MediaType implements v1.Layer.
func (l *layer) MediaType() (types.MediaType, error) { return types.MediaType(l.d.MediaType), nil }

// Uncompressed implements v1.Layer.
func (l *layer) Uncompressed() (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

// Compressed implements v1.Layer. Bytes with another digest are an error before the registry stores them.
func (l *layer) Compressed() (io.ReadCloser, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{oci.Verified(r, l.d), r}, nil
}

// Write writes bytes as a blob.
func (w *Writer) Write(ctx context.Context, b oci.Blob) error {
	return w.Upload(ctx, &b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Content)), nil }, nil)
}

// Put writes a manifest or an index by its digest. Write first what it refers to.
func (w *Writer) Put(ctx context.Context, b oci.Blob) error {
	return w.put(ctx, w.named.Context().Digest(b.Digest.String()), b)
}

// Tag writes a manifest or an index with the tag of the reference. With a digest instead, its digest must be that one.
func (w *Writer) Tag(ctx context.Context, b oci.Blob) error {
	if w.Reference.Digest != "" {
		if w.Reference.Digest != b.Digest.String() {
			return fmt.Errorf("%s: the artifact has the digest %s", w.Reference.String(), b.Digest)
		}
		return w.Put(ctx, b)
	}
	return w.put(ctx, w.named, b)
}

func (w *Writer) put(ctx context.Context, to name.Reference, b oci.Blob) error {
	if err := w.pusher.Put(ctx, to, raw{b}); err != nil {
		return fmt.Errorf("%s: writing the manifest %s: %w", w.Name, b.Digest, err)
	}
	return nil
}

// raw is a manifest for go-containerregistry.
type raw struct{ oci.Blob }

// RawManifest implements remote.Taggable.
func (r raw) RawManifest() ([]byte, error) { return r.Content, nil }

// MediaType implements remote.Taggable.
func (r raw) MediaType() (types.MediaType, error) { return types.MediaType(r.Blob.MediaType), nil }

// Progress is called with the number of bytes that were read since it was called before. It must be safe for concurrent use.
type Progress func(n int64)

// counted reports what is read.
type counted struct {
	io.ReadCloser

	progress Progress
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.progress != nil {
		c.progress(int64(n))
	}
	return n, err
}

// Counted reports the bytes that are read.
func Counted(r io.ReadCloser, progress Progress) io.ReadCloser { return &counted{r, progress} }

// Plan is what a copy of an artifact writes.
type Plan struct {
	Top oci.Blob
	// Manifests are those of an index, and those of referrers. The order is that of writing.
	Manifests []oci.Blob
	// Blobs are configurations and layers, without repetitions.
	Blobs []oci.Descriptor
	// Referrers is the number of referrers.
	Referrers int
}

// Bytes is the size of all blobs.
func (p *Plan) Bytes() (n int64) {
	for i := range p.Blobs {
		n += p.Blobs[i].Size
	}
	return n
}

// PlanCopy reads the manifests of an artifact. With referrers, it reads those of signatures and attestations too.
func (r *Repository) PlanCopy(ctx context.Context, referrers bool) (*Plan, error) {
	top, b, err := r.Top(ctx)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Top: b}
	seen := map[digest.Digest]bool{}
	add := func(all ...oci.Descriptor) {
		for _, d := range all {
			if !seen[d.Digest] {
				seen[d.Digest] = true
				plan.Blobs = append(plan.Blobs, d)
			}
		}
	}
	subjects := []digest.Digest{b.Digest}
	if top.Manifest != nil {
		add(blobsOf(top.Manifest)...)
	}
	for i := range top.Variants {
		m, content, err := r.Manifest(ctx, &top.Variants[i])
		if err != nil {
			return nil, err
		}
		add(blobsOf(m)...)
		content.MediaType = spec.MediaTypeImageManifest
		plan.Manifests = append(plan.Manifests, content)
		subjects = append(subjects, content.Digest)
	}
	if !referrers {
		return plan, nil
	}
	for _, subject := range subjects {
		found, err := r.Referrers(ctx, subject, "")
		if err != nil {
			return nil, err
		}
		for i := range found {
			content, blobs, err := r.referrerOf(ctx, &found[i], subject)
			if err != nil {
				return nil, err
			}
			add(blobs...)
			plan.Manifests = append(plan.Manifests, content)
			plan.Referrers++
		}
	}
	return plan, nil
}

// referrerOf reads a manifest that refers to another one, and lists its blobs.
func (r *Repository) referrerOf(ctx context.Context, d *oci.Descriptor, subject digest.Digest) (oci.Blob, []oci.Descriptor, error) {
	not := func(reason oci.Reason, message string) error {
		return r.described(ctx, "reading the referrer "+d.Digest.String(), &oci.Rejection{Reason: reason, Message: message})
	}
	content, err := r.manifest(ctx, d)
	if err != nil {
		return oci.Blob{}, nil, err
	}
	var m spec.Manifest
	if err := json.Unmarshal(content.Content, &m); err != nil || m.MediaType != spec.MediaTypeImageManifest || m.Subject == nil || m.Subject.Digest != subject {
		return oci.Blob{}, nil, not(oci.WrongType, "it is not a manifest that refers to the artifact")
	}
	blobs := slices.Concat(m.Layers, []oci.Descriptor{m.Config})
	for i := range blobs {
		if b := &blobs[i]; b.Digest.Validate() != nil || b.Size < 0 || b.Size > maxReferrerBlob || len(b.URLs) > 0 {
			return oci.Blob{}, nil, not(oci.InvalidDescriptor, "a descriptor of it is not valid")
		}
	}
	content.MediaType = spec.MediaTypeImageManifest
	return content, blobs, nil
}

// maxReferrerBlob bounds a blob of a referrer.
const maxReferrerBlob = 64 << 20

func blobsOf(m *oci.Manifest) []oci.Descriptor {
	all := []oci.Descriptor{m.Config}
	for i := range m.Disks {
		all = append(all, m.Disks[i].Descriptor)
	}
	if m.OVA != nil {
		all = append(all, m.OVA.Descriptor)
	}
	return all
}

// Copy writes what a plan has into another repository, byte by byte: no layer is decompressed. The tag is written last.
func (r *Repository) Copy(ctx context.Context, plan *Plan, to *Writer, progress Progress) error {
	for i := range plan.Blobs {
		d := &plan.Blobs[i]
		read := int64(0)
		open := func() (io.ReadCloser, error) {
			return Counted(r.Stream(ctx, d, 0), func(n int64) { read += n; progress(n) }), nil
		}
		if err := to.Upload(ctx, d, open, &r.Reference); err != nil {
			return err
		}
		progress(d.Size - read) // what the repository had already
	}
	for i := range plan.Manifests[:len(plan.Manifests)-plan.Referrers] {
		if err := to.Put(ctx, plan.Manifests[i]); err != nil {
			return err
		}
	}
	if plan.Referrers > 0 { // their subject must be there; the tag comes last
		if err := to.Put(ctx, plan.Top); err != nil {
			return err
		}
		for _, b := range plan.Manifests[len(plan.Manifests)-plan.Referrers:] {
			if err := to.Put(ctx, b); err != nil {
				return err
			}
		}
	}
	return to.Tag(ctx, plan.Top)
}
