package validators

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestComparePaths(t *testing.T) {
	sorted := []string{
		"", "spec", "spec.a", "spec.a[0]", "spec.a[0].b", "spec.a[0].b[3]", "spec.a[1]", "spec.a[2].c", "spec.a[9]", "spec.a[10]", "spec.a[10].b",
		"spec.a[11]", "spec.a[100]", "spec.a[key]", "spec.ab", "spec.b10", "spec.b9",
	}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, ComparePaths)
	if diff := cmp.Diff(sorted, shuffled); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for _, a := range sorted {
		for _, b := range sorted {
			if (ComparePaths(a, b) == 0) != (a == b) || ComparePaths(a, b) != -ComparePaths(b, a) {
				t.Errorf("%q and %q: %d, and the other way %d", a, b, ComparePaths(a, b), ComparePaths(b, a))
			}
		}
	}
}
