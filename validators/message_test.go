package validators

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestMessage(t *testing.T) {
	path := field.NewPath("spec", "a")
	for name, tc := range map[string]struct {
		finding Finding
		want    string
	}{
		"whole": {
			Finding{Rule: "r", Error: field.Invalid(path, 7, "must be odd"), Remedy: "Add one."},
			"Invalid value: 7: must be odd [virtward/r] Add one.",
		},
		"no remedy": {Finding{Rule: "r", Error: field.Required(path, "is missing")}, "Required value: is missing [virtward/r]"},
		"from a layer": {
			Finding{Rule: "r", Error: field.Invalid(path, 7, "must be odd"), Layer: "site/lab"},
			"not set; the default is 7: must be odd (filled by site/lab) [virtward/r]",
		},
		"from an object, and known": {
			Finding{Rule: "r", Error: field.Invalid(path, 7, "must be odd"), Layer: "preference/p", Source: "Preference p sets a by its b", PreExisting: true},
			"Invalid value: 7: must be odd (Preference p sets a by its b) (pre-existing: tolerated on update, denied on create) [virtward/r]",
		},
		"a long value": {
			Finding{Rule: "r", Error: field.Invalid(path, strings.Repeat("é", 5000), "is long")},
			`Invalid value: "` + strings.Repeat("é", 100) + `…": is long [virtward/r]`,
		},
		"a long value, cut within a character": {
			Finding{Rule: "r", Error: field.Invalid(path, "x"+strings.Repeat("é", 5000), "is long")},
			`Invalid value: "x` + strings.Repeat("é", 99) + `…": is long [virtward/r]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.finding.Message(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
