package auditresults

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// TestEqualResultsShareTexts holds that objects which violate a source in the same way share the texts and the numbers.
func TestEqualResultsShareTexts(t *testing.T) {
	l := New(roomy)
	l.Begin()
	for i := range 12 {
		put(l, fmt.Sprintf("vm-%02d", (i*5)%12), of("cap", Fail, strings.Clone("too large")))
	}
	ns := l.namespaces["default"]
	group := ns.held.groups[Source{Name: "cap"}]
	if len(group) != 12 || cap(group) > 16 {
		t.Fatalf("%d results, room for %d", len(group), cap(group))
	}
	for i := range group {
		if unsafe.StringData(group[i].Message) != unsafe.StringData(group[0].Message) { //nolint:gosec // compares addresses
			t.Errorf("result %d has a message of its own", i)
		}
	}
	first := ns.objects[object{"VirtualMachine", "vm-00"}].tallies
	for at, record := range ns.objects {
		if &record.tallies[0] != &first[0] {
			t.Errorf("%s has numbers of its own", at.name)
		}
	}
	put(l, "vm-00", of("cap", Fail, "1"), of("cap", Fail, "2"))
	if got := ns.objects[object{"VirtualMachine", "vm-01"}].tallies[0].counts[Fail]; got != 1 {
		t.Errorf("a change of one object changed another: %d", got)
	}
}
