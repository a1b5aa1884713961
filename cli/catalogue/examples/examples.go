package examples

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Example violates a rule.
type Example struct {
	// Object violates the rule: as it is created or, with Old, as it is after an update.
	Object map[string]any `json:"object"`
	// Old is the object before the update.
	Old map[string]any `json:"old,omitempty"`
	// KubeVirt is the spec.configuration of the KubeVirt resource, if the rule depends on it.
	KubeVirt map[string]any `json:"kubevirt,omitempty"`
	// Objects are others in the cluster, such as the running instance.
	Objects []map[string]any `json:"objects,omitempty"`
	// User is the name of the requester, if the rule depends on it.
	User string `json:"user,omitempty"`
	// Also are other rules that the object violates inevitably. The remedy satisfies them too.
	Also []string `json:"also,omitempty"`
	// Remedy is a patch of the object that does what the remedy of the rule says.
	Remedy []Operation `json:"remedy"`
}

// Operation is one operation of a JSON patch.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

//go:embed *.yaml
var files embed.FS

// All returns the examples by the ids of their rules. Nothing may change them. Two examples of a rule are an error.
var All = sync.OnceValues(func() (map[string]*Example, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	all := map[string]*Example{}
	for _, entry := range entries {
		data, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		var read map[string]*Example
		if err := yaml.UnmarshalStrict(data, &read); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for id, example := range read {
			if all[id] != nil {
				return nil, fmt.Errorf("%s: there are two examples of %s", entry.Name(), id)
			}
			all[id] = example
		}
	}
	return all, nil
})

// Manifest returns the object in YAML.
func (e *Example) Manifest() (string, error) { return text(e.Object) }

// Circumstances returns what the example depends on, in YAML, each with its title.
func (e *Example) Circumstances() ([]Circumstance, error) {
	var found []Circumstance
	add := func(title string, value any) error {
		manifest, err := text(value)
		found = append(found, Circumstance{title, manifest})
		return err
	}
	if e.Old != nil {
		if err := add("Before the update", e.Old); err != nil {
			return nil, err
		}
	}
	if len(e.KubeVirt) > 0 {
		if err := add("With spec.configuration of the KubeVirt resource", e.KubeVirt); err != nil {
			return nil, err
		}
	}
	for _, object := range e.Objects {
		if err := add("With this object in the cluster", object); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Circumstance is a part of an example that is not the object.
type Circumstance struct{ Title, Manifest string }

// Patch returns the remedy as JSON, an operation on each line.
func (e *Example) Patch() (string, error) {
	var patch strings.Builder
	patch.WriteString("[")
	for i := range e.Remedy {
		operation, err := json.Marshal(&e.Remedy[i])
		if err != nil {
			return "", fmt.Errorf("encoding the remedy: %w", err)
		}
		if i > 0 {
			patch.WriteString(",\n ")
		}
		patch.Write(operation)
	}
	return patch.String() + "]\n", nil
}

func text(value any) (string, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("encoding the example: %w", err)
	}
	return string(data), nil
}
