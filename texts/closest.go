package texts

import (
	"slices"
	"strings"
)

// longestName bounds the texts that are compared with names.
const longestName = 64

// shortestPart is the least length of a name that is found inside of another one.
const shortestPart = 4

// Closest returns the known name that is most similar to a name, without regard to case; "" if none is similar: more than a
// third of its characters are wrong, or one more in a name that begins in the same way, such as policies for policy. If none
// has few other characters, that is the shortest name that begins or ends with the other one, such as imagePullPolicy for
// pullPolicy.
func Closest(name string, known []string) string {
	if name == "" || len(name) > longestName {
		return ""
	}
	most := (len(name) + 1) / 3
	best := within(name, known, most)
	if best == "" {
		begin := strings.ToLower(name[:(len(name)+1)/2])
		best = within(name, slices.DeleteFunc(slices.Clone(known), func(candidate string) bool {
			return !strings.HasPrefix(strings.ToLower(candidate), begin)
		}), most+1)
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

// maxNear is the greatest number of wrong characters of a name that is nearly the same.
const maxNear = 2

// Near returns the known name that is nearly the same as a name, without regard to case; "" if none is.
func Near(name string, known []string) string {
	return within(name, known, min(maxNear, (len(name)+1)/3))
}

// within returns the known name that needs the fewest edits, up to a maximum.
func within(name string, known []string, most int) (best string) {
	if len(name) > longestName {
		return ""
	}
	for _, candidate := range known {
		if d := Edits(strings.ToLower(name), strings.ToLower(candidate)); d < most || d == most && best == "" {
			best, most = candidate, d
		}
	}
	return best
}

// Edits is how many bytes must be added, removed, replaced or swapped with their neighbor to make one of the other. Of a long
// text, it returns its bound.
func Edits(a, b string) int {
	if len(a) > longestName || len(b) > longestName {
		return longestName
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// extends reports whether one of two names begins or ends with the other one.
func extends(a, b string) bool {
	long, short := strings.ToLower(a), strings.ToLower(b)
	if len(long) < len(short) {
		long, short = short, long
	}
	return len(short) >= shortestPart && (strings.HasPrefix(long, short) || strings.HasSuffix(long, short))
}
