package signaturestest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	bundles "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"google.golang.org/protobuf/encoding/protojson"
)

// SignPredicate is the type of the statement by which cosign signs.
const SignPredicate = "https://sigstore.dev/cosign/sign/v1"

// Statement says that a manifest with this content is signed, or something else about it.
func Statement(content []byte, predicate string) []byte {
	sum := sha256.Sum256(content)
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"%x"}}],"predicateType":"%s","predicate":{}}`, sum, predicate)
}

// Payload is what cosign signs in the format of simple signing.
func Payload(content []byte) []byte {
	return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"%s"},"type":"cosign container image signature"},"optional":null}`, digest.FromBytes(content))
}

// Key is a private key.
type Key struct{ *ecdsa.PrivateKey }

// NewKey returns a new key.
func NewKey(t testing.TB) Key {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{key}
}

// PEM is the public key.
func (k Key) PEM(t testing.TB) []byte {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
}

// Sign returns the signature of a message.
func (k Key) Sign(t testing.TB, message []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(message)
	signed, err := ecdsa.SignASN1(rand.Reader, k.PrivateKey, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// payloadType is that of statements.
const payloadType = "application/vnd.in-toto+json"

// Bundle signs a statement.
func (k Key) Bundle(t testing.TB, statement []byte) []byte {
	t.Helper()
	signed := k.Sign(t, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement))
	return marshal(t, &bundles.VerificationMaterial{Content: &bundles.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{Hint: "hint"}}}, statement, signed)
}

func marshal(t testing.TB, material *bundles.VerificationMaterial, statement, signed []byte) []byte {
	t.Helper()
	content, err := protojson.Marshal(&bundles.Bundle{
		MediaType: mediaTypeBundle, VerificationMaterial: material,
		Content: &bundles.Bundle_DsseEnvelope{DsseEnvelope: &dsse.Envelope{Payload: statement, PayloadType: payloadType, Signatures: []*dsse.Signature{{Sig: signed}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Authority confirms identities, and has a transparency log.
type Authority struct{ *ca.VirtualSigstore }

// NewAuthority returns a new authority.
func NewAuthority(t testing.TB) Authority {
	t.Helper()
	a, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	return Authority{a}
}

// TrustedRoot is the trusted root of the authority, in JSON. With certificate logs, its certificates must be in one of them, and none is.
func (a Authority) TrustedRoot(t testing.TB, certificateLogs bool) []byte {
	t.Helper()
	logs := map[string]*root.TransparencyLog{}
	if certificateLogs {
		logs = named(t, a.CTLogs())
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, a.FulcioCertificateAuthorities(), logs, a.TimestampingAuthorities(), named(t, a.RekorLogs()))
	if err != nil {
		t.Fatal(err)
	}
	content, err := trusted.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// named gives logs the names that a file has: the test authority has them in hexadecimal.
func named(t testing.TB, logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	t.Helper()
	for id, log := range logs {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		log.ID = raw
	}
	return logs
}

// Entry is what a bundle says about its transparency log.
type Entry int

// The entries of bundles.
const (
	Proven Entry = iota
	// Promised has no proof of inclusion.
	Promised
	// Missing is no entry.
	Missing
)

// Bundle signs a statement as an identity. The time is that of the entry in the log; certificates are valid for 10 minutes from now on.
func (a Authority) Bundle(t testing.TB, subject, issuer string, statement []byte, at time.Time, entry Entry) []byte {
	t.Helper()
	entity, err := a.AttestAtTime(subject, issuer, statement, at, entry == Proven)
	if err != nil {
		t.Fatal(err)
	}
	content, err := entity.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	material := &bundles.VerificationMaterial{Content: &bundles.VerificationMaterial_Certificate{Certificate: &common.X509Certificate{RawBytes: content.Certificate().Raw}}}
	if entry != Missing {
		material.TlogEntries = []*rekor.TransparencyLogEntry{a.entry(t, entity)}
	}
	return marshal(t, material, statement, signed.Signature())
}

// entry is that of the transparency log. The test authority leaves out what is in JSON only.
func (a Authority) entry(t testing.TB, entity *ca.TestEntity) *rekor.TransparencyLogEntry {
	t.Helper()
	entries, err := entity.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	e := entries[0].TransparencyLogEntry()
	var body struct{ Kind, APIVersion string }
	if err := json.Unmarshal(e.CanonicalizedBody, &body); err != nil {
		t.Fatal(err)
	}
	promise, err := a.RekorSignPayload(tlog.RekorPayload{Body: entries[0].Body(), IntegratedTime: e.IntegratedTime, LogIndex: e.LogIndex, LogID: hex.EncodeToString(e.LogId.KeyId)})
	if err != nil {
		t.Fatal(err)
	}
	e.KindVersion = &rekor.KindVersion{Kind: body.Kind, Version: body.APIVersion}
	e.InclusionPromise = &rekor.InclusionPromise{SignedEntryTimestamp: promise}
	return e
}

// Annotations sign a payload as an identity, in the format of simple signing.
func (a Authority) Annotations(t testing.TB, subject, issuer string, payload []byte, at time.Time) map[string]string {
	t.Helper()
	entity, err := a.SignAtTime(subject, issuer, payload, at)
	if err != nil {
		t.Fatal(err)
	}
	content, err := entity.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	e := a.entry(t, entity)
	annotation, err := json.Marshal(map[string]any{"SignedEntryTimestamp": e.InclusionPromise.SignedEntryTimestamp, "Payload": map[string]any{
		"body": e.CanonicalizedBody, "integratedTime": e.IntegratedTime, "logIndex": e.LogIndex, "logID": hex.EncodeToString(e.LogId.KeyId),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signed.Signature()),
		"dev.sigstore.cosign/certificate":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content.Certificate().Raw})),
		"dev.sigstore.cosign/bundle":         string(annotation),
	}
}

// Annotations sign a payload in the format of simple signing.
func (k Key) Annotations(t testing.TB, payload []byte) map[string]string {
	t.Helper()
	return map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(k.Sign(t, payload))}
}
