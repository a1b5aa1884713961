// Package text holds the texts of open documents, and edits them.
//
// Its input is a text and the changes of an editor. Its output is the new text, and conversions between offsets in bytes
// and positions, whose characters are counted in the encoding that the editor and the server agreed on. It knows no YAML.
package text
