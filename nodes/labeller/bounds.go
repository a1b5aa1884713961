package labeller

import "github.com/virtward/virtward/limits/memory"

// maxParsed is the memory of a parsed document, in bytes. A test parses the worst ones.
const maxParsed = 40 << 20

// WorstCase returns the most memory of a labeller.
func WorstCase() []memory.Bound {
	return []memory.Bound{
		{Name: "nodes/labeller/document", Subject: "libvirt's domain capabilities", Bytes: maxParsed, Reason: "a document of at most 1 MiB with at most 100,000 elements, once for each pass"},
		{Name: "nodes/labeller/node", Subject: "the node", Bytes: 8 << 20, Reason: "an object of at most 2 MiB, of which most is the list of images, and its copy in JSON"},
	}
}
