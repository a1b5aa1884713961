package memory

// Bound is the most memory that one subject takes in a process.
type Bound struct {
	// Name identifies it among all bounds, such as webhooks/bodies.
	Name string
	// Subject is what takes the memory, in the words of docs/memory.md.
	Subject string
	// Bytes is the most that it takes.
	Bytes int64
	// Reason says what the number is made of, and what happens above it. It is Markdown.
	Reason string
}

// NameBytes is the most memory that a namespace and a name take in a map or an index of keys.
const NameBytes = 500

// Total returns the sum of bounds, in bytes.
func Total(bounds []Bound) int64 {
	total := int64(0)
	for _, b := range bounds {
		total += b.Bytes
	}
	return total
}
