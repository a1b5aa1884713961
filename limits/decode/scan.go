package decode

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// census is what scan finds in an object.
type census struct {
	// values are the objects and lists, members what is in them.
	values, members int
	// suspicious: a number, or a string that begins like one, is longer than a quantity may be.
	suspicious bool
	// unread are the members of the object's metadata that are not evaluated: neither counted here nor decoded.
	unread []unread
}

// unread is a member of the object's metadata: its bytes from the quote of its name to the end of its value.
type unread struct {
	from, to int
	// value is where the value begins.
	value int
	// owners tells that these are the owner references.
	owners bool
}

// The members of an object's metadata that are not evaluated: they do not describe how a virtual machine runs. Of owner
// references, a few are evaluated.
const (
	managers   = "managedFields"
	finalizers = "finalizers"
	owners     = "ownerReferences"
)

// maxOwners bounds the owner references that are decoded, in bytes of JSON; of more than that, only those of
// controllers are.
const maxOwners = 8 << 10

// ManyOwners reports whether not all of some owner references in JSON are decoded.
func ManyOwners(references string) bool { return len(references) > maxOwners }

// Depths of the root object and of its metadata.
const (
	rootDepth     = 1
	metadataDepth = 2
)

// scan looks at every byte of an object once.
func scan(object []byte) census {
	s := scanner{object: object}
	for s.at < len(object) {
		switch b := object[s.at]; {
		case b == '"':
			s.text()
		case b >= '0' && b <= '9' || b == '-':
			s.number()
		default:
			s.mark(b)
			s.at++
		}
	}
	return s.census
}

// scanner is a scan that is under way.
type scanner struct {
	census

	object []byte
	at     int
	// depth is the number of objects and lists that are open.
	depth int
	// metadata tells that the value at metadataDepth is the object's metadata, or, at rootDepth, that the next one is.
	metadata bool
	// skipping tells that the last of unread is open.
	skipping bool
}

// mark counts at a character outside of strings and numbers.
func (s *scanner) mark(b byte) {
	switch b {
	case '{', '[':
		s.depth++
		if !s.skipping {
			s.values++
		}
	case '}', ']':
		s.depth--
		if s.depth < metadataDepth {
			s.close()
			s.metadata = false
		}
	case ',':
		if s.depth == metadataDepth {
			s.close()
		}
		if s.depth == rootDepth {
			s.metadata = false
		}
		if !s.skipping {
			s.members++
		}
	}
}

// close ends the member that is not evaluated.
func (s *scanner) close() {
	if s.skipping {
		s.skipping = false
		s.unread[len(s.unread)-1].to = s.at
	}
}

// text scans a string, and skips it.
func (s *scanner) text() {
	from := s.at
	end := ClosingQuote(s.object, from+1)
	text := s.object[from+1 : end]
	s.at = min(end+1, len(s.object))
	if s.skipping {
		return
	}
	s.suspicious = s.suspicious || looksLong(text)
	switch {
	case s.depth == rootDepth && string(text) == "metadata":
		_, s.metadata = s.name()
	case s.depth == metadataDepth && s.metadata && (string(text) == managers || string(text) == finalizers || string(text) == owners):
		if value, ok := s.name(); ok {
			s.unread = append(s.unread, unread{from: from, value: value, owners: string(text) == owners})
			s.skipping = true
		}
	}
}

// name reports whether the string that ends here is the name of a member, and where its value begins.
func (s *scanner) name() (value int, ok bool) {
	rest := s.object[s.at:]
	colon := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n"))
	return s.at + colon + 1, colon < len(rest) && rest[colon] == ':'
}

// number scans a number, and skips it.
func (s *scanner) number() {
	from := s.at
	for s.at++; s.at < len(s.object) && Numeric(s.object[s.at]); s.at++ {
		continue
	}
	if !s.skipping {
		s.suspicious = s.suspicious || looksLong(s.object[from:s.at])
	}
}

// ClosingQuote finds the quote that ends a string of JSON which begins at from; the length of the text if there is none.
func ClosingQuote[T ~string | ~[]byte](text T, from int) int {
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++ // what is escaped
		}
	}
	return len(text)
}

// Numeric reports whether a byte can be a part of a number of JSON.
func Numeric(b byte) bool {
	return b >= '0' && b <= '9' || b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-'
}

// looksLong reports whether a text begins like a number and is not Parsable. A text that is escaped where it may
// still be a number is looked at once it is decoded.
func looksLong(text []byte) bool {
	text = bytes.TrimSpace(text) // as the decoder of quantities does
	if len(text) == 0 || !Numeric(text[0]) && text[0] != '\\' {
		return false
	}
	digits, exponent, escaped := measure(text)
	return escaped || digits > maxDigits || exponent > maxExponentDigits
}

// evaluated is the object without its members that are not evaluated, in the buffer if it has any.
func (c *census) evaluated(buffer *[]byte, object []byte) []byte {
	if len(c.unread) == 0 {
		return object
	}
	kept := slices.Grow((*buffer)[:0], len(object))
	from := 0
	for _, u := range c.unread {
		if u.to == 0 { // it does not end, and decoding the object fails
			return object
		}
		kept = append(kept, object[from:u.from]...)
		from = u.to
		if u.owners {
			kept = append(append(append(kept, '"'), owners...), `":`...)
			kept = append(kept, ofControllers(object[u.value:u.to])...)
			continue
		}
		// A comma before it, or else the one behind it, goes too.
		if trimmed := bytes.TrimRight(kept, " \t\r\n"); bytes.HasSuffix(trimmed, []byte(",")) {
			kept = trimmed[:len(trimmed)-1]
		} else if rest := bytes.TrimLeft(object[from:], " \t\r\n"); bytes.HasPrefix(rest, []byte(",")) {
			from = len(object) - len(rest) + 1
		}
	}
	kept = append(kept, object[from:]...)
	*buffer = kept
	return kept
}

// ofControllers are owner references, or those of controllers if they are too many.
func ofControllers(references []byte) []byte {
	if len(references) <= maxOwners {
		return references
	}
	var found []string
	bytes := 0
	gjson.ParseBytes(references).ForEach(func(_, reference gjson.Result) bool {
		if bytes+len(reference.Raw) <= maxOwners && reference.Get("controller").Type == gjson.True {
			found = append(found, reference.Raw)
			bytes += len(reference.Raw)
		}
		return true
	})
	return []byte("[" + strings.Join(found, ",") + "]")
}

// fewBrackets are so few that it does not matter how many of them are in texts.
const fewBrackets = 256

// Brackets returns the number of objects and lists in JSON. Brackets in texts do not count, unless there are only a few.
func Brackets(object []byte) int {
	n := bytes.Count(object, []byte("{")) + bytes.Count(object, []byte("["))
	if n <= fewBrackets {
		return n
	}
	n = 0
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			n++
		case '"':
			i = ClosingQuote(object, i+1)
		}
	}
	return n
}
