// Package inspect evaluates single expressions, for authors of policies.
//
// What enters: an expression in CEL or Rego, and the documents of an object. What leaves: its value, its type, its cost, and
// the values of its parts; or what is wrong, with the position. The budgets are those of policies. The package changes
// nothing, and reads no cluster.
package inspect
