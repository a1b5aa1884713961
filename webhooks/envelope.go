package webhooks

import (
	"sync"

	"github.com/tidwall/gjson"

	"github.com/virtward/virtward/limits/decode"
)

// An AdmissionReview is decoded without its objects, which are most of its bytes: they are decoded once, later, into their types.

// maxNesting bounds the brackets of a review whose objects are cut out. The check of its JSON is recursive.
const maxNesting = 8 << 10

// cutOut returns an AdmissionReview with null in the place of its objects, in a buffer, and the objects, which are parts of the body. They
// are nil if there are none. ok is false for a review that is not JSON, that has an object twice, or too many brackets.
func cutOut(buffer, body []byte) (rest, object, old []byte, ok bool) {
	if decode.Brackets(body) > maxNesting || !gjson.ValidBytes(body) {
		return nil, nil, nil, false
	}
	ok, at := true, 0
	rest = buffer[:0]
	requests := 0
	cut := func(of *[]byte, from, to int) {
		ok = ok && *of == nil
		*of = body[from:to:to]
		rest = append(append(rest, body[at:from]...), "null"...)
		at = to
	}
	decode.Members(body, 0, func(name []byte, from int) int {
		if string(name) != "request" {
			return decode.Skip(body, from)
		}
		requests++
		return decode.Members(body, from, func(name []byte, from int) int {
			to := decode.Skip(body, from)
			switch string(name) {
			case "object":
				cut(&object, from, to)
			case "oldObject":
				cut(&old, from, to)
			}
			return to
		})
	})
	return append(rest, body[at:]...), notNull(object), notNull(old), ok && requests == 1
}

// outside is what a review has besides its objects, in bytes, mostly. Longer buffers are not kept for other reviews.
const outside = 2 << 10

// envelopes are buffers for reviews without their objects.
var envelopes = sync.Pool{New: func() any { return new([outside]byte) }}

func notNull(value []byte) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}
