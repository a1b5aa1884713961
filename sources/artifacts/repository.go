package artifacts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/registry"
	"github.com/virtward/virtward/sources/web"
)

// Limits of a repository.
const (
	// MaxTags bounds the tags that are listed, MaxReferrers those that refer to an artifact.
	MaxTags      = 1000
	MaxReferrers = 100
	// maxAnswer bounds a manifest, and an answer with tags or referrers, in bytes. MaxGuarded bounds them in a process that reads for
	// users: 256 layers have about 100 KiB.
	maxAnswer  = oci.MaxManifest
	MaxGuarded = 256 << 10
	// maxError bounds what is read of an answer that is an error.
	maxError = 8 << 10
	// defaultStall is the time without a byte after which a connection is given up.
	defaultStall = time.Minute
)

// Options are how a registry is connected to.
type Options struct {
	// Transport connects. It must bound the time of connections and of headers.
	Transport http.RoundTripper
	// Keychain has the credentials of registries; nil for none.
	Keychain authn.Keychain
	// Insecure permits connections without TLS.
	Insecure bool
	// MaxAnswer bounds a manifest, and an answer with tags or referrers, in bytes; zero for 1 MiB.
	MaxAnswer int64
	// Stall is the time without a byte after which a connection is given up; zero for a minute.
	Stall time.Duration
	// Pause is the time before the first attempt to continue a connection; zero for a second. Each further one doubles it.
	Pause time.Duration
	// Describe changes errors of requests, so that they name no address; nil to keep them.
	Describe func(ctx context.Context, err error) error
}

// Guarded returns options for a process that reads for users: it connects to permitted servers only, and only reads. The values are
// those of the chart with the hosts, which messages name. The function closes idle connections.
func Guarded(options *web.Options, values string) (Options, func(), error) {
	direct, err := web.Transport(options)
	if err != nil {
		return Options{}, nil, err //nolint:wrapcheck // it is an Error of the source
	}
	o := Options{
		Transport: registry.Permitted(direct, options, values), Insecure: options.Insecure, MaxAnswer: MaxGuarded, Stall: options.Stall, Pause: options.Pause,
		Describe: func(ctx context.Context, err error) error { return registry.Described(ctx, err, options.Sources) },
	}
	if options.User != "" || options.Password != "" {
		o.Keychain = Credentials(options.User, options.Password)
	}
	return o, direct.CloseIdleConnections, nil
}

// Credentials is a keychain with the same credentials for each registry.
func Credentials(user, password string) authn.Keychain {
	return fixed{authn.FromConfig(authn.AuthConfig{Username: user, Password: password})}
}

type fixed struct{ authn.Authenticator }

// Resolve implements authn.Keychain.
func (f fixed) Resolve(authn.Resource) (authn.Authenticator, error) { return f.Authenticator, nil }

// Repository is a repository of a registry. Create it with Open. It is safe for concurrent use.
type Repository struct {
	Reference

	options Options
	named   name.Reference
	auth    authn.Authenticator
	client  *http.Client
}

// Open connects to the registry of a reference, to read.
func Open(ctx context.Context, reference Reference, options Options) (*Repository, error) {
	named, err := reference.named(options.Insecure)
	if err != nil {
		return nil, err
	}
	r := &Repository{Reference: reference, options: options, named: named, auth: authn.Anonymous}
	if options.Keychain != nil {
		if r.auth, err = authn.Resolve(ctx, options.Keychain, named.Context()); err != nil {
			return nil, fmt.Errorf("reading the credentials of %s: %w", reference.Registry, err)
		}
	}
	authenticated, err := transport.NewWithContext(ctx, named.Context().Registry, r.auth, transport.NewUserAgent(options.Transport, "virtward"), []string{named.Context().Scope(transport.PullScope)})
	if err != nil {
		return nil, r.described(ctx, "connecting", err)
	}
	r.client = &http.Client{Transport: authenticated, CheckRedirect: follow}
	return r, nil
}

// follow permits some redirects: registries keep blobs on other servers.
func follow(request *http.Request, via []*http.Request) error {
	switch {
	case len(via) > web.MaxRedirects:
		return &web.Error{Reason: web.ReasonRedirects, Message: fmt.Sprintf("the registry redirects more than %d times", web.MaxRedirects)}
	case via[len(via)-1].URL.Scheme == "https" && request.URL.Scheme != "https":
		return &web.Error{Reason: web.ReasonRedirects, Message: "the registry redirects from https to http"}
	}
	request.Header.Del("Referer")
	return nil
}

// described says what was done.
func (r *Repository) described(ctx context.Context, doing string, err error) error {
	var known *oci.Rejection
	if r.options.Describe != nil && !errors.As(err, &known) {
		err = r.options.Describe(ctx, err)
	}
	return fmt.Errorf("%s: %s: %w", r.Name, doing, err)
}

