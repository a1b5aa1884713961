package audit

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/evaluator"
)

// Stored reads the objects.
type Stored interface {
	// Page lists objects of a kind in all namespaces, from the beginning or from next of the page before. next is empty
	// on the last page. A kind that does not exist has no objects.
	Page(ctx context.Context, kind Kind, from string) (objects []pages.Object, next string, err error)
	// Get reads one object; nil if it does not exist.
	Get(ctx context.Context, kind Kind, key auditresults.Key) (*pages.Object, error)
}

// API reads from the API server. Each object is decoded separately, so an invalid one does not affect its page. Create
// it with NewAPI.
type API struct {
	reader *pages.Reader

	mu sync.Mutex
	// limits are the numbers of objects of a kind that fit into a page, by the sizes of previous ones.
	limits map[string]int
	// served are the versions in which kinds were listed, by resource.
	served map[string]schema.GroupVersionResource
}

// NewAPI reads through a reader, which can be shared.
func NewAPI(reader *pages.Reader) *API {
	return &API{reader: reader, limits: map[string]int{}, served: map[string]schema.GroupVersionResource{}}
}

// Page implements Stored.
func (a *API) Page(ctx context.Context, kind Kind, from string) ([]pages.Object, string, error) {
	if from == "" {
		a.forget(kind)
	}
	for _, resource := range a.versions(kind) {
		page, err := a.reader.Page(ctx, pages.List{Resource: resource, Form: pages.JSON}, from, a.limit(kind.Resource, 0))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		a.limit(kind.Resource, page.Limit)
		a.remember(kind, resource)
		return page.Objects, page.Next, nil
	}
	return nil, "", nil
}

// versions returns the resource of a kind in the version of its last list, or in all that a cluster can serve.
func (a *API) versions(kind Kind) []schema.GroupVersionResource {
	a.mu.Lock()
	defer a.mu.Unlock()
	if served, ok := a.served[kind.Resource]; ok {
		return []schema.GroupVersionResource{served}
	}
	info, _ := evaluator.Info(kind.GroupVersionKind.GroupKind())
	return info.Resources()
}

// remember keeps the version of a list; forget lets the next list search for it again, because an upgrade of KubeVirt changes it.
func (a *API) remember(kind Kind, served schema.GroupVersionResource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.served[kind.Resource] = served
}

func (a *API) forget(kind Kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.served, kind.Resource)
}

// limit sets the limit of a resource, and returns the previous one.
func (a *API) limit(resource string, next int) (before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before = a.limits[resource]; next > 0 {
		a.limits[resource] = next
	}
	return before
}

// Get implements Stored.
func (a *API) Get(ctx context.Context, kind Kind, key auditresults.Key) (*pages.Object, error) {
	for _, resource := range a.versions(kind) {
		object, err := a.reader.Get(ctx, resource, key.Namespace, key.Name)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", key.Kind, key.Namespace, key.Name, err)
		}
		if object != nil {
			return object, nil
		}
	}
	return nil, nil
}

// errTooLarge is the error of an object that is not read.
var errTooLarge = fmt.Errorf("the object has more than %d MiB, and is not read", pages.MaxBytes>>20)

// unread names an object that is too large to read.
func (k Kind) unread(o *pages.Object) auditresults.Subject {
	return auditresults.Subject{
		Key:        auditresults.Key{Namespace: o.Namespace, Kind: k.Kind, Name: o.Name},
		APIVersion: k.GroupVersionKind.GroupVersion().String(), UID: types.UID(o.UID),
	}
}
