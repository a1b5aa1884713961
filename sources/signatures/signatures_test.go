package signatures_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/sources/signatures"
	sign "github.com/virtward/virtward/sources/signatures/signaturestest"
)

// manifest is what is signed. The registry does not have it: signatures are found by its digest.
var manifest = []byte(`{"schemaVersion":2}`)

const (
	subject = "release@example.com"
	issuer  = "https://issuer.example.com"
)

func keys(t *testing.T, all ...sign.Key) *signatures.Authority {
	t.Helper()
	named := make([]signatures.Key, len(all))
	for i, key := range all {
		named[i] = signatures.Key{Name: fmt.Sprintf("k%d.pub", i+1), PEM: key.PEM(t)}
	}
	a, err := signatures.Keys(named)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func identities(t *testing.T, trustedRoot []byte) *signatures.Authority {
	t.Helper()
	a, err := signatures.Identities([]signatures.Identity{{Subject: subject, Issuer: issuer}}, trustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// verify reads the signatures of a registry.
func verify(t *testing.T, server *artifactstest.Registry, a *signatures.Authority) (string, error) {
	t.Helper()
	reference, err := artifacts.ParseReference("oci://" + server.Host + "/templates/web:v1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := artifacts.Open(t.Context(), reference, artifacts.Options{Transport: http.DefaultTransport, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return a.Artifact(t.Context(), r, manifest)
}

// TestSignatures: each signature of the table is verified, or is rejected with the text of the table.
func TestSignatures(t *testing.T) {
	key, second, foreign := sign.NewKey(t), sign.NewKey(t), sign.NewKey(t)
	authority, impostor := sign.NewAuthority(t), sign.NewAuthority(t)
	byKey, byBoth, byIdentity := keys(t, key), keys(t, key, second), identities(t, authority.TrustedRoot(t, false))
	good, other := sign.Statement(manifest, sign.SignPredicate), sign.Statement([]byte("other"), sign.SignPredicate)
	in := time.Now().Add(time.Minute)
	payload := sign.Payload(manifest)
	bundle := func(content []byte) func(*testing.T, string) {
		return func(t *testing.T, repository string) { t.Helper(); sign.Refer(t, repository, manifest, content) }
	}
	tagged := func(payload []byte, annotations map[string]string) func(*testing.T, string) {
		return func(t *testing.T, repository string) {
			t.Helper()
			sign.Tag(t, repository, manifest, sign.Signed{Payload: payload, Annotations: annotations})
		}
	}
	without := func(all map[string]string, name string) map[string]string { delete(all, name); return all }
	const byName = "identity release@example.com of https://issuer.example.com"
	for _, c := range []struct {
		name  string
		by    *signatures.Authority
		write func(*testing.T, string)
		// signer is who signed it. Without one, the error has the text.
		signer, says string
	}{
		{"a key", byKey, bundle(key.Bundle(t, good)), "key k1.pub", ""},
		{"the second key", byBoth, bundle(second.Bundle(t, good)), "key k2.pub", ""},
		{"a key, with the tag", byKey, tagged(payload, key.Annotations(t, payload)), "key k1.pub", ""},
		{"an identity", byIdentity, bundle(authority.Bundle(t, subject, issuer, good, in, sign.Proven)), byName, ""},
		{"an identity, with the tag", byIdentity, tagged(payload, authority.Annotations(t, subject, issuer, payload, in)), byName, ""},
		{"after one that is not valid", byKey, func(t *testing.T, repository string) {
			t.Helper()
			bundle([]byte("{}"))(t, repository)
			sign.Tag(t, repository, manifest, sign.Signed{Payload: payload, Annotations: foreign.Annotations(t, payload)}, sign.Signed{Payload: payload, Annotations: key.Annotations(t, payload)})
		}, "key k1.pub", ""},

		{"none", byKey, func(*testing.T, string) {}, "", "has no signature: one by key k1.pub is required"},
		{"a wrong key", byKey, bundle(foreign.Bundle(t, good)), "", "1 signature is rejected: sha256:"},
		{"a wrong key, with the tag", byKey, tagged(payload, foreign.Annotations(t, payload)), "", "failed to verify signature"},
		{"another digest", byKey, bundle(key.Bundle(t, other)), "", "digest"},
		{"another digest, with the tag", byKey, tagged(sign.Payload([]byte("other")), key.Annotations(t, sign.Payload([]byte("other")))), "", "it signs another artifact: \"sha256:"},
		{"another payload", byKey, tagged(payload, key.Annotations(t, []byte("other"))), "", "failed to verify signature"},
		{"another type of payload", byKey, func(t *testing.T, repository string) {
			t.Helper()
			changed := bytes.Replace(payload, []byte("cosign container image signature"), []byte("atomic"), 1)
			tagged(changed, key.Annotations(t, changed))(t, repository)
		}, "", `the payload has the type "atomic"`},
		{"a statement that is no signature", byKey, bundle(key.Bundle(t, sign.Statement(manifest, "https://cosign.sigstore.dev/attestation/vuln/v1"))), "", "and no signature"},
		{"a statement of an identity that is no signature", byIdentity, bundle(authority.Bundle(t, subject, issuer, sign.Statement(manifest, "https://slsa.dev/provenance/v1"), in, sign.Proven)), "", "and no signature"},
		{"another subject", byIdentity, bundle(authority.Bundle(t, "mallory@example.com", issuer, good, in, sign.Proven)), "", "mallory@example.com"},
		{"another subject, with the tag", byIdentity, tagged(payload, authority.Annotations(t, "mallory@example.com", issuer, payload, in)), "", "mallory@example.com"},
		{"another issuer", byIdentity, bundle(authority.Bundle(t, subject, "https://other.example.com", good, in, sign.Proven)), "", "https://other.example.com"},
		{"another authority", byIdentity, bundle(impostor.Bundle(t, subject, issuer, good, in, sign.Proven)), "", "failed to verify log inclusion"},
		{"an expired certificate", byIdentity, bundle(authority.Bundle(t, subject, issuer, good, time.Now().Add(30*time.Minute), sign.Proven)), "", "outside certificate validity"},
		{"an expired certificate, with the tag", byIdentity, tagged(payload, authority.Annotations(t, subject, issuer, payload, time.Now().Add(30*time.Minute))), "", "outside certificate validity"},
		{"no proof of inclusion", byIdentity, bundle(authority.Bundle(t, subject, issuer, good, in, sign.Promised)), "", "inclusion proof missing"},
		{"no entry in a log", byIdentity, bundle(authority.Bundle(t, subject, issuer, good, in, sign.Missing)), "", "failed to verify log inclusion"},
		{"no entry in a log, with the tag", byIdentity, tagged(payload, without(authority.Annotations(t, subject, issuer, payload, in), "dev.sigstore.cosign/bundle")), "", "failed to verify log inclusion"},
		{"an entry of another signature", byIdentity, func(t *testing.T, repository string) {
			t.Helper()
			mixed := authority.Annotations(t, subject, issuer, payload, in)
			mixed["dev.sigstore.cosign/bundle"] = authority.Annotations(t, subject, issuer, payload, in)["dev.sigstore.cosign/bundle"]
			tagged(payload, mixed)(t, repository)
		}, "", "failed to verify log inclusion"},
		{"no certificate in the required logs", identities(t, authority.TrustedRoot(t, true)), bundle(authority.Bundle(t, subject, issuer, good, in, sign.Proven)), "", "signed certificate timestamp"},
		{"a key instead of an identity", byIdentity, bundle(key.Bundle(t, good)), "", "failed to verify log inclusion"},
		{"an identity instead of a key", byKey, bundle(authority.Bundle(t, subject, issuer, good, in, sign.Proven)), "", "expected key signature, not certificate"},
		{"a large bundle", byKey, bundle(bytes.Repeat([]byte(" "), artifacts.MaxBundle+1)), "", "at most 262144"},
		{"a large payload", byKey, tagged(bytes.Repeat([]byte(" "), artifacts.MaxPayload+1), nil), "", "at most 16384"},
		{"no bundle", byKey, bundle([]byte("<html>")), "", "the bundle is not valid"},
		{"a deep bundle", byKey, bundle(bytes.Repeat([]byte(`{"a":`), 20_000)), "", "the bundle is not valid"},
		{"no signature in the annotation", byKey, tagged(payload, map[string]string{"dev.cosignproject.cosign/signature": "?"}), "", "is not a signature in base64"},
		{"no entry in the annotation", byKey, tagged(payload, map[string]string{"dev.cosignproject.cosign/signature": "AAAA", "dev.sigstore.cosign/bundle": "[]"}), "", "is not an entry of a transparency log"},
		{"no certificate in the annotation", byKey, tagged(payload, map[string]string{"dev.cosignproject.cosign/signature": "AAAA", "dev.sigstore.cosign/certificate": "x"}), "", "is not a certificate in PEM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := artifactstest.New(t)
			c.write(t, server.Host+"/templates/web")
			signer, err := verify(t, server, c.by)
			if c.says == "" {
				if err != nil || signer != c.signer {
					t.Errorf("got %q, %v", signer, err)
				}
				return
			}
			var known *signatures.Error
			if !errors.As(err, &known) || signer != "" || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), digest.FromBytes(manifest).String()) {
				t.Errorf("got %q, %v, want %q", signer, err, c.says)
			}
		})
	}
}

// TestManySignatures: thousands of signatures are an error with a bounded text, and are not read.
func TestManySignatures(t *testing.T) {
	key := sign.NewKey(t)
	t.Run("referrers", func(t *testing.T) {
		server := artifactstest.New(t)
		entry := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json","digest":"%s","size":2}`, digest.FromString("{}"))
		server.Answer("/referrers/", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"schemaVersion":2,"manifests":[` + strings.Repeat(entry+",", 3000) + entry + `]}`))
		})
		if _, err := verify(t, server, keys(t, key)); err == nil || !strings.Contains(err.Error(), "there are more than 100") {
			t.Error(err)
		}
		for _, request := range server.Requests() {
			if strings.Contains(request, "/blobs/") || strings.Contains(request, "/manifests/sha256:") {
				t.Errorf("a signature is read: %s", request)
			}
		}
	})
	t.Run("tag", func(t *testing.T) {
		server := artifactstest.New(t)
		payload := sign.Payload(manifest)
		sign.Tag(t, server.Host+"/templates/web", manifest, make([]sign.Signed, 3000)...)
		if _, err := verify(t, server, keys(t, key)); err == nil || !strings.Contains(err.Error(), "there are more than 100") {
			t.Error(err)
		}
		sign.Tag(t, server.Host+"/templates/web", manifest, slicesOf(sign.Signed{Payload: payload, Annotations: sign.NewKey(t).Annotations(t, payload)}, 100)...)
		if _, err := verify(t, server, keys(t, key)); err == nil || !strings.Contains(err.Error(), "100 signatures are rejected") || !strings.HasSuffix(err.Error(), "; and 95 more") || len(err.Error()) > 4000 {
			t.Error(err)
		}
	})
}

func slicesOf[T any](element T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = element
	}
	return all
}

// TestNoAnswer: a registry that fails is no artifact without a signature, and its signatures with the tag are read.
func TestNoAnswer(t *testing.T) {
	key, payload := sign.NewKey(t), sign.Payload(manifest)
	server := artifactstest.New(t)
	server.Answer("/referrers/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if _, err := verify(t, server, keys(t, key)); err == nil || !strings.Contains(err.Error(), "listing the referrers") || !strings.Contains(err.Error(), "403") {
		t.Error(err)
	}
	sign.Tag(t, server.Host+"/templates/web", manifest, sign.Signed{Payload: payload, Annotations: key.Annotations(t, payload)})
	if signer, err := verify(t, server, keys(t, key)); err != nil || signer != "key k1.pub" {
		t.Error(signer, err)
	}
}

// TestAuthorities: keys and trusted roots that are not valid are errors.
func TestAuthorities(t *testing.T) {
	key := sign.NewKey(t)
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it must be rejected
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(small.Public())
	if err != nil {
		t.Fatal(err)
	}
	for says, content := range map[string][]byte{
		"it has no public key":  []byte("x"),
		"more than one key":     append(key.PEM(t), key.PEM(t)...),
		"more than 16384 bytes": make([]byte, signatures.MaxKey+1),
		"use at least 2048":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"is not valid":          pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}),
	} {
		if _, err := signatures.Keys([]signatures.Key{{Name: "k.pub", PEM: content}}); err == nil || !strings.HasPrefix(err.Error(), "k.pub: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := signatures.Keys(nil); err == nil || err.Error() != "no keys are named" {
		t.Error(err)
	}
	if _, err := signatures.Keys(make([]signatures.Key, 17)); err == nil || err.Error() != "17 keys are named: at most 16" {
		t.Error(err)
	}
	trusted := sign.NewAuthority(t).TrustedRoot(t, false)
	for says, c := range map[string]struct {
		identity signatures.Identity
		root     []byte
	}{
		"the trusted root is not valid":             {signatures.Identity{Subject: subject, Issuer: issuer}, []byte("{")},
		"the trusted root has more than":            {signatures.Identity{Subject: subject, Issuer: issuer}, make([]byte, signatures.MaxTrustedRoot+1)},
		"an identity needs a subject and an issuer": {signatures.Identity{Subject: subject}, trusted},
		"the trusted root has no":                   {signatures.Identity{Subject: subject, Issuer: issuer}, []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`)},
	} {
		if _, err := signatures.Identities([]signatures.Identity{c.identity}, c.root); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
