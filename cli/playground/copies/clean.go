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

// lastApplied is the annotation with a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secretFields are the fields of volumes and sources, and the annotations of objects and templates, that can have credentials, and what
// replaces them; nil removes the field.
var secretFields = map[string]any{
	"userData": leftOut, "networkData": leftOut, "userDataBase64": nil, "networkDataBase64": nil, "extraHeaders": nil,
	lastApplied: nil, "kubevirt.io/ignitiondata": nil, "hooks.kubevirt.io/hookSidecars": nil,
}

// clean removes from an object what only the API server and controllers write, and what can be a credential. It returns names for the latter.
func clean(object *unstructured.Unstructured) (removed []string) {
	metadata := map[string]any{}
	for _, field := range []string{"name", "namespace", "labels", "annotations"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", field); found {
			metadata[field] = value
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, lastApplied) // nothing is lost
		redact(annotations, ofObject, &removed)
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
			*removed = append(*removed, placeOf(at, field))
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
		return redactAddress(v, at, removed)
	}
	return value
}

// ofObject is where the annotations of an object are.
const ofObject = "metadata.annotations"

// placeOf names what was removed.
func placeOf(at, field string) string {
	switch {
	case !strings.Contains(field, "/"):
		return at + "." + field
	case at == ofObject:
		return "the annotation " + field
	}
	return "the annotation " + field + " at " + at
}

// redactAddress returns an address without its user and its query, which can have a token or a signature. Other texts are left as they are.
func redactAddress(text, at string, removed *[]string) string {
	address, err := url.Parse(text)
	if err != nil {
		return text
	}
	before := *address
	if address.User != nil {
		*removed = append(*removed, "the user of the address at "+at)
		address.User = nil
	}
	if address.Host != "" && address.RawQuery != "" {
		*removed = append(*removed, "the query of the address at "+at)
		address.RawQuery = ""
	}
	if *address == before {
		return text
	}
	return address.String()
}
