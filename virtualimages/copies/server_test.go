package copies

import (
	"fmt"
	"testing"
)

// TestReadersOfANamespace: the readers of one namespace leave places for others, however many images it has.
func TestReadersOfANamespace(t *testing.T) {
	s := &Server{}
	for _, image := range []string{"a", "b"} {
		for range maxOfImage {
			if !s.enter("team", image) {
				t.Fatalf("a reader of %s does not enter", image)
			}
		}
		if s.enter("team", image) {
			t.Errorf("more than %d readers of one image", maxOfImage)
		}
	}
	if s.enter("team", "c") {
		t.Errorf("more than %d readers of one namespace", MaxReaders/2)
	}
	if !s.enter("other", "d") {
		t.Error("another namespace has no place")
	}
	s.leave("team", "a")
	if !s.enter("team", "c") {
		t.Error("a place that is free is not given")
	}
	s.leave("team", "c")
	s.leave("other", "d")
	for range maxOfImage - 1 {
		s.leave("team", "a")
	}
	for range maxOfImage {
		s.leave("team", "b")
	}
	if s.all != 0 || len(s.readers) != 0 {
		t.Errorf("%d readers are left: %v", s.all, s.readers)
	}
}

// TestReadersOfManyNamespaces: namespaces that take all they can leave places for others.
func TestReadersOfManyNamespaces(t *testing.T) {
	s := &Server{}
	for i, want := range []int{32, 16, 8, 4, 2, 1} {
		namespace, got := fmt.Sprint("team-", i), 0
		for s.enter(namespace, fmt.Sprint(namespace, got/maxOfImage)) {
			got++
		}
		if got != want {
			t.Errorf("%s has %d readers, want %d", namespace, got, want)
		}
	}
}
