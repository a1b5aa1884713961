package signatures

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/texts"
)

// predicateType is that of the statement by which cosign signs. Other statements, such as bills of materials or results of scans, say
// something about an artifact, and do not approve it.
const predicateType = "https://sigstore.dev/cosign/sign/v1"

// Limits of messages.
const (
	maxReasons = 5
	maxReason  = 400
)

// Error says why no signature is valid. It is the same at the next attempt, unless the registry failed.
type Error struct {
	// Digest is that of the manifest.
	Digest digest.Digest
	// Authority names who may sign.
	Authority string
	// Rejected is the number of signatures that are not valid, Reasons are those of the first ones.
	Rejected int
	Reasons  []string
	// Unread is the number of those that the registry did not send: another attempt can find them.
	Unread int
}

// Error says all of it in one line.
func (e *Error) Error() string {
	if e.Rejected == 0 {
		return fmt.Sprintf("%s has no signature: one by %s is required", e.Digest, e.Authority)
	}
	message := fmt.Sprintf("%s has no valid signature by %s: %s rejected: %s", e.Digest, e.Authority, texts.Count(e.Rejected, "signature is", "signatures are"), strings.Join(e.Reasons, "; "))
	if more := e.Rejected - len(e.Reasons); more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return message
}

// Artifact verifies that one of the authority signed what a registry has: the manifest or the index with this content. It returns who
// signed it.
func (a *Authority) Artifact(ctx context.Context, r *artifacts.Repository, content []byte) (string, error) {
	signer, err := a.Verify(content, r.Signatures(ctx, digest.FromBytes(content)))
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return signer, err
}

// Verify returns who signed a manifest with this content: the first of the authority with a valid signature. No signature is read
// after it.
func (a *Authority) Verify(content []byte, found iter.Seq2[artifacts.Signature, error]) (string, error) {
	failed := &Error{Digest: digest.FromBytes(content), Authority: a.String()}
	for s, err := range found {
		var name string
		if err == nil {
			name, err = a.verify(content, &s)
		} else {
			failed.Unread++
		}
		if err == nil {
			return name, nil
		}
		if failed.Rejected++; len(failed.Reasons) == maxReasons {
			continue
		}
		reason := texts.OneLine(err.Error())
		if s.Digest != "" {
			reason = s.Digest.String() + ": " + reason
		}
		if len(reason) > maxReason {
			reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
		}
		failed.Reasons = append(failed.Reasons, reason)
	}
	return "", failed
}

// verify verifies one signature.
func (a *Authority) verify(content []byte, s *artifacts.Signature) (string, error) {
	if s.Bundle == nil {
		return a.verifyPayload(content, s)
	}
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(s.Bundle); err != nil {
		return "", fmt.Errorf("the bundle is not valid: %w", err)
	}
	name, result, err := a.verifyEntity(b, content)
	if err != nil {
		return "", err
	}
	if result.Statement != nil && result.Statement.GetPredicateType() != predicateType {
		return "", fmt.Errorf("it is a statement of the type %q, and no signature: its type must be %s", result.Statement.GetPredicateType(), predicateType)
	}
	return name, nil
}

// verifyPayload verifies a signature in the format of simple signing: it signs a payload, which names the digest of the manifest.
func (a *Authority) verifyPayload(content []byte, s *artifacts.Signature) (string, error) {
	b, err := payloadBundle(s)
	if err != nil {
		return "", err
	}
	name, _, err := a.verifyEntity(b, s.Payload)
	if err != nil {
		return "", err
	}
	var payload struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(s.Payload, &payload); err != nil {
		return "", errors.New("the payload is not valid JSON")
	}
	const signed = "cosign container image signature"
	switch want := digest.FromBytes(content).String(); {
	case payload.Critical.Type != signed:
		return "", fmt.Errorf("the payload has the type %q: it must be %q", payload.Critical.Type, signed)
	case payload.Critical.Image.Digest != want:
		return "", fmt.Errorf("it signs another artifact: %q", payload.Critical.Image.Digest)
	}
	return name, nil
}

// verifyEntity verifies that one of the authority signed the content.
func (a *Authority) verifyEntity(entity verify.SignedEntity, content []byte) (string, *verify.VerificationResult, error) {
	var failed error
	for i := range a.signers {
		s := &a.signers[i]
		result, err := s.verifier.Verify(entity, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(content)), s.policy))
		if err == nil {
			return s.name, result, nil
		}
		failed = err
	}
	return "", nil, failed
}
