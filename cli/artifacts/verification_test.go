package artifacts_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/virtward/virtward/cli/clitest"
	sign "github.com/virtward/virtward/sources/signatures/signaturestest"
)

// manifestOf is the index of the pushed template.
func (w *work) manifestOf(t *testing.T, tag string) []byte {
	t.Helper()
	response, err := http.Get("http://" + w.server.Host + "/v2/templates/web/manifests/" + tag)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || !json.Valid(content) {
		t.Fatal(err)
	}
	return content
}

// TestSigned: a signature is required before the first manifest of a variant, configuration or layer is read.
func TestSigned(t *testing.T) {
	w := newWork(t)
	key, foreign, authority := sign.NewKey(t), sign.NewKey(t), sign.NewAuthority(t)
	w.file(t, "cosign.pub", key.PEM(t))
	w.file(t, "foreign.pub", foreign.PEM(t))
	w.file(t, "root.json", authority.TrustedRoot(t, false))
	w.ok(t, both)
	index := w.manifestOf(t, "v1")
	repository := w.server.Host + "/templates/web"
	var bundles []string // what may be read before a signature is valid
	refer := func(bundle []byte) {
		t.Helper()
		bundles = append(bundles, digest.FromBytes(bundle).String())
		sign.Refer(t, repository, index, bundle)
	}
	const keyless = " --trusted-root DIR/root.json --certificate-oidc-issuer https://issuer.example.com --certificate-identity "
	denied := func(words, says string) {
		t.Helper()
		w.server.Requests()
		got := w.call(t, words)
		if got.Code == clitest.ExitOK || !strings.Contains(got.ErrOut, says) || got.Out != "" {
			t.Errorf("%s: %d %s%s", words, got.Code, got.Out, got.ErrOut)
		}
		if names := w.names(t, "to"); names != "" {
			t.Errorf("%s: the folder has %s", words, names)
		}
		for _, request := range w.server.Requests() {
			_, blob, _ := strings.Cut(request, "/blobs/")
			if blob != "" && !slices.Contains(bundles, blob) {
				t.Errorf("%s: %s", words, request)
			}
			if strings.HasPrefix(request, "PUT") || strings.HasPrefix(request, "POST") || strings.HasPrefix(request, "PATCH") {
				t.Errorf("%s: %s", words, request)
			}
		}
	}
	denied("pull REG/templates/web:v1 --platform amd64 --to DIR/to --key DIR/cosign.pub", "has no signature: one by key "+w.dir+"/cosign.pub is required")
	denied("copy REG/templates/web:v1 REG/mirror/web:v1 --key DIR/cosign.pub", "has no signature")

	refer(key.Bundle(t, sign.Statement(index, sign.SignPredicate)))
	denied("pull REG/templates/web:v1 --platform amd64 --to DIR/to --key DIR/foreign.pub", "has no valid signature by key")
	denied("copy REG/templates/web:v1 REG/mirror/web:v1 --key DIR/foreign.pub", "has no valid signature by key")
	denied("pull REG/templates/web:v1 --platform amd64 --to DIR/to"+keyless+"release@example.com", "has no valid signature by identity release@example.com of https://issuer.example.com")
	if got := w.ok(t, "pull REG/templates/web:v1 --platform amd64 --to DIR/by-key --key DIR/foreign.pub --key DIR/cosign.pub"); !strings.Contains(got.Out, "\nsigned by: key "+w.dir+"/cosign.pub\n") {
		t.Error(got.Out)
	}
	if got := w.ok(t, "copy REG/templates/web:v1 REG/mirror/web:v1 --referrers --key DIR/cosign.pub"); !strings.Contains(got.Out, "\nsigned by: key ") {
		t.Error(got.Out)
	}
	w.ok(t, "pull REG/mirror/web:v1 --platform arm64 --to DIR/mirrored --key DIR/cosign.pub")

	refer(authority.Bundle(t, "release@example.com", "https://issuer.example.com", sign.Statement(index, sign.SignPredicate), time.Now().Add(time.Minute), sign.Proven))
	if got := w.ok(t, "pull REG/templates/web:v1 --platform arm64 --to DIR/by-identity"+keyless+"release@example.com"); !strings.Contains(got.Out, "\nsigned by: identity release@example.com of https://issuer.example.com\n") {
		t.Error(got.Out)
	}
	denied("pull REG/templates/web:v1 --platform arm64 --to DIR/to"+keyless+"mallory@example.com", "has no valid signature by identity mallory@example.com")

	w.file(t, "arm.raw", w.logs) // another artifact gets the same tag
	w.ok(t, both)
	denied("pull REG/templates/web:v1 --platform amd64 --to DIR/to --key DIR/cosign.pub", "has no signature")
}

// TestVerificationFlags: flags that do not fit are errors before the first request.
func TestVerificationFlags(t *testing.T) {
	w := newWork(t)
	w.file(t, "cosign.pub", sign.NewKey(t).PEM(t))
	w.file(t, "none", nil)
	for words, says := range map[string]string{
		"--key DIR/cosign.pub --trusted-root DIR/none":                                                     "--key cannot be combined",
		"--certificate-identity a@example.com":                                                             "belong together",
		"--certificate-identity a@example.com --certificate-oidc-issuer https://a --trusted-root DIR/none": "the trusted root is not valid",
		"--certificate-identity a@example.com --certificate-oidc-issuer https://a --trusted-root DIR/no":   "--trusted-root: open",
		"--key DIR/none": "it has no public key",
		"--key DIR/no":   "--key: open",
	} {
		for _, command := range []string{"pull REG/templates/web:v1 --to DIR/to ", "copy REG/templates/web:v1 REG/templates/web:v2 "} {
			if got := w.call(t, command+words); got.Code == clitest.ExitOK || !strings.Contains(got.ErrOut, says) {
				t.Errorf("%s: %d %s", words, got.Code, got.ErrOut)
			}
		}
	}
	if requests := w.server.Requests(); len(requests) > 0 {
		t.Errorf("got %v", requests)
	}
}
