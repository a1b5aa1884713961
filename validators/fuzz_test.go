package validators_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

const everyScope = validators.OnSpec | validators.OnVM | validators.OnVMUpdate | validators.OnVMI | validators.OnVMIUpdate

// checker runs all rules for an object.
type checker struct {
	pipeline *effective.Pipeline
	base     validators.Table
}

func newChecker(t testing.TB) *checker {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	base, err := validators.Base()
	if err != nil {
		t.Fatal(err)
	}
	return &checker{pipeline: effective.NewPipeline(registry), base: base}
}

// check holds what must be true of findings whatever the object: they have a rule, a message and a field of
// the object, and they are sorted. Every rule looks at the object as written and as completed.
func (c *checker) check(t *testing.T, object, old []byte) {
	t.Helper()
	for _, o := range [][]byte{object, old} {
		if decode.Object(o, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil || decode.Object(o, reflect.TypeFor[v1.VirtualMachine]()) != nil {
			return // no caller decodes these
		}
	}
	facts := platform.Defaults(platform.Settings{})
	s := &validators.Subject{Facts: facts, Path: field.NewPath("spec"), Meta: &metav1.ObjectMeta{}, MetaPath: field.NewPath("metadata")}
	s.VMI, s.OldVMI, s.VM, s.OldVM = &v1.VirtualMachineInstance{}, &v1.VirtualMachineInstance{}, &v1.VirtualMachine{}, &v1.VirtualMachine{}
	for into, from := range map[any][]byte{s.VMI: object, s.OldVMI: old, s.VM: object, s.OldVM: old} {
		if json.Unmarshal(from, into) != nil {
			return
		}
	}
	s.Spec, s.Meta = &s.VMI.Spec, &s.VMI.ObjectMeta
	c.run(t, s)
	verdict, err := c.pipeline.Decide(effective.Input{VMI: s.VMI, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	complete := *s
	complete.VMI, complete.Spec = verdict.VMI, verdict.Spec
	c.run(t, &complete)
}

func (c *checker) run(t *testing.T, s *validators.Subject) {
	t.Helper()
	for _, table := range []validators.Table{c.base, validators.ForArchitecture("amd64"), validators.ForArchitecture("arm64"), validators.ForArchitecture("s390x")} {
		checkFindings(t, table.Check(s, everyScope))
	}
}

func checkFindings(t *testing.T, findings []validators.Finding) {
	t.Helper()
	for _, f := range findings {
		if f.Rule == "" || f.Error == nil || f.Error.Type == "" || f.Error.ErrorBody() == "" {
			t.Errorf("a finding that says nothing: %+v", f)
		}
	}
	if !slices.IsSortedFunc(findings, func(a, b validators.Finding) int { return validators.ComparePaths(a.Error.Field, b.Error.Field) }) {
		t.Error("findings are not sorted by field")
	}
}

// FuzzRules: no object makes a rule panic.
func FuzzRules(f *testing.F) {
	objects := recordedObjects(f)
	for i := 0; i < len(objects); i += 50 {
		f.Add(objects[i], objects[(i*7)%len(objects)])
	}
	c := newChecker(f)
	f.Fuzz(c.check)
}

// FuzzInstancetypeRules: no instancetype and no preference makes a rule panic.
func FuzzInstancetypeRules(f *testing.F) {
	for _, line := range recordedLines(f, "instancetype.jsonl") {
		var c struct{ Instancetype, Preference json.RawMessage }
		if err := json.Unmarshal(line, &c); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(c.Instancetype), []byte(c.Preference))
	}
	c := newChecker(f)
	f.Fuzz(func(t *testing.T, instancetype, preference []byte) {
		s := &validators.Subject{Facts: platform.Defaults(platform.Settings{}), Path: field.NewPath("spec")}
		if decode.Object(instancetype, reflect.TypeOf(s.Instancetype).Elem()) != nil || decode.Object(preference, reflect.TypeOf(s.Preference).Elem()) != nil {
			return // no caller decodes these
		}
		if json.Unmarshal(instancetype, &s.Instancetype) != nil || json.Unmarshal(preference, &s.Preference) != nil {
			return
		}
		checkFindings(t, c.base.Check(s, validators.OnInstancetype|validators.OnPreference))
	})
}

// TestRulesTakeEverything runs every rule over every recorded object, with another one as what it was before.
func TestRulesTakeEverything(t *testing.T) {
	objects, c := recordedObjects(t), newChecker(t)
	for i := range objects {
		c.check(t, objects[i], objects[(i*31+7)%len(objects)])
	}
}

func recordedObjects(t testing.TB) [][]byte {
	t.Helper()
	var objects [][]byte
	for _, name := range []string{"admission.jsonl", "panics.jsonl"} {
		for _, line := range recordedLines(t, name) {
			var c struct{ Object, OldObject json.RawMessage }
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			objects = append(objects, c.Object)
			if len(c.OldObject) > 4 {
				objects = append(objects, c.OldObject)
			}
		}
	}
	return objects
}
