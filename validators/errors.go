package validators

import (
	"fmt"
	"iter"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors is the maximum number of errors that one rule reports for one object.
const maxErrors = 100

// Errors collects what one rule reports, up to a limit. The runner of the rules makes it, so a rule has no limit of its
// own.
type Errors struct {
	list field.ErrorList
	// limit is the maximum length of the list.
	limit int
	// dropped is the number of errors beyond the limit.
	dropped int
	// skipped is the number of elements that Each did not visit, of the first list where that happened.
	skipped int
}

// Add reports errors. It ignores nil.
func (e *Errors) Add(errs ...*field.Error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case len(e.list) < e.limit:
			e.list = append(e.list, err)
		default:
			e.dropped++
		}
	}
}

// Each iterates over the indices of a list with n elements. It ends as soon as the limit is reached: a request has room
// for a million elements, and more errors than the limit help no user.
func (e *Errors) Each(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if e.full() {
				e.skip(n - i)
				return
			}
			if !yield(i) {
				return
			}
		}
	}
}

func (e *Errors) full() bool { return len(e.list) >= e.limit }

func (e *Errors) skip(n int) {
	if e.skipped == 0 {
		e.skipped = n
	}
}

// result is the list. The last error reports how much is missing, if anything is.
func (e *Errors) result() field.ErrorList {
	var rest string
	switch {
	case e.skipped > 0:
		rest = fmt.Sprintf(" (%d more elements were not checked)", e.skipped)
	case e.dropped > 0:
		rest = fmt.Sprintf(" (and %d more errors of this kind)", e.dropped)
	default:
		return e.list
	}
	last := *e.list[len(e.list)-1]
	last.Detail += rest
	e.list[len(e.list)-1] = &last
	return e.list
}

// all returns everything that a check reports, without a limit.
func all(check func(found *Errors)) field.ErrorList {
	found := Errors{limit: math.MaxInt}
	check(&found)
	return found.list
}

// eachElement checks the elements of a list.
func eachElement[E any](list *field.Path, elements []E, add func(path *field.Path, element *E, found *Errors), found *Errors) {
	for i := range found.Each(len(elements)) {
		add(list.Index(i), &elements[i], found)
	}
}
