package templateimport

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/test/isolated"
)

// TestParsedMemory holds that no descriptor needs more memory, at any time while it is parsed, than the bound of readings says.
func TestParsedMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	debug.SetGCPercent(5) // so that what is measured is reachable
	for name, parts := range map[string][3]string{
		"attributes of an element":  {"<Envelope ", `a%d="" `, "/>"},
		"the same attribute":        {"<Envelope", ` a%.0d=""`, "/>"},
		"attributes of elements":    {"<Envelope>", `<a%d a="" b="" c="" d="" e=""/>`, "</Envelope>"},
		"names":                     {"<Envelope>", `<aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%d/>`, "</Envelope>"},
		"files":                     {"<Envelope><References>", `<File href="%d"/>`, "</References></Envelope>"},
		"virtual systems":           {"<Envelope><VirtualSystemCollection>", `<VirtualSystem id="%d"/>`, "</VirtualSystemCollection></Envelope>"},
		"items of virtual hardware": {"<Envelope><VirtualSystem><VirtualHardwareSection>", `<Item a="%d"/>`, "</VirtualHardwareSection></VirtualSystem></Envelope>"},
	} {
		var b strings.Builder
		b.WriteString(parts[0])
		for i := 0; b.Len() < ovf.MaxBytes-200; i++ {
			fmt.Fprintf(&b, parts[1], i)
		}
		b.WriteString(parts[2])
		descriptor := []byte(b.String())
		before, most := isolated.Heap(), int64(0)
		ended, measured := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(measured)
			for {
				most = max(most, isolated.InUse())
				select {
				case <-ended:
					return
				default:
				}
			}
		}()
		_, _ = ovf.Parse(descriptor)
		close(ended)
		<-measured
		if took := most - before + int64(len(descriptor)); took > parsed*int64(len(descriptor)) {
			t.Errorf("%s: a descriptor of %d bytes takes %d, more than %d times as much", name, len(descriptor), took, parsed)
		}
	}
}
