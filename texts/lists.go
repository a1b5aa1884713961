package texts

import (
	"fmt"
	"strings"
)

// Count is a number with its noun: 1 object, 2 objects.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// First lists the first names, and the number of the others: a, b and 3 more.
func First(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
