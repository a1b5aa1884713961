// Package provenance records who set which field.
//
// Input: a typed field, a value and the layer that sets it. Output: the same field, with the value if the field was zero, and
// a Change with its path, its value and its layer. The package never overwrites a field that has a value, so the user has
// precedence.
package provenance
