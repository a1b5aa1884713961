// Package explanation shows what the pipeline made of a virtual machine: as YAML with the layer of each field and
// the findings in comments, as a table, or as JSON; and the findings alone as SARIF or JUnit.
//
// What enters: the object as written and the verdict of the pipeline. What leaves: text, the same for the
// same input. The package computes nothing about a virtual machine.
package explanation
