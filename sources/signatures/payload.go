package signatures

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	bundles "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/virtward/virtward/sources/artifacts"
)

// The annotations of a signature in the format of simple signing. cosign writes them.
const (
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationEntry       = "dev.sigstore.cosign/bundle"
)

// payloadBundle is a signature in the format of simple signing as a bundle, so that one verifier is enough.
func payloadBundle(s *artifacts.Signature) (*bundle.Bundle, error) {
	signed, err := base64.StdEncoding.DecodeString(s.Annotations[annotationSignature])
	if err != nil || len(signed) == 0 {
		return nil, fmt.Errorf("the annotation %s is not a signature in base64", annotationSignature)
	}
	sum := sha256.Sum256(s.Payload)
	material := &bundles.VerificationMaterial{Content: &bundles.VerificationMaterial_PublicKey{PublicKey: &common.PublicKeyIdentifier{}}}
	if text := s.Annotations[annotationCertificate]; text != "" {
		block, _ := pem.Decode([]byte(text))
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the annotation %s is not a certificate in PEM", annotationCertificate)
		}
		material.Content = &bundles.VerificationMaterial_X509CertificateChain{X509CertificateChain: &common.X509CertificateChain{
			Certificates: []*common.X509Certificate{{RawBytes: block.Bytes}},
		}}
	}
	if text := s.Annotations[annotationEntry]; text != "" {
		entry, err := logEntry([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("the annotation %s is not an entry of a transparency log: %w", annotationEntry, err)
		}
		material.TlogEntries = []*rekor.TransparencyLogEntry{entry}
	}
	b, err := bundle.NewBundle(&bundles.Bundle{
		MediaType:            "application/vnd.dev.sigstore.bundle+json;version=0.1", // that of entries with a promise instead of a proof
		VerificationMaterial: material,
		Content: &bundles.Bundle_MessageSignature{MessageSignature: &common.MessageSignature{
			MessageDigest: &common.HashOutput{Algorithm: common.HashAlgorithm_SHA2_256, Digest: sum[:]}, Signature: signed,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("the signature is not valid: %w", err)
	}
	return b, nil
}

// logEntry reads an entry of a transparency log as cosign writes it into an annotation.
func logEntry(text []byte) (*rekor.TransparencyLogEntry, error) {
	var entry struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if err := json.Unmarshal(text, &entry); err != nil {
		return nil, errors.New("it is not valid JSON")
	}
	var body struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := json.Unmarshal(entry.Payload.Body, &body); err != nil {
		return nil, errors.New("its body is not valid JSON")
	}
	log, err := hex.DecodeString(entry.Payload.LogID)
	if err != nil {
		return nil, errors.New("its log has no valid name")
	}
	return &rekor.TransparencyLogEntry{
		LogIndex: entry.Payload.LogIndex, LogId: &common.LogId{KeyId: log}, IntegratedTime: entry.Payload.IntegratedTime,
		KindVersion:       &rekor.KindVersion{Kind: body.Kind, Version: body.Version},
		InclusionPromise:  &rekor.InclusionPromise{SignedEntryTimestamp: entry.SignedEntryTimestamp},
		CanonicalizedBody: entry.Payload.Body,
	}, nil
}
