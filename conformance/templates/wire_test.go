package templates

import "testing"

// TestWire holds the aggregated API to virt-template's: at most three of a hundred cases may be other.
func TestWire(t *testing.T) { replay(t, "wire.jsonl", "wire/", 3, 100) }
