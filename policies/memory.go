package policies

import (
	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/policies/rego"
)

// What evaluating policies about an object may take, in bytes of memory. Policies are evaluated one after the other, so
// that it is what one of them may take, and the documents in the forms that they are read in: the object, the one before
// and the virtual machine that will run.
const (
	documentsRead = 3
	// textForms is how often a text is in memory: as it was decoded, in JSON, and as modules read it.
	textForms = 3
	// memberBytes is what a member of an object takes in the forms that it is read in, at least minMember bytes of JSON.
	memberBytes, minMember = 640, 2
)

// MaxMemory is what evaluating policies may take about any object. A module is not evaluated about larger ones than
// rego.MaxDocumentBytes.
var MaxMemory = Memory(rego.MaxDocumentBytes)

// Memory is what evaluating policies about an object takes at most, in bytes, by the bytes of its JSON.
func Memory(object int) int64 {
	object = min(object, rego.MaxDocumentBytes)
	documents := documentsRead * object
	return int64(rego.DefaultBytes(documents) + textForms*documents + memberBytes*min(object/minMember, decodelimits.MaxMembers))
}
