package policies

import (
	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/policies/rego"
)

// The memory that an evaluation needs, in bytes. Policies are evaluated one after the other, so it is the memory of one
// policy, and of the documents in each of their forms: the object, the object before the update, and the effective VM.
const (
	documentsRead = 3
	// textForms is how often a text is in memory: as it was decoded, in JSON, and as modules read it.
	textForms = 3
	// memberBytes is what a member of an object takes in the forms that it is read in, at least minMember bytes of JSON.
	memberBytes, minMember = 640, 2
)

// MaxMemory is the most memory that policies need for an object, in bytes. Modules are not evaluated on objects above
// rego.MaxDocumentBytes.
var MaxMemory = Memory(rego.MaxDocumentBytes)

// Memory returns the most memory that policies need for an object of a size; both are in bytes, the size is that of its
// JSON.
func Memory(object int) int64 {
	object = min(object, rego.MaxDocumentBytes)
	documents := documentsRead * object
	return int64(rego.DefaultBytes(documents) + textForms*documents + memberBytes*min(object/minMember, decodelimits.MaxMembers))
}
