package ovf

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// programmatic matches a unit of DSP0004: byte * 2^20, byte*10^9, byte * 1024.
var programmatic = regexp.MustCompile(`^bytes?((?:\s*\*\s*(?:\d{1,12}\s*\^\s*\d{1,2}|\d{1,12}))*)$`)

// named are units by their names, as powers of 1024.
var named = []struct {
	names []string
	power int
}{
	{[]string{"k", "kb", "kib", "kilobyte", "kilobytes"}, 1},
	{[]string{"m", "mb", "mib", "megabyte", "megabytes", "mebibytes"}, 2},
	{[]string{"g", "gb", "gib", "gigabyte", "gigabytes", "gibibytes"}, 3},
	{[]string{"t", "tb", "tib", "terabyte", "terabytes", "tebibytes"}, 4},
}

// bytesIn is the number of bytes in a unit; false if the unit is not known.
func bytesIn(unit string) (int64, bool) {
	unit = strings.ToLower(strings.TrimSpace(unit))
	for _, n := range named {
		if slices.Contains(n.names, unit) {
			return 1 << (10 * n.power), true
		}
	}
	match := programmatic.FindStringSubmatch(unit)
	if match == nil {
		return 0, false
	}
	factor := 1.0
	for _, part := range strings.Split(match[1], "*") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		base, exponent, power := strings.Cut(part, "^")
		b, _ := strconv.ParseFloat(strings.TrimSpace(base), 64)
		e := 1.0
		if power {
			e, _ = strconv.ParseFloat(strings.TrimSpace(exponent), 64)
		}
		factor *= math.Pow(b, e)
	}
	if factor < 1 || factor > 1<<60 {
		return 0, false
	}
	return int64(factor), true
}

// times multiplies a number of units by their size; false if the number is not a positive whole one or the product is above a limit.
func times(quantity string, unit, limit int64) (product int64, valid bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(quantity), 10, 64)
	if err != nil || n <= 0 || n > limit/unit {
		return 0, false
	}
	return n * unit, true
}
