// Package templates holds Virtward's templates to the recorded answers of kubevirt/virt-template.
//
// A case is equal, better or other. Better means that the recorded answer is one of virt-template's known faults, which a
// predicate on the case's input names, and that Virtward's answer is the right one.
package templates
