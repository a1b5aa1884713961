// Package outline finds fields in the text of YAML that an author still types.
//
// Its input is a text, which can be broken. Its output is Fields with their paths and offsets, and the Cursor at an offset. It
// reads lines by their indentation, and flow mappings by their brackets, so that a syntax error hides only what is beside it. It
// evaluates nothing: package manifests has the exact parser.
package outline