// NotFound reports whether a registry answered that it has no such artifact.
func NotFound(err error) bool {
	var answer *transport.Error
	var known *web.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound || errors.As(err, &known) && known.Reason == web.ReasonNotFound
}

// get requests a path of the repository. The caller closes the body. The statuses are permitted ones.
func (r *Repository) get(ctx context.Context, path, query string, header http.Header, statuses ...int) (*http.Response, error) {
	context := r.named.Context()
	u := url.URL{Scheme: context.Scheme(), Host: context.RegistryStr(), Path: "/v2/" + context.RepositoryStr() + "/" + path, RawQuery: query}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	body := response.Body
	response.Body = &limited{body, maxError} // an error is read into a message
	if err := transport.CheckError(response, statuses...); err != nil {
		_ = body.Close()
		return nil, err
	}
	response.Body = body
	return response, nil
}

// limited is a body that ends after some bytes.
type limited struct {
	io.ReadCloser

	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, io.EOF
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// small reads an answer of at most MaxAnswer bytes, in the time of a stall. It returns whether others follow.
func (r *Repository) small(ctx context.Context, path, query, accept string) (content []byte, follows bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.stall())
	defer cancel()
	header := http.Header{}
	if accept != "" {
		header.Set("Accept", accept)
	}
	response, err := r.get(ctx, path, query, header, http.StatusOK)
	if err != nil {
		return nil, false, err
	}
	defer response.Body.Close()
	most := cmp.Or(r.options.MaxAnswer, maxAnswer)
	content, err = io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(content)) > most {
		err = &oci.Rejection{Reason: oci.LimitExceeded, Message: fmt.Sprintf("the answer of the registry has more than %d bytes", most)}
	}
	return content, response.Header.Get("Link") != "", err
}

func (r *Repository) stall() time.Duration {
	if r.options.Stall > 0 {
		return r.options.Stall
	}
	return defaultStall
}

// manifests are the media types that are read.
const manifests = v1.MediaTypeImageIndex + ", " + v1.MediaTypeImageManifest

// Top reads what the tag or the digest of the reference names. The descriptor has its digest.
func (r *Repository) Top(ctx context.Context) (*oci.Top, oci.Blob, error) {
	const doing = "reading the manifest"
	content, _, err := r.small(ctx, "manifests/"+r.identifier(), "", manifests)
	if err != nil {
		return nil, oci.Blob{}, r.described(ctx, doing, err)
	}
	b := oci.Blob{Descriptor: oci.Descriptor{Digest: digest.FromBytes(content), Size: int64(len(content)), MediaType: v1.MediaTypeImageIndex}, Content: content}
	if r.Digest != "" && b.Digest.String() != r.Digest {
		return nil, oci.Blob{}, r.described(ctx, doing, &oci.Rejection{Reason: oci.DigestMismatch, Message: fmt.Sprintf("the registry sends a manifest with the digest %s", b.Digest)})
	}
	top, err := oci.ParseTop(content)
	if err != nil {
		return nil, oci.Blob{}, r.described(ctx, doing, err)
	}
	if top.Manifest != nil {
		b.MediaType = v1.MediaTypeImageManifest
	}
	return top, b, nil
}

// Tagged reads what a tag of the same repository names.
func (r *Repository) Tagged(ctx context.Context, tag string) (*oci.Top, oci.Blob, error) {
	other := *r
	other.Tag, other.Digest = tag, ""
	return other.Top(ctx)
}

// Manifest reads the manifest of a variant.
func (r *Repository) Manifest(ctx context.Context, variant *oci.Variant) (*oci.Manifest, oci.Blob, error) {
	b, err := r.manifest(ctx, &variant.Descriptor)
	if err != nil {
		return nil, b, err
	}
	m, err := oci.ParseManifest(b.Content)
	if err != nil {
		return nil, b, r.described(ctx, "reading the manifest of "+variant.Platform, err)
	}
	return m, b, nil
}

// manifest reads a manifest of a descriptor.
func (r *Repository) manifest(ctx context.Context, d *oci.Descriptor) (oci.Blob, error) {
	content, _, err := r.small(ctx, "manifests/"+d.Digest.String(), "", manifests)
	if err == nil {
		content, err = io.ReadAll(oci.Verified(bytes.NewReader(content), d))
	}
	if err != nil {
		return oci.Blob{}, r.described(ctx, "reading the manifest "+d.Digest.String(), err)
	}
	return oci.Blob{Descriptor: *d, Content: content}, nil
}

