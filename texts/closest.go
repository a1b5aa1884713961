package texts

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// longestName bounds the texts that are compared with names.
const longestName = 64

// Closest returns the known name that is most similar to a name, without regard to case; "" if none is similar.
func Closest(name string, known []string) string {
	if len(name) > longestName {
		return ""
	}
	best, distance := "", len(name)/3+2
	for _, candidate := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}
