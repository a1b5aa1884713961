package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// Digest identifies a template and its spec: sha256:HEX of the UID and of the spec in a canonical form, in which the order
// of keys and white space do not matter. An approval holds for a digest.
func Digest(template *v1beta1.VirtualMachineTemplate) (string, error) {
	written, err := json.Marshal(template.Spec)
	if err != nil {
		return "", fmt.Errorf("writing the spec: %w", err)
	}
	parsed, err := parseJSON(written)
	if err != nil {
		return "", fmt.Errorf("reading the spec: %w", err)
	}
	canonical, err := json.Marshal(map[string]any{"uid": template.UID, "spec": parsed})
	if err != nil {
		return "", fmt.Errorf("writing the spec: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
