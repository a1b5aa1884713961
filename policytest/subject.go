package policytest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
)

// maxPatched bounds an object that patches make, in bytes.
const maxPatched = 4 << 20

// readSubject makes the object and the one before.
func (s *Suite) readSubject(situation *Situation, inTest, inCase string, t *Test, c *Case) error {
	base, inBase := t.Base, inTest+".base"
	if c.Object != nil {
		base, inBase = c.Object, inCase+".object"
	}
	from, err := s.single(inBase, base)
	if err != nil {
		return err
	}
	if situation.Object, err = s.patched(inCase+".patches", from.Object, c.Patches); err != nil {
		return err
	}
	if err := s.evaluated(inBase, from, situation.Object); err != nil {
		return err
	}
	if c.OldObject == nil && len(c.OldPatches) == 0 {
		nameGenerated(situation.Object)
		return nil
	}
	situation.Operation = update
	inOld := inBase
	if c.OldObject != nil {
		inOld = inCase + ".oldObject"
		if from, err = s.single(inOld, c.OldObject); err != nil {
			return err
		}
	}
	if situation.Old, err = s.patched(inCase+".oldPatches", from.Object, c.OldPatches); err != nil {
		return err
	}
	if err := s.evaluated(inOld, from, situation.Old); err != nil {
		return err
	}
	if was, is := situation.Old.GetKind(), situation.Object.GetKind(); was != is {
		return s.problem(inCase, fmt.Sprintf("a %s does not become a %s", was, is))
	}
	return nil
}

// generated is in the place of the characters that the API server makes up for a name, which are others each time.
const generated = "xxxxx"

// nameGenerated names a new object that has only the beginning of a name, as the API server does before it asks those
// who check it.
func nameGenerated(object *unstructured.Unstructured) {
	if base := object.GetGenerateName(); base != "" && object.GetName() == "" {
		object.SetName(base[:min(len(base), names.MaxGeneratedNameLength)] + generated)
	}
}

// patched is a copy of an object with patches.
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
	options.SupportNegativeIndices = false // the RFC has none
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
			return nil, s.problem(index(field, i), fmt.Sprintf("makes an object of more than %d MiB", maxPatched>>20))
		}
	}
	var fields map[string]any
	if err := unmarshal(data, &fields); err != nil || fields == nil {
		return nil, s.problem(field, "do not leave an object")
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// evaluated rejects what is no object of a kind that policies evaluate, or has fields that its kind does not have: the API
// server would drop them, and the case would be about something else than it says.
func (s *Suite) evaluated(field string, from manifests.Document, object *unstructured.Unstructured) error {
	from.Object = object
	kind := object.GroupVersionKind()
	if kind.Kind == kindTemplate {
		return s.problem(field, "a "+kindTemplate+" cannot be tested yet: test the VirtualMachine that it makes")
	}
	info, known := evaluator.Info(kind.GroupKind())
	if !known {
		return at(from, "kind", fmt.Sprintf("%s is not evaluated: a case is about a %s, a %s, a %s, or another kind that a VirtualMachine uses", orNothing(kind), kindVM, kindVMI, kindPool))
	}
	if !slices.Contains(info.Versions, kind.Version) {
		return at(from, "apiVersion", fmt.Sprintf("%s is not a version of %s: use %s", object.GetAPIVersion(), kind.Kind, info.GroupVersion()))
	}
	if problems := decode(from, reflect.New(info.Type).Interface()); len(problems) > 0 {
		return problems[0]
	}
	return nil
}
