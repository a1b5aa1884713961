package pages

import "github.com/virtward/virtward/limits/memory"

// WorstCase returns the most memory of the pages of one list.
func WorstCase() []memory.Bound {
	return []memory.Bound{{
		Name: "pages/lists", Subject: "lists", Bytes: 2 * MaxBytes,
		Reason: "pages of at most 8 MiB, one as it is read and one as it is used",
	}}
}
