package effective_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/validators"
)

// A finding about a field that its author did not write does not quote a value as the author's. All objects of the
// conformance cases are evaluated with all hypervisors and architectures.
func TestFindingsAboutUnwrittenFields(t *testing.T) {
	p := pipeline(t)
	// These quote a value that the author wrote in another field.
	elsewhere := []string{"memory-hugepages-multiple", "dra-claim-declared"}
	quoted := map[string]string{}
	findings, unwritten := 0, 0
	for i, object := range writtenObjects(t) {
		if decode.Object([]byte(object), reflect.TypeFor[v1.VirtualMachineInstance]()) != nil {
			continue
		}
		vmi := &v1.VirtualMachineInstance{}
		if json.Unmarshal([]byte(object), vmi) != nil {
			continue
		}
		verdict, err := p.Decide(effective.Input{VMI: vmi, Raw: []byte(object), Facts: factsOf(t, uint8(i%256))})
		if err != nil {
			t.Fatal(err)
		}
		document := map[string]any{}
		if err := json.Unmarshal([]byte(object), &document); err != nil {
			t.Fatal(err)
		}
		for j := range verdict.Findings {
			f := &verdict.Findings[j]
			findings++
			steps := fieldpath.Split(f.Error.Field)
			if value, known := fieldpath.Get(document, steps); known == len(steps) && value != nil {
				continue
			}
			unwritten++
			if text := f.Text(); quotes(f, text) && !slices.Contains(elsewhere, f.Rule) {
				quoted[f.Rule] = f.Error.Field + ": " + text
			}
		}
	}
	t.Logf("%d findings, %d about fields that are not written", findings, unwritten)
	if unwritten < 100 {
		t.Error("the cases have no such findings")
	}
	for rule, text := range quoted {
		t.Errorf("%s: %s", rule, text)
	}
}

// quotes reports whether a text begins with a value that is said to be the author's.
func quotes(f *validators.Finding, text string) bool {
	for _, prefix := range []string{"Invalid value: ", "Unsupported value: ", "Duplicate value: "} {
		rest, found := strings.CutPrefix(text, prefix)
		if found && !strings.HasPrefix(rest, f.Error.Detail) && f.Source == "" {
			return true
		}
	}
	return false
}
