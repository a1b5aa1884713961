package texts

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// longestName bounds the texts that are compared with names.
const longestName = 64

// shortestPart is the least length of a name that is found inside of another one.
const shortestPart = 4

// Closest returns the known name that is most similar to a name, without regard to case; "" if none is similar. If none has
// few other characters, that is the shortest name that begins or ends with the other one, such as imagePullPolicy for
// pullPolicy.
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
	if best != "" {
		return best
	}
	for _, candidate := range known {
		if extends(name, candidate) && (best == "" || len(candidate) < len(best)) {
			best = candidate
		}
	}
	return best
}

// extends reports whether one of two names begins or ends with the other one.
func extends(a, b string) bool {
	long, short := strings.ToLower(a), strings.ToLower(b)
	if len(long) < len(short) {
		long, short = short, long
	}
	return len(short) >= shortestPart && (strings.HasPrefix(long, short) || strings.HasSuffix(long, short))
}
