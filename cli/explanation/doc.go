// Package explanation writes the result of evaluating a virtual machine: as YAML with the layers and the findings in
// comments, as a table, or as JSON; and only the findings as SARIF or JUnit.
//
// Its input is the object as written, and the result of the evaluator. Its output is text, equal for equal input. It
// evaluates nothing.
package explanation
