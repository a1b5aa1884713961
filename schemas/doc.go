// Package schemas validates objects as an API server does: with the schemas of their CustomResourceDefinitions.
//
// Its input is an object as its author wrote it, and the same object after KubeVirt's mutating webhook. Its output is the
// fields that the schema does not have, each with a suggestion, and the errors that the API server would return. The
// schemas are those of a minor version of KubeVirt and of Virtward's chart, which are embedded, or definitions of a
// cluster. The package reads no cluster and changes no object.
package schemas
