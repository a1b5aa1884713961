package policytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
)

// maxPatched is the size of an object after patches, in bytes.
const maxPatched = 4 << 20

// readSubject reads the object and the old one.
func (s *Suite) readSubject(situation *Situation, inTest, inCase string, t *Test, c *Case) error {
	base, inBase := t.Base, inTest+".base"
	if c.Object != nil {
		base, inBase = c.Object, inCase+".object"
	}
	from, err := s.single(inBase, base)
	if err != nil {
		return err
	}
	situation.document = from
	if situation.Object, err = s.patched(inCase+".patches", from.Object, c.Patches); err != nil {
		return err
	}
	if err := s.evaluated(from, situation.Object); err != nil {
		return err
	}
	if c.OldObject == nil && c.OldPatches == nil {
		nameGenerated(situation.Object)
		situation.Operation = cmp.Or(c.Operation, create)
		return nil
	}
	situation.Operation = update
	if c.OldObject != nil {
		if from, err = s.single(inCase+".oldObject", c.OldObject); err != nil {
			return err
		}
	}
	situation.oldDocument = from
	if situation.Old, err = s.patched(inCase+".oldPatches", from.Object, c.OldPatches); err != nil {
		return err
	}
	if err := s.evaluated(from, situation.Old); err != nil {
		return err
	}
	if was, is := situation.Old.GetKind(), situation.Object.GetKind(); was != is {
		return s.problem(inCase, fmt.Sprintf("object and old object must be of one kind, and are %[2]s and %[1]s", was, is))
	}
	if kind := situation.Old.GroupVersionKind().GroupKind(); situation.Running && kind != evaluator.VirtualMachine {
		return s.problem(inCase+".running", fmt.Sprintf("only a VirtualMachine runs, and the old object is a %s", kind.Kind))
	}
	return nil
}

// generated replaces the random characters that the API server adds to generateName.
const generated = "xxxxx"

// nameGenerated names a new object with generateName, as the API server does before it calls webhooks.
func nameGenerated(object *unstructured.Unstructured) {
	if base := object.GetGenerateName(); base != "" && object.GetName() == "" {
		object.SetName(base[:min(len(base), names.MaxGeneratedNameLength)] + generated)
	}
}

// patched returns a copy of an object with patches.
func (s *Suite) patched(field string, object *unstructured.Unstructured, patches []Patch) (*unstructured.Unstructured, error) {
	if len(patches) == 0 {
		return object.DeepCopy(), nil
	}
	data, err := json.Marshal(object.Object)
	if err != nil {
		return nil, s.problem(field, err.Error())
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxPatched
	options.SupportNegativeIndices = false // RFC 6902 has none
	for i := range patches {
		one, err := json.Marshal([]Patch{patches[i]})
		if err != nil {
			return nil, s.problem(index(field, i), err.Error())
		}
		patch, err := jsonpatch.DecodePatch(one)
		if err != nil {
			return nil, s.problem(index(field, i), err.Error())
		}
		if data, err = patch.ApplyWithOptions(data, options); err != nil {
			return nil, s.problem(index(field, i), err.Error())
		}
		if len(data) > maxPatched {
			return nil, s.problem(index(field, i), fmt.Sprintf("the patched object must be no larger than %d MiB", maxPatched>>20))
		}
	}
	var fields map[string]any
	if err := unmarshal(data, &fields); err != nil || fields == nil {
		return nil, s.problem(field, "the result must be an object")
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// evaluated rejects objects of kinds that policies do not evaluate, and those that cannot be read.
func (s *Suite) evaluated(from manifests.Document, object *unstructured.Unstructured) error {
	from.Object = object
	kind := object.GroupVersionKind()
	info, known := evaluator.Info(kind.GroupKind())
	if !known {
		selectable := apikinds.MachineKinds(func(m *apikinds.Machine) bool { return m.Policies })
		return at(from, "kind", fmt.Sprintf("%s is not evaluated: the object of a case is a %s, or of another kind that a VirtualMachine uses", orNothing(kind), strings.Join(apikinds.Names(selectable), ", a ")))
	}
	if err := schemas.Match("", kind); err != nil { // the fields of another version may differ
		return at(from, "apiVersion", err.Error())
	}
	if _, wrong := decodeKnown(from, reflect.New(info.Type).Interface()); wrong != nil {
		return *wrong
	}
	return nil
}
