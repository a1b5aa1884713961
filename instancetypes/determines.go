package instancetypes

import "github.com/virtward/virtward/fieldpath"

// InstancetypeDetermines reports whether instancetypes may determine a field of a VMI's spec, given relative to the
// spec: KubeVirt rejects a VM that sets such a field beside its instancetype.
func InstancetypeDetermines(path string) bool {
	return determines(instancetypeFields(), path) || fieldpath.Within(fieldpath.Fields(path), "domain.resources")
}

// PreferenceDetermines reports whether preferences may determine a field of a VMI's spec, given relative to the spec,
// or something below it.
func PreferenceDetermines(path string) bool { return determines(preferenceFields(), path) }

func determines(origins []origin, path string) bool {
	path = fieldpath.Fields(path)
	for _, o := range origins {
		if fieldpath.Within(path, o.path) || fieldpath.Within(o.path, path) {
			return true
		}
	}
	return false
}
