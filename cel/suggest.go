package cel

import (
	"strings"

	"github.com/virtward/virtward/texts"
)

// suggest says which of the names may have been meant; nothing if none is near.
func suggest(name string, names []string) string {
	best, distance := "", (len(name)+1)/3
	for _, candidate := range names {
		if strings.EqualFold(candidate, name) {
			best = candidate
			break
		}
		if d := texts.Edits(strings.ToLower(name), strings.ToLower(candidate)); d < distance || d == distance && best == "" {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean '" + best + "'?"
}
