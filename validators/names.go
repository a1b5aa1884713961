package validators

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// listed is names as a message shows them: the order in which they were written says nothing. It sorts them in
// place.
func listed(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// eachRepeated adds a report on every name of a list that one before it has too; first is the index of that.
func eachRepeated(count int, name func(i int) string, report func(i, first int) *field.Error, found *Errors) {
	indices := make(map[string]int, count)
	for i := range found.Each(count) {
		first, repeated := indices[name(i)]
		if !repeated {
			indices[name(i)] = i
		} else {
			found.Add(report(i, first))
		}
	}
}

// takenName is the finding of a name that something else has already.
func takenName(path *field.Path, name, detail string) *field.Error {
	err := field.Duplicate(path, shortened(name))
	err.Detail = detail
	return err
}
