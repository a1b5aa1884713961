package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// writeInstructions writes how to install the release: with the commands that `make release` prints.
func (b *build) writeInstructions(context.Context) error {
	p := platform{"linux", b.architectures()[0]}
	archive := b.archive(clients[0], p)
	plain, insecure := "", ""
	if isLoopback(b.repository) {
		plain, insecure = " --plain-http", " --allow-http-registry"
	}
	text := fmt.Sprintf(`# Install Virtward %[1]s

You need Kubernetes 1.32 or later, KubeVirt, Helm 4 and kubectl. You do not need Go.

    curl -fsSL %[2]s/%[3]s | tar -xz -C /usr/local/bin kubectl-virtward
    helm install virtward oci://%[4]s/charts/virtward --version %[5]s --namespace virtward-system --create-namespace --wait%[6]s
    kubectl virtward status

## Verify before

[cosign](https://docs.sigstore.dev/cosign/) verifies the signatures of the archive and of the chart, which names the images by their
digests:

    curl -fsSLO %[2]s/%[3]s
    curl -fsSLO %[2]s/%[3]s.sigstore.json
    cosign verify-blob %[8]s --bundle %[3]s.sigstore.json %[3]s
    cosign verify %[8]s%[7]s %[4]s/charts/virtward:%[5]s

Without cosign, compare the digests with those of %[9]s, and read %[9]s from a source that you trust:

    curl -fsSLO %[2]s/%[9]s
    sha256sum --check --ignore-missing %[9]s

## Without Helm

    kubectl apply --server-side --filename %[2]s/%[10]s
`, b.version, b.url, archive, b.repository, b.chartVersion(), plain, insecure, b.identity(), checksumsFile, bundleFile)
	return os.WriteFile(b.file(instructionsFile), []byte(text), 0o644)
}

// identity are the flags of cosign that say whose signature is expected.
func (b *build) identity() string {
	if strings.HasPrefix(b.builder, "https://github.com/") {
		return "--certificate-identity " + b.builder + " --certificate-oidc-issuer https://token.actions.githubusercontent.com"
	}
	return "--insecure-ignore-tlog --key " + publicKeyFile
}

// publicKeyFile is the key of a release that is signed with a key. tools/signing writes it.
const publicKeyFile = "cosign.pub"

// isLoopback reports whether a registry is on this machine, and so without TLS.
func isLoopback(repository string) bool {
	host, _, _ := strings.Cut(repository, "/")
	host, _, _ = strings.Cut(host, ":")
	return host == "localhost" || strings.HasPrefix(host, "127.")
}
