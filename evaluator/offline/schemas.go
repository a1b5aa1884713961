package offline

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi3"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
)

// Schemas validates objects of files with the schemas of their kinds: those of the cluster, or the embedded ones of a minor
// version of KubeVirt. It decodes each schema once. It is safe for concurrent use.
type Schemas struct {
	embedded *schemas.Embedded
	// others are the embedded schemas of all other minor versions, oldest first.
	others []*schemas.Embedded
	// installed are the schemas of the cluster, by kind and version; nil for those that the cluster does not have.
	installed map[schema.GroupVersionKind]*schemas.Schema
}

// NewSchemas returns the schemas for a version of KubeVirt. An empty version is the newest one. The notes say that the
// schemas of another version are used.
func NewSchemas(version string) (s *Schemas, notes []string) {
	minor, known := schemas.MinorOf(version)
	if !known {
		if version != "" {
			notes = append(notes, fmt.Sprintf("the schemas of KubeVirt %s are used: those of %.40s are not known", schemas.Newest(), version))
		}
		minor = schemas.Newest()
	}
	s = &Schemas{embedded: schemas.Of(minor), installed: map[schema.GroupVersionKind]*schemas.Schema{}}
	for _, other := range schemas.Minors() {
		if other != minor {
			s.others = append(s.others, schemas.Of(other))
		}
	}
	return s, notes
}

// definitions are the resources of CustomResourceDefinitions.
var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// readInstalled reads the schemas of a cluster for the kinds of documents, before any is validated. Users who may not read
// definitions get those that the API server publishes for all users. The note says that these cannot be read either.
func (s *Schemas) readInstalled(ctx context.Context, cluster *Cluster, documents []manifests.Document) (note string, err error) {
	read := cluster.definition
	for _, d := range documents {
		kind := d.Object.GroupVersionKind()
		embedded, err := s.embedded.For(kind)
		if err != nil {
			return "", err
		}
		if _, known := s.installed[kind]; known || embedded == nil {
			continue
		}
		found, err := read(ctx, embedded, kind)
		if apierrors.IsForbidden(err) {
			read = cluster.published
			found, err = read(ctx, embedded, kind)
		}
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Sprintf("the schemas of KubeVirt %s are used: you may not read those of the cluster", s.embedded.Minor()), nil
		case err != nil:
			return fmt.Sprintf("the schemas of KubeVirt %s are used: those of the cluster cannot be read: %v", s.embedded.Minor(), err), nil
		}
		s.installed[kind] = found
	}
	return "", nil
}

// definition reads the schema of a kind from its definition; nil without one.
func (c *Cluster) definition(ctx context.Context, embedded *schemas.Schema, kind schema.GroupVersionKind) (*schemas.Schema, error) {
	name := embedded.Plural() + "." + kind.Group
	object, err := c.Client.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return nil, fmt.Errorf("the definition %s: %w", name, err)
	}
	found, err := schemas.New(&definition.Spec, kind.Version)
	if err != nil {
		return nil, fmt.Errorf("the definition %s: %w", name, err)
	}
	return found, nil
}

// published reads the schema of a kind from the OpenAPI documents of the API server; nil without one.
func (c *Cluster) published(_ context.Context, embedded *schemas.Schema, kind schema.GroupVersionKind) (*schemas.Schema, error) {
	if c.OpenAPI == nil {
		return nil, nil
	}
	document, err := c.OpenAPI.GVSpecAsMap(kind.GroupVersion())
	if absent := (*openapi3.GroupVersionNotFoundError)(nil); errors.As(err, &absent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return embedded.Published(document, kind)
}

// find returns the schema of a kind, or nil if there is none, and whether it is that of the cluster.
func (s *Schemas) find(kind schema.GroupVersionKind) (found *schemas.Schema, installed bool, err error) {
	if of := s.installed[kind]; of != nil {
		return of, true, nil
	}
	found, err = s.embedded.For(kind)
	return found, false, err
}

// havingField returns the other minor versions of KubeVirt that have an unknown field.
func (s *Schemas) havingField(kind schema.GroupVersionKind, u schemas.Unknown) (minors []string, err error) {
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
