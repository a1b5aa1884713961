package ovf

import (
	"errors"
	"testing"
)

func parsed(t *testing.T, text string) *Descriptor {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRejectedDocuments holds that what is not a well-formed descriptor within the limits is rejected with a class and a reason.
func TestRejectedDocuments(t *testing.T) {
	for name, c := range rejected() {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			var rejection *Rejection
			if !errors.As(err, &rejection) || rejection.Reason != c.reason || rejection.Message == "" || rejection.Remedy == "" {
				t.Errorf("got %v, want %s", err, c.reason)
			}
		})
	}
}
