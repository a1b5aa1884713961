package ports

import (
	"os"
	"testing"
)

func TestPortsAreNotHandedOutTwice(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	one, err := New(parent)
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(parent)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for i := range 60 {
		from := []*Set{one, other}[i%2]
		port, err := from.Take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < First || port > Last {
			t.Errorf("port %d was handed out twice or is out of range", port)
		}
		seen[port] = true
	}
	one.Release()
	other.Release()
	if left, _ := os.ReadDir(one.folder); len(left) != 0 {
		t.Errorf("%d ports are still locked", len(left))
	}
}
