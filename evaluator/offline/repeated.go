package offline

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/references"
)

// once returns documents without those of an object that an earlier one has. A note says that an equal one is skipped; one
// that differs is unreadable, since it is not known which of the two applies.
func (w *Evaluator) once(documents []manifests.Document) []manifests.Document {
	objects := make([]*unstructured.Unstructured, len(documents))
	for i := range documents {
		objects[i] = documents[i].Object
	}
	earlier := references.Repeated(w.DefaultNamespace, objects)
	var first []manifests.Document
	for i, d := range documents {
		same, repeated := earlier[i]
		switch {
		case !repeated:
			first = append(first, d)
		case equality.Semantic.DeepEqual(d.Object.Object, documents[same].Object.Object):
			w.Notes = append(w.Notes, fmt.Sprintf("%s: skipped %s: %s has the same", d.Location(), titled(d), documents[same].Location()))
		default:
			err := fmt.Errorf("%s differs from that of %s: give it once", titled(d), documents[same].Location())
			w.Unreadable = append(w.Unreadable, d.Unreadable(err))
		}
	}
	return first
}
