package validators

import "k8s.io/apimachinery/pkg/util/validation/field"

// eachRepeated reports on every name of a list that one before it has too; first is the index of that.
func eachRepeated(count int, name func(i int) string, report func(i, first int) *field.Error) (errs field.ErrorList) {
	indices := make(map[string]int, count)
	for i := range count {
		first, repeated := indices[name(i)]
		if !repeated {
			indices[name(i)] = i
		} else if err := report(i, first); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// takenName is the finding of a name that something else has already.
func takenName(path *field.Path, name, detail string) *field.Error {
	err := field.Duplicate(path, shortened(name))
	err.Detail = detail
	return err
}
