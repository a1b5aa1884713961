package memory

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Several holders that take all they get leave something for another one.
func TestParts(t *testing.T) {
	p := NewParts(64)
	var taken []int
	var releases []func()
	for holder := range 7 {
		n := 0
		for {
			release, err := p.Acquire(t.Context(), fmt.Sprint(holder), 1)
			if err != nil {
				break
			}
			releases = append(releases, release)
			n++
		}
		taken = append(taken, n)
	}
	if diff := cmp.Diff([]int{32, 16, 8, 4, 2, 1, 1}, taken); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if _, err := p.Acquire(t.Context(), "none", 1); !errors.Is(err, ErrBusy) {
		t.Error("more than the total is taken")
	}
	for _, release := range releases {
		release()
	}
	if p.all != 0 || len(p.taken) != 0 {
		t.Errorf("%d are not returned: %v", p.all, p.taken)
	}
	if _, err := p.Acquire(t.Context(), "one", 33); !errors.Is(err, ErrBusy) {
		t.Error("one holder gets more than half")
	}
}
