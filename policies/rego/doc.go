// Package rego evaluates with policies that are written in Rego, through OPA's evaluator.
//
// What enters: the text of one module, and an Input, which holds the documents that a policy may ask about. What
// leaves: the Issues of a module that cannot be used, each with its line and column, or the Violations that it
// finds. The contract of a module:
//
//	package memory.cap
//
//	deny contains {"msg": msg, "field": "spec.template.spec.domain.memory.guest"} if {
//	    units.parse_bytes(input.vm.spec.domain.memory.guest) > units.parse_bytes("8Gi")
//	    msg := sprintf("%s is more than 8Gi", [input.vm.spec.domain.memory.guest])
//	}
//
//	warn contains "there is no backup" if not input.vm.metadata.labels.backup
//
// It is Rego v1, and its package may have any name. It has deny, or warn, or both: partial sets whose elements are
// a message, or an object of msg and, if one field is at fault, field. The documents are those of Documents, by
// the names that policies in CEL know them by; one that there is none of, such as oldObject at a creation, is
// undefined rather than null. Types are checked: a field that a VirtualMachineInstance does not have is an Issue.
// Quantities are strings in their canonical form, so 1024Mi is 1Gi; units.parse and units.parse_bytes read them.
// managedFields are left out.
//
// There is no data but the module's own, and of OPA's built-in functions only the pure ones: Builtins says which
// are missing, and why. The same input gives the same answer everywhere. Evaluation is bounded in steps, and in the
// memory that functions, comprehensions and rules may take, both of which a laptop counts as the cluster does. It never
// reads a clock.
package rego
