// Package rego compiles and evaluates policies in Rego, with OPA's evaluator.
//
// What enters: the text of one module, and an Input, which has the documents that a policy can read. What leaves: the
// Problems of an invalid module, each with its line and column, or Violations. The contract of a module:
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
// A module is Rego v1, in a package of any name. It has deny, or warn, or both: partial sets whose elements are a message,
// or an object with msg and, optionally, field. The documents have the same names as in CEL. A missing document, such as
// oldObject at a create, is undefined, not null. Types are checked: a field that a VirtualMachineInstance does not have
// is a Problem. Quantities are strings in their canonical form, so 1024Mi is 1Gi; units.parse and units.parse_bytes read
// them. Documents have no managedFields.
//
// A module has no data except its own, and only the pure built-in functions of OPA; Builtins lists the others with the
// reasons. The same input has the same result everywhere. Evaluation is bounded in steps and in memory, which are counted
// in the same way on every machine. It never reads a clock.
//
// Most evaluations find nothing. So each module also has a screen: its rules in a form that is evaluated without OPA, with the same
// steps and bytes. A screen only decides that no rule of deny and warn holds. As soon as one holds, or something is met that the
// screen does not support, such as an error or a limit, OPA evaluates the module from its beginning.
package rego
