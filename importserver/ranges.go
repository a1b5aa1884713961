package importserver

import (
	"strconv"
	"strings"
)

// span is a part of a disk, from offset to before end.
type span struct{ offset, end int64 }

// rangeOf returns what a request with the header Range gets of a disk of a size in bytes, and whether that is a partial answer. No range
// is an error: nbdkit requests bytes behind the end, and CDI fails on an error. What cannot be read as one range is the whole disk.
func rangeOf(header string, size int64) (part span, partial bool) {
	whole := span{0, size}
	text, isBytes := strings.CutPrefix(strings.TrimSpace(header), "bytes=")
	first, last, isRange := strings.Cut(strings.TrimSpace(text), "-")
	if !isBytes || !isRange {
		return whole, false
	}
	if first == "" {
		n, ok := number(last)
		if !ok {
			return whole, false
		}
		return span{size - min(max(n, 1), size), size}, true
	}
	from, ok := number(first)
	if !ok {
		return whole, false
	}
	to := size - 1
	if last != "" {
		if to, ok = number(last); !ok || to < from {
			return whole, false
		}
	}
	from = min(from, size-1)
	return span{from, min(max(to, from), size-1) + 1}, true
}

// number reads a number without a sign. One that is too large is the largest.
func number(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64) // n is the largest number if it is out of range
	return n, err == nil || n > 0
}
