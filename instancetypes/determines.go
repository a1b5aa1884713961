package instancetypes

import "strings"

// InstancetypeDetermines reports whether instancetypes may determine a field of a VMI's spec, given relative to the
// spec: KubeVirt rejects a VM that sets such a field beside its instancetype.
func InstancetypeDetermines(path string) bool {
	return determines(instancetypeFields(), path) || covers("domain.resources", elements.ReplaceAllString(path, ""))
}

// PreferenceDetermines reports whether preferences may determine a field of a VMI's spec, given relative to the spec,
// or something below it.
func PreferenceDetermines(path string) bool { return determines(preferenceFields(), path) }

func determines(origins []origin, path string) bool {
	path = elements.ReplaceAllString(path, "")
	for _, o := range origins {
		if covers(o.path, path) || covers(path, o.path) {
			return true
		}
	}
	return false
}

// covers reports whether a field is another one, or below it.
func covers(above, path string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || rest[0] == '.')
}
