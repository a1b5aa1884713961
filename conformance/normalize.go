package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Generated is what the recorded answers say where KubeVirt draws a value at random. We leave these to
// KubeVirt, so they are compared with the fields removed.
const Generated = "GENERATED"

// pciTopologyAnnotation is written by KubeVirt into every VM that is created; we leave it to KubeVirt.
const pciTopologyAnnotation = "kubevirt.io/pci-topology-version"

// FromJSON decodes JSON into the form that Normalize and Differences work on.
func FromJSON(data []byte) (any, error) {
	var value any
	if len(data) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return value, nil
}

// ToJSON converts an API object to the form that Normalize and Differences need.
func ToJSON(object any) (any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	return FromJSON(data)
}

// Normalize removes from a decoded JSON value what makes no difference: generated identities, the PCI
// topology annotation, empty resources, empty metadata; and gives quantities that are equal one form. It
// changes the value and returns it.
func Normalize(value any) any {
	return normalize("", value)
}

func normalize(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		delete(v, pciTopologyAnnotation)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := normalize(name, v[name])
			if dropped(name, below) {
				delete(v, name)
				continue
			}
			v[name] = below
		}
		if quantityMap(key) {
			for name := range v {
				v[name] = canonicalQuantity(v[name])
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = normalize("", v[i])
		}
		return v
	}
	if quantityField(key) {
		return canonicalQuantity(value)
	}
	return value
}

func dropped(name string, value any) bool {
	switch name {
	case "uuid", "serial":
		return value == Generated
	case "resources", "metadata", "annotations", "firmware":
		object, ok := value.(map[string]any)
		return value == nil || ok && len(object) == 0
	case "creationTimestamp":
		return value == nil
	}
	return false
}

// quantityMap and quantityField name where the API has quantities, whose notation does not count.
func quantityMap(name string) bool { return name == "requests" || name == "limits" }

func quantityField(name string) bool {
	switch name {
	case "guest", "maxGuest", "pageSize", "capacity", "size", "guestAtBoot", "guestCurrent", "guestRequested":
		return true
	}
	return false
}

func canonicalQuantity(value any) any {
	switch value.(type) {
	case string, float64, int64:
	default:
		return value
	}
	q, err := resource.ParseQuantity(fmt.Sprint(value))
	if err != nil {
		return value
	}
	return q.AsDec().String()
}

// Differences are what two normalized values differ in, one line each, in the order of the paths.
func Differences(want, got any) []string {
	return differences("", want, got)
}

func differences(path string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return mapDifferences(path, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			var all []string
			for i := range w {
				all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
			}
			return all
		}
	default:
		if want == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", orRoot(path), compact(want), compact(got))}
}

func mapDifferences(path string, want, got map[string]any) []string {
	names := slices.Collect(maps.Keys(want))
	for name := range got {
		if _, both := want[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []string
	for _, name := range names {
		below := name
		if path != "" {
			below = path + "." + name
		}
		w, wanted := want[name]
		g, given := got[name]
		switch {
		case !wanted:
			all = append(all, fmt.Sprintf("%s: want nothing, got %s", below, compact(g)))
		case !given:
			all = append(all, fmt.Sprintf("%s: want %s, got nothing", below, compact(w)))
		default:
			all = append(all, differences(below, w, g)...)
		}
	}
	return all
}

func orRoot(path string) string {
	if path == "" {
		return "(whole)"
	}
	return path
}

func compact(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
