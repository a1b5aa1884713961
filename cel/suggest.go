package cel

import "strings"

// suggest says which of the names may have been meant; nothing if none is near.
func suggest(name string, names []string) string {
	best, distance := "", (len(name)+1)/3
	for _, candidate := range names {
		if strings.EqualFold(candidate, name) {
			best = candidate
			break
		}
		if d := edits(strings.ToLower(name), strings.ToLower(candidate)); d < distance || d == distance && best == "" {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean '" + best + "'?"
}

// edits is how many letters must be added, removed, replaced or swapped with their neighbour to make one of the other.
func edits(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
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
