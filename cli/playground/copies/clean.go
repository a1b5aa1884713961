package copies

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
)

// leftOut replaces what can be a credential.
const leftOut = "# left out by kubectl virtward playground"

// secretFields are the fields of volumes and sources that can have credentials, and what replaces them; nil removes the field.
var secretFields = map[string]any{
	"userData": leftOut, "networkData": leftOut, "userDataBase64": nil, "networkDataBase64": nil, "extraHeaders": nil,
}

// secretAnnotations can have credentials, or a copy of the whole object.
var secretAnnotations = []string{"kubectl.kubernetes.io/last-applied-configuration", "kubevirt.io/ignitiondata", "hooks.kubevirt.io/hookSidecars"}

// clean removes from an object what only the API server and controllers write, and what can be a credential. It returns names for the latter.
func clean(object *unstructured.Unstructured) (removed []string) {
	metadata := map[string]any{}
	for _, field := range []string{"name", "namespace", "labels", "annotations"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field); found {
			metadata[field] = value
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for i, name := range secretAnnotations {
			if _, found := annotations[name]; found && i > 0 {
				removed = append(removed, "the annotation "+name)
			}
			delete(annotations, name)
		}
	}
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	delete(object.Object, "status")
	object.Object["metadata"] = metadata
	if object.GetKind() == apikinds.KubeVirt {
		configuration, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "configuration")
		object.Object["spec"] = map[string]any{"configuration": configuration}
		facts := map[string]any{}
		for _, field := range []string{"defaultArchitecture", "observedKubeVirtVersion", "phase"} {
			if value := status[field]; value != nil {
				facts[field] = value
			}
		}
		object.Object["status"] = facts
	}
	if strings.Contains(object.GetAPIVersion(), "policy.virtward.io/") {
		return removed // its texts are expressions
	}
	for _, field := range slices.Sorted(maps.Keys(object.Object)) {
		if field != "metadata" {
			object.Object[field] = redact(object.Object[field], field, &removed)
		}
	}
	return removed
}

// redact returns a value without credentials. ControllerRevisions keep it below data.
func redact(value any, at string, removed *[]string) any {
	switch v := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			replacement, secret := secretFields[field]
			if !secret {
				v[field] = redact(v[field], at+"."+field, removed)
				continue
			}
			*removed = append(*removed, at+"."+field)
			delete(v, field)
			if plain, ok := strings.CutSuffix(field, "Base64"); ok {
				field, replacement = plain, leftOut
			}
			if replacement != nil {
				v[field] = replacement
			}
		}
	case []any:
		for i := range v {
			v[i] = redact(v[i], fmt.Sprintf("%s[%d]", at, i), removed)
		}
	case string:
		if address, err := url.Parse(v); err == nil && address.User != nil {
			*removed = append(*removed, "the user of the address at "+at)
			address.User = nil
			return address.String()
		}
	}
	return value
}
