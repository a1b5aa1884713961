package validators

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// enough reports whether a rule has found so much that it looks no further: a request has room for a million strings,
// and looking for what nobody is told costs time and memory. Ask before each element of a list.
func enough(errs field.ErrorList) bool { return len(errs) >= maxErrors }

// notLookedAt ends the last error of a rule that looked no further.
const notLookedAt = " more elements were not looked at)"

// cutShort ends what a rule says when that is enough: its last error says how many elements of a list are left. Of
// the lists of one object, the first counts.
func cutShort(errs field.ErrorList, left int) field.ErrorList {
	errs = errs[:maxErrors:maxErrors]
	if last := errs[maxErrors-1]; !strings.HasSuffix(last.Detail, notLookedAt) {
		cut := *last
		cut.Detail += fmt.Sprintf(" (%d%s", left, notLookedAt)
		errs[maxErrors-1] = &cut
	}
	return errs
}

// eachElement adds what is wrong with the elements of a list, until that is enough.
func eachElement[E any](errs field.ErrorList, list *field.Path, elements []E, add func(errs field.ErrorList, path *field.Path, element *E) field.ErrorList) field.ErrorList {
	for i := range elements {
		if enough(errs) {
			return cutShort(errs, len(elements)-i)
		}
		errs = add(errs, list.Index(i), &elements[i])
	}
	return errs
}
