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
	return digestOf(&template.Spec, map[string]any{"uid": template.UID})
}

// SpecDigest is the digest of a spec without the UID of a template, in the same form as Digest and with the same errors. It is known
// before the template is created.
func SpecDigest(spec *v1beta1.VirtualMachineTemplateSpec) (string, error) {
	return digestOf(spec, map[string]any{})
}

// digestOf is the digest of a spec and of what is beside it.
func digestOf(spec *v1beta1.VirtualMachineTemplateSpec, beside map[string]any) (string, error) {
	if vm := spec.VirtualMachine; vm != nil {
		if err := decode.Object(vm.Raw, reflect.TypeFor[any]()); err != nil {
			return "", fmt.Errorf("%s: %w", virtualMachineAt, err)
		}
	}
	written, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("writing the spec: %w", err)
	}
	parsed, err := parseJSON(written)
	if err != nil {
		return "", fmt.Errorf("reading the spec: %w", err)
	}
	beside["spec"] = parsed
	canonical, err := json.Marshal(beside)
	if err != nil {
		return "", fmt.Errorf("writing the spec: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
