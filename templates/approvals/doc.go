// Package approvals signs the approvals of VM templates, and verifies the signatures. What enters: the content of a Secret,
// a template's UID and an approval. What leaves: a signature, or the reason why an approval does not count.
//
// A guard keeps users from writing approvals. An approval that was written while the guard was missing has no valid
// signature, so it never counts. An approval that was revoked or replaced, and is written again, does not count either.
//
// The package reads no object and has no clock. It draws no random values.
package approvals
