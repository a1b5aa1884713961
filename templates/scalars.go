package templates

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/texts"
)

// decodesItself writes a value for a type with a decoder of its own.
func (r *renderer) decodesItself(node any, s *shape) {
	if text, ok := node.(string); ok && !decode.Parsable(text) && strings.Contains(s.of.String(), "Quantity") {
		r.mismatch(&shape{kind: itself}, text)
		return
	}
	data, err := json.Marshal(node)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(s.of).Interface())
	}
	if err != nil {
		r.deny(RuleDoesNotDecode, invalid(r.at(), texts.Shorten(strings.Trim(string(data), `"`), maxShown), "it must be a "+nameOf(s.of)))
		return
	}
	r.write(string(data))
}

// nameOf is what a type is called in messages.
func nameOf(t reflect.Type) string {
	switch t.Name() {
	case "Quantity":
		return "quantity such as 4Gi"
	case "Time", "MicroTime":
		return "time such as 2006-01-02T15:04:05Z"
	case "Duration":
		return "duration such as 30s"
	case "IntOrString":
		return "number or a string"
	case "":
		return "text in base64"
	}
	return t.Name()
}

// number writes a number, for a field that takes one.
func (r *renderer) number(n json.Number, s *shape) {
	switch s.kind {
	case anything, float:
		r.write(string(n))
	case itself:
		if !decode.Parsable(string(n)) {
			r.mismatch(s, string(n))
			return
		}
		r.decodesItself(n, s)
	case integer, unsigned:
		digits, ok := integerOf(string(n), s)
		if !ok {
			r.deny(RuleDoesNotDecode, invalid(r.at(), texts.Shorten(string(n), maxShown), "it must be an integer of "+strconv.Itoa(s.of.Bits())+" bits"+unsignedNote(s)))
			return
		}
		r.write(digits)
	default:
		r.mismatch(s, string(n))
	}
}

func unsignedNote(s *shape) string {
	if s.kind == unsigned {
		return ", not negative"
	}
	return ""
}

// exactFloat bounds the integers that a float holds exactly.
const exactFloat = 1 << 53

// integerOf are the digits of an integer that fits the type. 4.0 and 1e3 are integers too.
func integerOf(n string, s *shape) (string, bool) {
	if strings.ContainsAny(n, ".eE") {
		f, err := strconv.ParseFloat(n, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > exactFloat {
			return "", false
		}
		n = strconv.FormatInt(int64(f), 10)
	}
	var err error
	if s.kind == unsigned {
		_, err = strconv.ParseUint(n, 10, s.of.Bits())
	} else {
		_, err = strconv.ParseInt(n, 10, s.of.Bits())
	}
	return n, err == nil
}
