package provenance

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/fieldpath"
)

// Change is one field that a layer filled.
type Change struct {
	// Path is the field in the object as the user wrote it, in the form of a field.Path:
	// spec.template.spec.domain.devices.disks[0].disk.bus
	Path string `json:"path"`
	// Value is what was written, as the typed API value. One that has fields of its own is shared with the
	// object, so that what later layers fill in it shows; treat it as read-only.
	Value any `json:"value"`
	// Layer is the source of the value: base, kvm, arm64, kvm/arm64, finalize, instancetype/NAME,
	// preference/NAME, preset/NAME, datasource/NAMESPACE/NAME or site/NAME.
	Layer string `json:"layer"`
}

// Recorder collects the changes made to one object. The zero Recorder is ready to use.
// It is not safe for concurrent use.
type Recorder struct {
	root    string
	layer   string
	changes []Change
}

// NewRecorder returns a recorder whose paths all start with root, such as "spec" or "spec.template.spec".
func NewRecorder(root string) *Recorder {
	return &Recorder{root: root}
}

// SetLayer names the source of the changes that follow.
func (r *Recorder) SetLayer(layer string) { r.layer = layer }

// Layer is the source that changes are recorded under at the moment.
func (r *Recorder) Layer() string { return r.layer }

// At runs fill with paths that start with root instead of the recorder's own.
func (r *Recorder) At(root string, fill func()) {
	before := r.root
	r.root = root
	fill()
	r.root = before
}

// Record notes that the field at path, relative to the root, now has the value.
func (r *Recorder) Record(path string, value any) {
	if r.changes == nil { // a complete object gets none
		r.changes = make([]Change, 0, 24)
	}
	r.changes = append(r.changes, Change{Path: fieldpath.Joined(r.root, path), Value: value, Layer: r.layer})
}

// Path is the field at path, relative to the root, for messages.
func (r *Recorder) Path(path string) *field.Path {
	return field.NewPath(fieldpath.Joined(r.root, path))
}

// Changes are the changes so far, in the order in which they were made.
func (r *Recorder) Changes() []Change { return r.changes }

// Fill sets *field to value if *field is zero and value is not, and records it. It reports whether it did.
func Fill[T comparable](r *Recorder, path string, field *T, value T) bool {
	var zero T
	if *field != zero || value == zero {
		return false
	}
	*field = value
	r.Record(path, value)
	return true
}

// FillPointer points *field at a copy of value if *field is nil, and records it. It reports whether it did.
func FillPointer[T any](r *Recorder, path string, field **T, value T) bool {
	if *field != nil {
		return false
	}
	*field = &value
	r.Record(path, *field)
	return true
}

// Ensure makes sure that *field points at something, so that fields below it can be filled, and returns it.
// An empty parent is no change of its own: record the fields below it.
func Ensure[T any](field **T) *T {
	if *field == nil {
		*field = new(T)
	}
	return *field
}
