package policies

import (
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/limits/decode"
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
var MaxMemory = MemoryWith(rego.MaxDocumentBytes, 2*cel.MaxPreviewBytes)

// MemoryWith is Memory for policies that read the pod or the domain. previews is what these take, in bytes.
func MemoryWith(object int, previews int64) int64 {
	if previews == 0 {
		return Memory(object)
	}
	// The texts of the object are in JSON, and as modules read them.
	return Memory(object) + previews + int64(4*min(object, rego.MaxComputedBytes))
}

// minDevice is the least JSON that makes something in the pod of a virtual machine, in bytes, such as {"name":"a"}.
const minDevice = 12

// Memory returns the most memory that the policies of the set need for an object of a size, in bytes: see MemoryWith. It
// is for objects that are not completed yet: a small object can have a domain with many vCPUs.
func (s *Set) Memory(object int) int64 {
	previews := int64(0)
	if s.ReadsPod() || s.ReadsMigrationTargets() {
		previews += min(cel.PodBytes(uint64(object/minDevice)), cel.MaxPreviewBytes) //nolint:gosec // sizes are not negative
	}
	if s.ReadsDomain() {
		previews += cel.MaxPreviewBytes
	}
	return MemoryWith(object, previews)
}

// Memory returns the most memory that policies need for an object of a size; both are in bytes, the size is that of its
// JSON.
func Memory(object int) int64 {
	object = min(object, rego.MaxDocumentBytes)
	documents := documentsRead * object
	return int64(rego.DefaultBytes(documents) + textForms*documents + memberBytes*min(object/minMember, decode.MaxMembers))
}
