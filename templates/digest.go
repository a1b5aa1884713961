package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/limits/decode"
)

// Digest identifies a template and its spec: sha256:HEX of the UID and of the spec in a canonical form, in which the order
// of keys and white space do not matter. An approval holds for a digest. The
// error is about a spec that cannot be rendered: it is not JSON, or has too many objects.
func Digest(template *v1beta1.VirtualMachineTemplate) (string, error) {
	if vm := template.Spec.VirtualMachine; vm != nil {
		if err := decode.Object(vm.Raw, reflect.TypeFor[any]()); err != nil {
			return "", fmt.Errorf("%s: %w", virtualMachineAt, err)
		}
	}
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
