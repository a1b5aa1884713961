package manifests

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

// split splits a file at the markers of YAML: lines that begin with --- or .... What follows a marker in its line is
// part of the next document. Every byte but the markers is in one chunk, or in a chunk that is left out because it has
// only blanks, comments and directives. So an error in one document does not hide another.
func split(data []byte) []*text {
	var chunks []*text
	from := cursor{text: newText(data, 1, 1), line: 1, column: 1}
	begin := 0
	cut := func(end, next int) {
		if content := data[begin:end]; !isEmpty(content) {
			from.advance(begin)
			chunks = append(chunks, newText(content, from.line, from.column))
		}
		begin = next
	}
	for at := 0; at < len(data); at = nextLine(data, at) {
		if isMarker(data[at:]) {
			cut(at, at+markerLength)
		}
	}
	cut(len(data), len(data))
	return chunks
}

const markerLength = 3

// isMarker reports whether a line begins with a marker, which a blank or the end of the line follows.
func isMarker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == markerLength || bytes.IndexByte([]byte(" \t\r\n"), line[markerLength]) >= 0
}

// nextLine returns the begin of the next line. Lines end as in YAML: with a line feed, a carriage return, or both.
func nextLine(data []byte, at int) int {
	end := bytes.IndexAny(data[at:], "\r\n")
	if end < 0 {
		return len(data)
	}
	return at + end + 1
}

// isEmpty reports whether a text has only blanks, comments and directives of YAML.
func isEmpty(content []byte) bool {
	for at := 0; at < len(content); {
		next := nextLine(content, at)
		if line := bytes.TrimSpace(content[at:next]); len(line) > 0 && line[0] != '#' && content[at] != '%' {
			return false
		}
		at = next
	}
	return true
}

// objects splits a text at the lines that begin with a brace, where JSON objects begin that are written one after
// another. It returns nothing for a text that does not begin with an object.
func objects(chunk *text) []*text {
	if !looksLikeJSON(chunk) {
		return nil
	}
	var parts []*text
	from := cursor{text: chunk, line: chunk.line, column: chunk.column}
	begin := 0
	for at := nextLine(chunk.content, 0); ; at = nextLine(chunk.content, at) {
		if at < len(chunk.content) && chunk.content[at] != '{' {
			continue
		}
		if content := chunk.content[begin:at]; len(bytes.TrimSpace(content)) > 0 {
			from.advance(begin)
			parts = append(parts, newText(content, from.line, from.column))
		}
		if begin = at; at == len(chunk.content) {
			return parts
		}
	}
}

// utf8Of returns a text in UTF-8, without a byte order mark. Shells of Windows write UTF-16.
func utf8Of(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return bytes.TrimPrefix(data, []byte("\uFEFF"))
	}
	units := make([]uint16, 0, len(data)/2)
	for at := 2; at+1 < len(data); at += 2 {
		units = append(units, order.Uint16(data[at:]))
	}
	return []byte(string(utf16.Decode(units)))
}
