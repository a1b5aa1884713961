// Package rejections evaluates the examples of rules.
//
// Its input is an example of a rule, and an object: that of the example, or the same after its remedy. Its output is the findings that
// users would see. It needs no cluster. The servers do not import it.
package rejections
