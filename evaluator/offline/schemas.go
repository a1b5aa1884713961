package offline

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
)

// schemaSource finds the schemas of kinds: those of the cluster, or the embedded ones of a minor version of KubeVirt. It
// is safe for concurrent use.
type schemaSource struct {
	embedded *schemas.Embedded
	// others are the embedded schemas of all other minor versions, oldest first.
	others []*schemas.Embedded
	// installed are the schemas of the cluster, by kind and version.
	installed map[schema.GroupVersionKind]*schemas.Schema
}

// newSchemaSource returns the schemas for a version of KubeVirt. An empty version is the newest one. The note says that
// the schemas of another version are used.
func newSchemaSource(version string) (s *schemaSource, notes []string) {
	minor, known := schemas.MinorOf(version)
	if !known {
		if version != "" {
			notes = append(notes, fmt.Sprintf("the schemas of KubeVirt %s are used: those of %.40s are not known", schemas.Newest(), version))
		}
		minor = schemas.Newest()
	}
	s = &schemaSource{embedded: schemas.NewEmbedded(minor), installed: map[schema.GroupVersionKind]*schemas.Schema{}}
	for _, other := range schemas.Minors() {
		if other != minor {
			s.others = append(s.others, schemas.NewEmbedded(other))
		}
	}
	return s, notes
}

// definitions are the resources of CustomResourceDefinitions.
var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// readInstalled reads the schemas of a cluster for the kinds of documents. The note says that they cannot be read. Owners of
// virtual machines usually may not read definitions: the schemas of the version apply then, without a note.
func (s *schemaSource) readInstalled(ctx context.Context, cluster *Cluster, documents []manifests.Document) (note string, err error) {
	for _, d := range documents {
		kind := d.Object.GroupVersionKind()
		info, known := evaluator.Info(kind.GroupKind())
		if _, read := s.installed[kind]; read || !known {
			continue
		}
		name := info.Resource.Resource + "." + kind.Group
		object, err := cluster.Client.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			return "", nil
		case err != nil:
			return fmt.Sprintf("the schemas of KubeVirt %s are used: those of the cluster cannot be read: %v", s.embedded.Minor(), err), nil
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
			return "", fmt.Errorf("reading the definition %s: %w", name, err)
		}
		if s.installed[kind], err = schemas.New(&definition.Spec, kind.Version); err != nil {
			return "", fmt.Errorf("reading the definition %s: %w", name, err)
		}
	}
	return "", nil
}

// find returns the schema of a kind, or nil if there is none, and whether it is that of the cluster.
func (s *schemaSource) find(kind schema.GroupVersionKind) (found *schemas.Schema, installed bool, err error) {
	if of := s.installed[kind]; of != nil {
		return of, true, nil
	}
	found, err = s.embedded.For(kind)
	return found, false, err
}

// havingField returns the other minor versions of KubeVirt that have an unknown field.
func (s *schemaSource) havingField(kind schema.GroupVersionKind, u schemas.Unknown) (minors []string, err error) {
	for _, other := range s.others {
		found, err := other.For(kind)
		if err != nil {
			return nil, err
		}
		if found != nil && found.Has(u) {
			minors = append(minors, other.Minor())
		}
	}
	return minors, nil
}
