package cel

import "github.com/google/cel-go/common/types/ref"

// arguments has room for the arguments of the calls in progress, so that most calls allocate none. It belongs to one goroutine.
type arguments struct {
	places [24]ref.Val
	// used counts the arguments of the calls in progress, also those that have no place here.
	used int
}

// room is for the arguments of calls on a budget; nil for none.
func (b *Budget) room() *arguments {
	if b == nil {
		return nil
	}
	return b.arguments
}

// lend returns room for the arguments of a call. Calls release it in the reverse order, and do not keep it. Without arguments, which
// an expression has that is evaluated when it is compiled, it allocates.
func (a *arguments) lend(n int) []ref.Val {
	if a == nil {
		return make([]ref.Val, n)
	}
	from := a.used
	a.used += n
	if a.used > len(a.places) {
		return make([]ref.Val, n)
	}
	return a.places[from:a.used:a.used]
}

// release ends the use of what lend returned.
func (a *arguments) release(values []ref.Val) {
	if a == nil {
		return
	}
	clear(values)
	a.used -= len(values)
}
