package policytest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Time is a time of a suite in any form of RFC 3339: with or without a fraction, with an offset or Z, in lower case, with a space
// instead of T, or a date, which stands for its first moment in UTC.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a time is a text such as 2026-01-31T12:00:00Z: %w", err)
	}
	upper := strings.ToUpper(text)
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", time.DateOnly} {
		if parsed, err := time.Parse(form, upper); err == nil {
			t.Time = parsed
			return nil
		}
	}
	return fmt.Errorf("%.40q is no time of RFC 3339, such as 2026-01-31T12:00:00Z or 2026-01-31", text)
}
