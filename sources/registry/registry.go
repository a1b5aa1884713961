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
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

// Limits of a read.
const (
	// MaxBody bounds each answer of a registry, in bytes. An index of ten architectures with attestations has about 20 KiB.
	MaxBody = 256 << 10
	// MaxEntries bounds the images of an index.
	MaxEntries = 1000
	// MaxArchitectures bounds the architectures of an image, and its variants.
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

// architecturePattern is what an architecture or a variant can be. Others are not shown to users.
var architecturePattern = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// Contents is what a registry has for an image, in alphabetical order.
type Contents struct {
	// Architectures are those that CDI imports. Variants are the platforms with a variant, such as arm64/v8, also those that CDI
	// does not import.
	Architectures, Variants []string
}

// Read reads what a registry has for the image of a URL with the scheme docker. The context bounds the time. The errors are
// *source.Error.
func Read(ctx context.Context, text string, options *web.Options) (Contents, error) {
	reference, err := parse(text, options.Insecure)
	if err != nil {
		return Contents{}, err
	}
	direct, err := web.Transport(options)
	if err != nil {
		return Contents{}, err //nolint:wrapcheck // it is an Error of the source
	}
	defer direct.CloseIdleConnections()
	found, err := read(ctx, reference, options, &guard{RoundTripper: Permitted(direct, options, Values)})
	if err != nil {
		return Contents{}, Described(ctx, err, options.Sources)
	}
	return found, nil
}

// parse reads a URL as CDI does.
func parse(text string, insecure bool) (name.Reference, error) {
	invalid := func(why string) error {
		return &web.Error{Reason: ReasonInvalid, Message: "the URL of the image: " + why, Permanent: true}
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

func read(ctx context.Context, reference name.Reference, options *web.Options, guarded http.RoundTripper) (Contents, error) {
	credentials := authn.Anonymous
	if options.User != "" || options.Password != "" {
		credentials = authn.FromConfig(authn.AuthConfig{Username: options.User, Password: options.Password})
	}
	puller, err := remote.NewPuller(remote.WithTransport(guarded), remote.WithAuth(credentials), remote.WithContext(ctx), remote.WithUserAgent("virtward"),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes())
	if err != nil {
		return Contents{}, err
	}
	manifest, err := puller.Get(ctx, reference)
	if err != nil {
		return Contents{}, err
	}
	if index, err := v1.ParseIndexManifest(bytes.NewReader(manifest.Manifest)); err == nil && len(index.Manifests) > 0 {
		return ofIndex(index)
	}
	single, err := v1.ParseManifest(bytes.NewReader(manifest.Manifest))
	if err != nil || single.Config.Digest.Hex == "" {
		return Contents{}, &web.Error{Reason: ReasonInvalid, Message: "the manifest is neither an index nor an image"}
	}
	blob, err := puller.Layer(ctx, reference.Context().Digest(single.Config.Digest.String()))
	if err != nil {
		return Contents{}, err
	}
	return ofConfig(blob)
}

// ofIndex returns what an index has. It names attestations as unknown.
func ofIndex(index *v1.IndexManifest) (Contents, error) {
	if len(index.Manifests) > MaxEntries {
		return Contents{}, &web.Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("the index has more than %d images", MaxEntries)}
	}
	var found []goldenimages.Platform
	for i := range index.Manifests {
		if p := index.Manifests[i].Platform; p != nil && p.OS == linux { // CDI requests Linux
			found = append(found, platformOf(p.Architecture, p.Variant))
		}
	}
	return contentsOf(found, goldenimages.Platform.ImportedByCDI)
}

// platformOf returns a platform in lower case.
func platformOf(architecture, variant string) goldenimages.Platform {
	return goldenimages.Platform{Architecture: strings.ToLower(architecture), Variant: strings.ToLower(variant)}
}

// ofConfig is the architecture of an image that is in no index. CDI imports it for any architecture.
func ofConfig(blob v1.Layer) (Contents, error) {
	reader, err := blob.Compressed()
	if err != nil {
		return Contents{}, err //nolint:wrapcheck // the caller describes it
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		return Contents{}, err //nolint:wrapcheck // the caller describes it
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return Contents{}, &web.Error{Reason: ReasonInvalid, Message: "the configuration of the image cannot be parsed"}
	}
	return contentsOf([]goldenimages.Platform{platformOf(config.Architecture, config.Variant)}, func(goldenimages.Platform) bool { return true })
}

// contentsOf returns the architectures of the platforms that are imported, and the platforms with a variant.
func contentsOf(found []goldenimages.Platform, imported func(goldenimages.Platform) bool) (c Contents, err error) {
	for _, p := range found {
		switch {
		case p.Architecture == "unknown" || !architecturePattern.MatchString(p.Architecture):
			continue
		case imported(p):
			c.Architectures = append(c.Architectures, p.Architecture)
		}
		if architecturePattern.MatchString(p.Variant) {
			c.Variants = append(c.Variants, p.String())
		}
	}
	for _, names := range []*[]string{&c.Architectures, &c.Variants} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	switch {
	case len(c.Architectures) == 0:
		return Contents{}, &web.Error{Reason: ReasonNoArchitecture, Message: "the manifest has no image of Linux with an architecture"}
	case len(c.Architectures) > MaxArchitectures || len(c.Variants) > MaxArchitectures:
		return Contents{}, &web.Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("the index has more than %d architectures or variants", MaxArchitectures)}
	}
	return c, nil
}

// Values are the chart's values with the hosts and networks of registries, which messages name.
const Values = "goldenImages.registries"

// Described is the error of a request to a registry, for the user. It names no address.
func Described(ctx context.Context, err error, permitted *sources.Sources) *web.Error {
	var known *web.Error
	var answer *transport.Error
	var address *url.Error
	var network net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate): // an attempt without TLS can follow
		return web.Described(ctx, certificate, permitted)
	case errors.As(err, &known):
		return known
	case errors.Is(err, sources.ErrAddress): // like a name that does not exist
		return web.Described(ctx, err, permitted)
	case strings.Contains(err.Error(), "www-authenticate"), strings.Contains(err.Error(), "link-local"): // checks of the library
		return &web.Error{Reason: web.ReasonNotPermitted, Message: "the registry names a token server, or redirects to a server, that is not permitted"}
	case errors.As(err, &answer):
		return web.Answered(answer.StatusCode)
	case errors.As(err, &address), errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), ctx.Err() != nil:
		return web.Described(ctx, err, permitted)
	}
	return &web.Error{Reason: ReasonInvalid, Message: "the answer of the registry is not valid"}
}
