package approvals

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// The reasons why an approval does not count.
var (
	// ErrUnsigned: there is no signature.
	ErrUnsigned = errors.New("it has no signature of Virtward. An earlier release wrote it, or a user did while no guard was active")
	// ErrSignature: the signature is of another template, of another content, or of a key that is not accepted.
	ErrSignature = errors.New("its signature is not valid for this template and this approval")
	// ErrEnded: the approval was revoked, or another one replaced it.
	ErrEnded = errors.New("it was revoked or replaced before")
)

// timeFormat is that of the API: seconds, in UTC.
const timeFormat = "2006-01-02T15:04:05Z"

// The versions begin a signature: VERSION.SEQUENCE.MAC. What is signed depends on the version. An approval without a source has the
// first one, so that approvals of earlier releases stay valid, and that these releases accept it.
const (
	withoutSource = "v1"
	withSource    = "v2"
)

// versionOf is the only version that an approval can have. So a source that is added, and one that is removed, makes the signature invalid.
func versionOf(approval *v1beta1.TemplateApproval) string {
	if approval.Source == nil {
		return withoutSource
	}
	return withSource
}

// signatureOf is a signature of an approval.
func signatureOf(key []byte, template types.UID, approval *v1beta1.TemplateApproval, sequence uint64) string {
	return versionOf(approval) + "." + strconv.FormatUint(sequence, 10) + "." + sum(key, template, approval, sequence)
}

// Sign signs an approval of the template with a UID. End the approvals before it first: the signature is of the time after
// that.
func (k *Keyring) Sign(template types.UID, approval *v1beta1.TemplateApproval) (string, error) {
	if k.Empty() {
		return "", errors.New("there is no key")
	}
	return signatureOf(k.newest().secret, template, approval, k.sequence), nil
}

// Verify returns nil if an approval of the template with a UID counts. It does not compare the digest with that of the
// template.
func (k *Keyring) Verify(template types.UID, approval *v1beta1.TemplateApproval) error {
	if approval.Signature == "" {
		return ErrUnsigned
	}
	sequence, mac, ok := parseSignature(approval)
	if !ok {
		return ErrSignature
	}
	valid := false
	for _, key := range k.keys {
		if hmac.Equal([]byte(sum(key.secret, template, approval, sequence)), []byte(mac)) {
			valid = true
		}
	}
	switch {
	case !valid:
		return ErrSignature
	case sequence < k.ended[idOf(template)]:
		return ErrEnded
	}
	return nil
}

// Renew returns the signature of the newest key for an approval that an older one has signed. It is false if the approval
// does not count, or the newest key has signed it.
func (k *Keyring) Renew(template types.UID, approval *v1beta1.TemplateApproval) (signature string, renewed bool) {
	if k.Verify(template, approval) != nil {
		return "", false
	}
	sequence, _, _ := parseSignature(approval)
	want := signatureOf(k.newest().secret, template, approval, sequence)
	if hmac.Equal([]byte(want), []byte(approval.Signature)) {
		return "", false
	}
	return want, true
}

// parseSignature returns the parts of the signature of an approval, if it has the version of the approval.
func parseSignature(approval *v1beta1.TemplateApproval) (sequence uint64, mac string, ok bool) {
	parts := strings.Split(approval.Signature, ".")
	if len(parts) != 3 || parts[0] != versionOf(approval) {
		return 0, "", false
	}
	sequence, err := strconv.ParseUint(parts[1], 10, 64)
	return sequence, parts[2], err == nil && strconv.FormatUint(sequence, 10) == parts[1]
}

// sum is the HMAC of an approval. The length before each part keeps the parts separate.
func sum(key []byte, template types.UID, approval *v1beta1.TemplateApproval, sequence uint64) string {
	parts := []string{
		"virtward template approval " + versionOf(approval), string(template), approval.Digest, approval.ApprovedBy, approval.ApprovedAt.UTC().Format(timeFormat),
		approval.Message, strconv.FormatUint(sequence, 10),
	}
	if s := approval.Source; s != nil {
		parts = append(parts, string(s.Kind), s.Reference, s.Digest, strconv.FormatBool(s.Verified), s.Signer, s.Import)
	}
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = fmt.Fprintf(mac, "%d:%s,", len(part), part) // a hash returns no error
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
