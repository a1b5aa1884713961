// Package templates reports whether VirtualMachineTemplates are ready, from evidence.
//
// What enters: a template, the result of its evaluation with the default values, and the volumes that it refers to. What
// leaves: the condition Ready, the volumes and the parameters in the status of the template. What depends on required
// parameters is not guessed: the message names them.
//
// The package keeps the names of templates and of the objects they refer to, and no objects.
package templates
