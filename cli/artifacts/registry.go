package artifacts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/web"
)

// Registry has the flags of connections to registries.
type Registry struct {
	user, authority     string
	prefix              string
	password            bool
	plain, unverified   bool
	in                  io.Reader
	timeout, idle, wait time.Duration
}

// AddFlags adds the flags.
func (r *Registry) AddFlags(cmd *cobra.Command, program options.Program) {
	r.addFlags(cmd, program, "")
	cmd.Flags().Lookup("username").Shorthand = "u"
}

// AddRegistryFlags adds the flags to a command that also has those of a cluster: their names begin with registry-.
func (r *Registry) AddRegistryFlags(cmd *cobra.Command, program options.Program) {
	r.addFlags(cmd, program, "registry-")
}

func (r *Registry) addFlags(cmd *cobra.Command, program options.Program, prefix string) {
	r.in, r.timeout, r.idle, r.prefix = program.Streams.In, 30*time.Second, time.Minute, prefix
	flags := cmd.Flags()
	flags.StringVar(&r.user, prefix+"username", "", "User of the registry, instead of the credentials of docker's configuration; with --"+prefix+"password-stdin")
	flags.BoolVar(&r.password, prefix+"password-stdin", false, "Read the password of --"+prefix+"username from standard input")
	flags.StringVar(&r.authority, prefix+"ca-file", "", "`FILE` with certificate authorities of the registry in PEM, beside those of the system")
	flags.BoolVar(&r.plain, prefix+"plain-http", false, "Connect to the registry without TLS")
	flags.BoolVar(&r.unverified, prefix+"insecure-skip-tls-verify", false, "Do not verify the certificate of the registry")
}

// Writer returns a writer for a reference with a tag or a digest. It connects when it writes.
func (r *Registry) Writer(ctx context.Context, text string) (*artifacts.Writer, error) {
	reference, err := referenceOf(text, true)
	if err != nil {
		return nil, err
	}
	return r.writer(ctx, reference)
}

func (r *Registry) writer(ctx context.Context, reference artifacts.Reference) (*artifacts.Writer, error) {
	connection, err := r.options()
	if err != nil {
		return nil, err
	}
	return artifacts.NewWriter(ctx, reference, connection) //nolint:wrapcheck // it names the repository
}

// maxPassword bounds a password, in bytes.
const maxPassword = 64 << 10

// options are those of the connections.
func (r *Registry) options() (artifacts.Options, error) {
	if (r.user != "") != r.password {
		return artifacts.Options{}, options.Usagef("--%susername and --%[1]spassword-stdin belong together", r.prefix)
	}
	o := artifacts.Options{Keychain: authn.DefaultKeychain, Insecure: r.plain, Stall: r.idle, Pause: r.wait}
	if r.user != "" {
		password, err := io.ReadAll(io.LimitReader(r.in, maxPassword))
		if err != nil {
			return o, fmt.Errorf("reading the password: %w", err)
		}
		o.Keychain = artifacts.Credentials(r.user, strings.TrimRight(string(password), "\r\n"))
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: r.unverified} //nolint:gosec // the user says so
	if r.authority != "" {
		content, err := os.ReadFile(r.authority)
		if err != nil {
			return o, err
		}
		if settings.RootCAs, err = x509.SystemCertPool(); err != nil {
			settings.RootCAs = x509.NewCertPool()
		}
		if !settings.RootCAs.AppendCertsFromPEM(content) {
			return o, options.Usagef("--%sca-file: %s has no certificate in PEM", r.prefix, r.authority)
		}
	}
	o.Transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: r.timeout}).DialContext, TLSClientConfig: settings, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: r.timeout, ResponseHeaderTimeout: 5 * time.Minute, IdleConnTimeout: r.idle, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	return o, nil
}

// OVA returns the name and the content of the OVA that a reference names. The content is read by ranges, and is not compared with its digest.
func (r *Registry) OVA(ctx context.Context, text string) (name string, content *web.Blocks, err error) {
	connection, reference, err := r.source(text)
	if err != nil {
		return "", nil, err
	}
	repository, err := artifacts.Open(ctx, reference, connection)
	if err != nil {
		return "", nil, err //nolint:wrapcheck // it names the repository
	}
	top, _, err := repository.Top(ctx)
	switch {
	case err != nil:
		return "", nil, err //nolint:wrapcheck // as above
	case top.Manifest == nil || top.Manifest.OVA == nil:
		return "", nil, fmt.Errorf("%s: the artifact is a %s, not an OVA", reference.String(), top.Kind)
	}
	return top.Manifest.OVA.Name, repository.Random(ctx, &top.Manifest.OVA.Descriptor), nil
}

// referenceOf parses an argument. With an identifier, it must have a tag or a digest.
func referenceOf(text string, identifier bool) (artifacts.Reference, error) {
	reference, err := artifacts.ParseReference(text)
	switch {
	case err != nil:
		return reference, options.Usagef("%q: %w", text, err)
	case identifier && !reference.Named:
		return reference, options.Usagef("%q: name a tag or a digest, such as oci://quay.io/templates/fedora:42", text)
	case !identifier && reference.Named:
		return reference, options.Usagef("%q: name a repository, without a tag and without a digest", text)
	}
	return reference, nil
}
