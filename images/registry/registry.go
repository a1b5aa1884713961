package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/virtualimages"
	"github.com/virtward/virtward/virtualimages/source"
)

// Limits of a read.
const (
	// MaxBody bounds each answer of a registry, in bytes. An index of ten architectures with attestations has about 20 KiB.
	MaxBody = 256 << 10
	// MaxEntries bounds the images of an index.
	MaxEntries = 1000
	// MaxArchitectures bounds the architectures of an image.
	MaxArchitectures = 16
	// maxRequests bounds the requests of a read, with redirects and tokens.
	maxRequests = 20
)

// The reasons of errors, beside those of package source.
const (
	ReasonInvalid        = "ManifestInvalid"
	ReasonTooLarge       = "ManifestTooLarge"
	ReasonNoArchitecture = "NoArchitecture"
)

// linux is the operating system of images that CDI imports from an index.
const linux = "linux"

// architecturePattern is what an architecture can be. Others are not shown to users.
var architecturePattern = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// Architectures reads the architectures of the image of a URL with the scheme docker, in alphabetical order. The context
// bounds the time. The errors are *source.Error.
func Architectures(ctx context.Context, text string, options *source.Options) ([]string, error) {
	reference, err := parse(text, options.Insecure)
	if err != nil {
		return nil, err
	}
	direct, err := source.Transport(options)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is an Error of the source
	}
	defer direct.CloseIdleConnections()
	found, err := read(ctx, reference, options, &guard{RoundTripper: direct, options: options})
	if err != nil {
		return nil, described(ctx, err, options.Sources)
	}
	return found, nil
}

// parse reads a URL as CDI does.
func parse(text string, insecure bool) (name.Reference, error) {
	invalid := func(why string) error {
		return &source.Error{Reason: ReasonInvalid, Message: "the URL of the image: " + why, Permanent: true}
	}
	image, err := addresses.ParseImage(text)
	switch {
	case err != nil:
		return nil, invalid(err.Error())
	case image.Transport != addresses.TransportDocker:
		return nil, invalid("only docker:// can be read")
	}
	options := []name.Option{}
	if insecure {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(image.Canonical, options...)
	if err != nil {
		return nil, invalid("it names no image")
	}
	return reference, nil
}

// Insecure reports whether the registry of a URL is one of those that CDI connects to without verifying certificates.
func Insecure(text string, registries []string) bool {
	image, err := addresses.ParseImage(text)
	if err != nil {
		return false
	}
	written, _, _ := strings.Cut(strings.TrimPrefix(text, addresses.TransportDocker+"://"), "/")
	return slices.Contains(registries, image.Registry) || slices.Contains(registries, written)
}

// Host is the registry of a URL; empty without one.
func Host(text string) string {
	image, _ := addresses.ParseImage(text)
	return image.Registry
}

func read(ctx context.Context, reference name.Reference, options *source.Options, guarded http.RoundTripper) ([]string, error) {
	credentials := authn.Anonymous
	if options.User != "" || options.Password != "" {
		credentials = authn.FromConfig(authn.AuthConfig{Username: options.User, Password: options.Password})
	}
	puller, err := remote.NewPuller(remote.WithTransport(guarded), remote.WithAuth(credentials), remote.WithContext(ctx), remote.WithUserAgent("virtward"),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes())
	if err != nil {
		return nil, err
	}
	manifest, err := puller.Get(ctx, reference)
	if err != nil {
		return nil, err
	}
	if index, err := v1.ParseIndexManifest(bytes.NewReader(manifest.Manifest)); err == nil && len(index.Manifests) > 0 {
		return ofIndex(index)
	}
	single, err := v1.ParseManifest(bytes.NewReader(manifest.Manifest))
	if err != nil || single.Config.Digest.Hex == "" {
		return nil, &source.Error{Reason: ReasonInvalid, Message: "the manifest is neither an index nor an image"}
	}
	blob, err := puller.Layer(ctx, reference.Context().Digest(single.Config.Digest.String()))
	if err != nil {
		return nil, err
	}
	return ofConfig(blob)
}

// ofIndex are the architectures of an index. An index names attestations as unknown.
func ofIndex(index *v1.IndexManifest) ([]string, error) {
	if len(index.Manifests) > MaxEntries {
		return nil, &source.Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("the index has more than %d images", MaxEntries)}
	}
	var found []string
	for i := range index.Manifests {
		if p := index.Manifests[i].Platform; p != nil && imported(p) {
			found = append(found, p.Architecture)
		}
	}
	return listed(found)
}

// imported reports whether CDI finds an image of an index by its architecture: it requests Linux, and no variant
// but the first one of arm64.
func imported(p *v1.Platform) bool {
	return p.OS == linux && (p.Variant == "" || p.Architecture == "arm64" && p.Variant == "v8")
}

// ofConfig is the architecture of an image that is in no index. CDI imports it for any architecture.
func ofConfig(blob v1.Layer) ([]string, error) {
	reader, err := blob.Compressed()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller describes it
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller describes it
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, &source.Error{Reason: ReasonInvalid, Message: "the configuration of the image cannot be parsed"}
	}
	return listed([]string{config.Architecture})
}

func listed(found []string) ([]string, error) {
	for i := range found {
		found[i] = strings.ToLower(found[i])
	}
	found = slices.DeleteFunc(found, func(a string) bool { return a == "unknown" || !architecturePattern.MatchString(a) })
	slices.Sort(found)
	found = slices.Compact(found)
	switch {
	case len(found) == 0:
		return nil, &source.Error{Reason: ReasonNoArchitecture, Message: "the manifest has no image of Linux with an architecture"}
	case len(found) > MaxArchitectures:
		return nil, &source.Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("the index has more than %d architectures", MaxArchitectures)}
	}
	return found, nil
}

// Values are the chart's values with the hosts and networks of registries, which messages name.
const Values = "images.registries"

// described is an error for the user. It names no address.
func described(ctx context.Context, err error, sources *virtualimages.Sources) *source.Error {
	var known *source.Error
	var answer *transport.Error
	var address *url.Error
	var network net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate): // an attempt without TLS can follow
		return source.Described(ctx, certificate, sources)
	case errors.As(err, &known):
		return known
	case errors.Is(err, virtualimages.ErrAddress): // like a name that does not exist
		return source.Described(ctx, err, sources)
	case strings.Contains(err.Error(), "www-authenticate"), strings.Contains(err.Error(), "link-local"): // checks of the library
		return &source.Error{Reason: source.ReasonNotPermitted, Message: "the registry names a token server, or redirects to a server, that is not permitted"}
	case errors.As(err, &answer):
		return source.Answered(answer.StatusCode)
	case errors.As(err, &address), errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), ctx.Err() != nil:
		return source.Described(ctx, err, sources)
	}
	return &source.Error{Reason: ReasonInvalid, Message: "the answer of the registry is not valid"}
}
