// Package templates renders VM templates: it replaces the references to parameters in the VirtualMachine of a
// VirtualMachineTemplate with values, and decodes the result strictly. See VEP 76.
//
// A string is scanned once, and values are never scanned: a value that contains ${OTHER} stays as it is. ${NAME} is
// replaced within any string and any map key. ${{NAME}}, as a whole string, is replaced with the value as JSON, or with
// the text itself if that is no JSON.
//
// Every fault is reported, each at its field: of the template (spec.parameters[0].from,
// spec.virtualMachine.spec.template), or of the given values (parameters[NAME]). The package is pure: randomness is a
// parameter.
package templates
