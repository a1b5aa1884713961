// Package provenance records who set which field.
//
// What enters: a typed field, a value and the layer that offers it. What leaves: the same field, filled
// if it was zero, and a Change that names its path, its value and its layer. The package never
// overwrites a field that has a value, so the user's words always win.
package provenance