// Blob reads a blob of at most limit bytes into memory.
func (r *Repository) Blob(ctx context.Context, d *oci.Descriptor, limit int64) ([]byte, error) {
	doing := "reading the blob " + d.Digest.String()
	if d.Size < 0 || d.Size > limit {
		return nil, r.described(ctx, doing, &oci.Rejection{Reason: oci.LimitExceeded, Message: fmt.Sprintf("it has %d bytes: at most %d", d.Size, limit)})
	}
	stream := r.Stream(ctx, d, 0)
	defer stream.Close()
	content, err := io.ReadAll(oci.Verified(stream, d))
	if err != nil {
		return nil, r.described(ctx, doing, err)
	}
	return content, nil
}

// Object reads the configuration of a manifest.
func (r *Repository) Object(ctx context.Context, m *oci.Manifest) (*oci.Object, error) {
	content, err := r.Blob(ctx, &m.Config, oci.MaxConfig)
	if err != nil {
		return nil, err
	}
	o, err := oci.ParseObject(m.Kind, content)
	if err != nil {
		return nil, r.described(ctx, "reading the configuration", err)
	}
	return o, nil
}

// Tags lists the tags of the repository, at most MaxTags. More tells that there are others.
func (r *Repository) Tags(ctx context.Context) (tags []string, more bool, err error) {
	last := ""
	for {
		query := url.Values{"n": {strconv.Itoa(MaxTags)}}
		if last != "" {
			query.Set("last", last)
		}
		content, follows, err := r.small(ctx, "tags/list", query.Encode(), "")
		if err != nil {
			return nil, false, r.described(ctx, "listing the tags", err)
		}
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := json.Unmarshal(content, &page); err != nil {
			return nil, false, r.described(ctx, "listing the tags", errors.New("the answer is not valid JSON"))
		}
		tags = append(tags, page.Tags...)
		switch {
		case len(tags) > MaxTags:
			return tags[:MaxTags], true, nil
		case len(page.Tags) == 0 || !follows || page.Tags[len(page.Tags)-1] == last:
			return tags, false, nil
		}
		last = page.Tags[len(page.Tags)-1]
	}
}

// Referrers lists the manifests that refer to a digest, such as signatures. Without an artifact type, all are listed. Not all
// registries know the types: those that have none are listed too, so compare the type of the manifest.
func (r *Repository) Referrers(ctx context.Context, of digest.Digest, artifactType string) ([]oci.Descriptor, error) {
	const doing = "listing the referrers"
	query := ""
	if artifactType != "" {
		query = url.Values{"artifactType": {artifactType}}.Encode()
	}
	content, _, err := r.small(ctx, "referrers/"+of.String(), query, v1.MediaTypeImageIndex)
	if noReferrers(err) { // the registry has no such list, but can have an index with a tag
		content, _, err = r.small(ctx, "manifests/"+strings.Replace(of.String(), ":", "-", 1), "", v1.MediaTypeImageIndex)
		var answer *transport.Error
		if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
			return nil, nil
		}
	}
	if err != nil {
		return nil, r.described(ctx, doing, err)
	}
	var index v1.Index
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, r.described(ctx, doing, errors.New("the answer is not valid JSON"))
	}
	var found []oci.Descriptor
	for i := range index.Manifests {
		d := &index.Manifests[i]
		if artifactType != "" && d.ArtifactType != artifactType && d.ArtifactType != "" && d.ArtifactType != v1.MediaTypeEmptyJSON {
			continue
		}
		if d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256 || d.Size <= 0 || d.Size > oci.MaxManifest {
			return nil, r.described(ctx, doing, &oci.Rejection{Reason: oci.InvalidDescriptor, Message: fmt.Sprintf("manifests[%d] is not valid", i)})
		}
		if found = append(found, *d); len(found) > MaxReferrers {
			return nil, r.described(ctx, doing, &oci.Rejection{Reason: oci.LimitExceeded, Message: fmt.Sprintf("there are more than %d", MaxReferrers)})
		}
	}
	return found, nil
}

// noReferrers reports whether an answer is that of a registry without lists of referrers.
func noReferrers(err error) bool {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return false
}

// Referrer reads a manifest that refers to an artifact, and its layers of at most limit bytes each.
func (r *Repository) Referrer(ctx context.Context, d *oci.Descriptor, limit int64) (*v1.Manifest, [][]byte, error) {
	b, err := r.manifest(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	var m v1.Manifest
	if err := json.Unmarshal(b.Content, &m); err != nil || len(m.Layers) > maxReferrerLayers {
		return nil, nil, r.described(ctx, "reading the referrer "+d.Digest.String(), &oci.Rejection{Reason: oci.WrongType, Message: "it is not a manifest with a few layers"})
	}
	var layers [][]byte
	for i := range m.Layers {
		content, err := r.Blob(ctx, &m.Layers[i], limit)
		if err != nil {
			return nil, nil, err
		}
		layers = append(layers, content)
	}
	return &m, layers, nil
}

// maxReferrerLayers bounds the layers of a referrer.
const maxReferrerLayers = 16
