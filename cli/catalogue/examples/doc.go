// Package examples has an example of each built-in rule: an object that violates only this rule, and a JSON patch that is the
// remedy.
//
// Its input is the files beside it, one for each area of rules. Its output is values. The servers do not import it.
package examples
