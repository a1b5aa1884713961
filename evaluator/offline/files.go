package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// Files are the documents of files, by their purpose.
type Files struct {
	// Subjects are virtual machines, and sets that create them.
	Subjects []manifests.Document
	// Beside are instancetypes, preferences and presets: they are references, and are validated too.
	Beside        []manifests.Document
	KubeVirts     []manifests.Document
	Configuration []manifests.Document
	ConfigMaps    []manifests.Document
	Namespaces    []manifests.Document
	// Nodes are for policies that read migrationTargets. NeedNodes reports that something else may read it too.
	Nodes      []manifests.Document
	NeedNodes  bool
	References []manifests.Document
	// Skipped are the objects of other kinds. Those of Virtward are validated.
	Skipped []manifests.Document
	// Now is the time of the evaluations; zero for the present.
	Now time.Time
	// MaxException bounds the time until an exception of the files ends; 0 for no bound.
	MaxException time.Duration
	// UnknownFields is Warn if fields that no schema has are warnings; otherwise they deny the object.
	UnknownFields validators.Severity
	// Without are the names of policies to leave out, of files and of the cluster.
	Without  []string
	Notes    []string
	Warnings []string
	// Unreadable are the documents that cannot be read. The others are evaluated.
	Unreadable []manifests.Unreadable
}

// Sort sorts documents by their purpose.
func Sort(all *manifests.Content) *Files {
	s := &Files{Unreadable: slices.Clone(all.Unreadable), MaxException: DefaultMaxException}
	for _, d := range all.Documents {
		if kind := d.Object.GroupVersionKind(); len(d.Repeated) > 0 && !IsSubject(kind) && !(IsReference(kind) && evaluator.Evaluates(kind.GroupKind())) {
			s.Unreadable = append(s.Unreadable, d.RejectRepeated())
			continue
		}
		if err := s.add(d); err != nil {
			s.Unreadable = append(s.Unreadable, d.Unreadable(err))
		}
	}
	return s
}

// add adds a document by its purpose.
func (s *Files) add(d manifests.Document) error {
	if d.Object.GetKind() == "" || d.Object.GetAPIVersion() == "" {
		return errors.New("must have apiVersion and kind")
	}
	kind := d.Object.GroupVersionKind()
	switch {
	case IsSubject(kind):
		s.Subjects = append(s.Subjects, d)
	case kind.Group == v1.GroupVersion.Group && kind.Kind == apikinds.KubeVirt:
		s.KubeVirts = append(s.KubeVirts, d)
	case IsConfiguration(kind):
		s.Configuration = append(s.Configuration, d)
	case isConfigMap(kind):
		s.ConfigMaps, s.References = append(s.ConfigMaps, d), append(s.References, d) // a VM can use it too
	case kind.Group == "" && kind.Kind == apikinds.Namespace:
		s.Namespaces = append(s.Namespaces, d)
	case kind.Group == "" && kind.Kind == apikinds.Node:
		s.Nodes = append(s.Nodes, d)
	case IsReference(kind):
		return s.addReference(kind, d)
	default:
		if err := misspelt(kind); err != nil {
			return err
		}
		s.Skipped, s.Notes = append(s.Skipped, d), append(s.Notes, skippedNote(d))
	}
	return nil
}

// addReference adds an object that virtual machines refer to.
func (s *Files) addReference(kind schema.GroupVersionKind, d manifests.Document) error {
	if d.Object.GetName() == "" {
		return fmt.Errorf("%s must have metadata.name", kind.Kind)
	}
	warnings, err := checkReference(kind, d)
	if err != nil {
		return err
	}
	s.References, s.Warnings = append(s.References, d), append(s.Warnings, warnings...)
	if evaluator.Evaluates(kind.GroupKind()) {
		s.Beside = append(s.Beside, d)
	}
	return nil
}

// skippedNote is the note for a document that is skipped.
func skippedNote(d manifests.Document) string {
	why := cmp.Or(ForeignPolicy(d.Object.GroupVersionKind()), "its kind has no effect on virtual machines")
	return fmt.Sprintf("%s: skipped %s %s: %s", d.Location(), d.Object.GetKind(), d.Object.GetName(), why)
}

// IsSubject reports whether objects of a kind are virtual machines, or create them.
func IsSubject(kind schema.GroupVersionKind) bool {
	info, known := evaluator.Info(kind.GroupKind())
	return known && info.Machine
}

// IsReference reports whether virtual machines refer to objects of this kind, in any version.
func IsReference(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(references.Kinds(), func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind.GroupKind() })
}

// checkReference returns warnings about unknown fields of an object that virtual machines refer to, and an error if it
// cannot be decoded.
func checkReference(kind schema.GroupVersionKind, d manifests.Document) ([]string, error) {
	typed := references.TypeOf(kind.GroupKind())
	if typed == nil {
		return nil, nil
	}
	warnings, err := manifests.Decode(d.Object.Object, typed)
	if err != nil {
		if unserved := NewServed("").Match(kind); unserved != nil {
			return nil, unserved // its fields may differ
		}
		return nil, fmt.Errorf("%s %s: %w", kind.Kind, d.Object.GetName(), err)
	}
	for i := range warnings {
		warnings[i] = fmt.Sprintf("%s: %s %s: %s", d.Location(), kind.Kind, d.Object.GetName(), warnings[i])
	}
	return warnings, nil
}

// Wrong returns the documents with findings of a rule, and those that cannot be evaluated.
func (w *Evaluator) Wrong(ctx context.Context, all []manifests.Document) (found []manifests.Document) {
	for _, d := range all {
		if result, err := w.Evaluate(ctx, d, evaluator.Written); err != nil || len(result.Findings) > 0 {
			found = append(found, d)
		}
	}
	return found
}

// OverlaidBy returns the objects of files as they are after others are applied. The objects to evaluate stay. The notes are those
// of the others.
func (s *Files) OverlaidBy(with *Files) *Files {
	return &Files{
		Subjects: s.Subjects, Beside: s.Beside, Now: s.Now, MaxException: s.MaxException, UnknownFields: s.UnknownFields, Notes: with.Notes,
		Configuration: overlaid(s.Configuration, with.Configuration),
		ConfigMaps:    overlaid(s.ConfigMaps, with.ConfigMaps),
		Namespaces:    overlaid(s.Namespaces, with.Namespaces),
		Nodes:         overlaid(s.Nodes, with.Nodes),
		NeedNodes:     s.NeedNodes || with.NeedNodes,
		References:    overlaid(s.References, with.References),
		Skipped:       slices.Concat(s.Skipped, with.Skipped),
	}
}

// overlaid returns the documents above, and those below of another kind or name.
func overlaid(below, above []manifests.Document) []manifests.Document {
	replaced := map[[3]string]bool{}
	for _, d := range above {
		replaced[identity(d.Object)] = true
	}
	return slices.Concat(above, slices.DeleteFunc(slices.Clone(below), func(d manifests.Document) bool { return replaced[identity(d.Object)] }))
}

// identity returns the kind, the namespace and the name of an object.
func identity(o *unstructured.Unstructured) [3]string {
	return [3]string{o.GroupVersionKind().GroupKind().String(), o.GetNamespace(), o.GetName()}
}
