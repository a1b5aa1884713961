package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/fieldpath"
)

// template is the path that fields are relative to, unless they start with spec or metadata.
const template = "spec.template.spec"

// setting is a field and its new value; nil removes it.
type setting struct {
	path  string
	value any
}

// settings are those of --set: FIELD=VALUE, or FIELD- to remove a field.
func settings(given []string) ([]setting, error) {
	all := make([]setting, len(given))
	for i, text := range given {
		path, written, sets := strings.Cut(text, "=")
		if !sets {
			var removes bool
			if path, removes = strings.CutSuffix(text, "-"); !removes {
				return nil, fmt.Errorf("--set %s: must be FIELD=VALUE, or FIELD- to remove a field", text)
			}
		}
		if path == "" {
			return nil, fmt.Errorf("--set %s: has no field", text)
		}
		if first, _, _ := fieldpath.Cut(path); first != "spec" && first != "metadata" {
			path = template + "." + path
		}
		all[i].path = path
		if !sets {
			continue
		}
		if err := yaml.Unmarshal([]byte(written), &all[i].value); err != nil {
			return nil, fmt.Errorf("--set %s: the value is not YAML: %w", text, err)
		}
		if all[i].value == nil {
			all[i].value = ""
		}
	}
	return all, nil
}

// settingsPatch is the merge patch that makes the settings.
func settingsPatch(current *unstructured.Unstructured, settings []setting) ([]byte, error) {
	changed := current.DeepCopy()
	for _, s := range settings {
		if err := set(changed.Object, fieldpath.Split(s.path), s.value); err != nil {
			return nil, fmt.Errorf("--set %s: %w", s.path, err)
		}
	}
	before, err := json.Marshal(current.Object)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(changed.Object)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}

var errNoItem = errors.New("the list has no item of this name")

// set changes the value at a path, whose lists have named items.
func set(parent map[string]any, steps []string, value any) error {
	first := steps[0]
	if len(steps) == 1 {
		if value == nil {
			delete(parent, first)
			return nil
		}
		parent[first] = value
		return nil
	}
	switch below := parent[first].(type) {
	case map[string]any:
		return set(below, steps[1:], value)
	case []any:
		return setItem(parent, first, below, steps[1:], value)
	case nil:
		if value == nil {
			return nil
		}
		created := map[string]any{}
		parent[first] = created
		return set(created, steps[1:], value)
	}
	return fmt.Errorf("%s is not an object", first)
}

// setItem changes a named item of a list, or removes it.
func setItem(parent map[string]any, list string, items []any, steps []string, value any) error {
	for i := range items {
		item, ok := items[i].(map[string]any)
		if !ok || item["name"] != steps[0] {
			continue
		}
		switch {
		case len(steps) > 1:
			return set(item, steps[1:], value)
		case value == nil:
			parent[list] = append(items[:i:i], items[i+1:]...)
		default:
			items[i] = value
		}
		return nil
	}
	return fmt.Errorf("%s: %w", steps[0], errNoItem)
}
