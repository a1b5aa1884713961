package artifacts

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/signatures"
)

// Verification has the flags that require a signature.
type Verification struct {
	keys                       []string
	identity, issuer, rootFile string

	authority *signatures.Authority
}

// AddFlags adds the flags.
func (v *Verification) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&v.keys, "key", nil, "`FILE` with a public key in PEM, such as cosign.pub: the artifact must have a signature by it. Repeat the flag to accept one of several keys")
	flags.StringVar(&v.identity, "certificate-identity", "", "Email address or URI of the signer: the artifact must have a signature by this identity; with --certificate-oidc-issuer and --trusted-root")
	flags.StringVar(&v.issuer, "certificate-oidc-issuer", "", "URL of the OpenID Connect provider of --certificate-identity")
	flags.StringVar(&v.rootFile, "trusted-root", "", "`FILE` with the trusted root of Sigstore, trusted_root.json; it is not read from a server")
}

// prepare reads the keys or the trusted root. Call it before the first connection.
func (v *Verification) prepare() error {
	keyless := v.identity != "" || v.issuer != "" || v.rootFile != ""
	switch {
	case len(v.keys) > 0 && keyless:
		return options.Usagef("--key cannot be combined with --certificate-identity, --certificate-oidc-issuer and --trusted-root")
	case keyless && (v.identity == "" || v.issuer == "" || v.rootFile == ""):
		return options.Usagef("--certificate-identity, --certificate-oidc-issuer and --trusted-root belong together")
	case keyless:
		content, err := readFile(v.rootFile, signatures.MaxTrustedRoot)
		if err != nil {
			return fmt.Errorf("--trusted-root: %w", err)
		}
		if v.authority, err = signatures.Identities([]signatures.Identity{{Subject: v.identity, Issuer: v.issuer}}, content); err != nil {
			return options.Usagef("--trusted-root: %s: %w", v.rootFile, err)
		}
	case len(v.keys) > 0:
		keys := make([]signatures.Key, len(v.keys))
		for i, name := range v.keys {
			content, err := readFile(name, signatures.MaxKey)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			keys[i] = signatures.Key{Name: name, PEM: content}
		}
		var err error
		if v.authority, err = signatures.Keys(keys); err != nil {
			return options.Usagef("--key: %w", err)
		}
	}
	return nil
}

// readFile reads a file, and not much more than the limit of it. The reader of the content rejects what is larger.
func readFile(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// verify requires a valid signature of a manifest, if the flags require one. It returns a line about it.
func (v *Verification) verify(ctx context.Context, repository *artifacts.Repository, manifest []byte) (string, error) {
	if v.authority == nil {
		return "", nil
	}
	signer, err := v.authority.Artifact(ctx, repository, manifest)
	if err != nil {
		return "", fmt.Errorf("%s: %w", repository.String(), err)
	}
	return "signed by: " + signer + "\n", nil
}
