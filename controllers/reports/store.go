package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/pages"
)

// ErrForeign means that another component owns the Report of that name, which is not changed.
var ErrForeign = errors.New("the name is taken by a report that is not Virtward's")

// Store stores Reports of an API in the API server. Its client has no cache, and knows the kinds of OpenReports.
type Store struct {
	API    API
	Client client.Client
	// Pages list the metadata of Reports, in pages whose bytes are bounded: other users can create Reports with
	// Virtward's label.
	Pages Pages
}

// Pages read lists: see pages.Reader.
type Pages interface {
	Each(ctx context.Context, list pages.List, found func(pages.Object) error) (version string, err error)
}

// Available reports whether the cluster has the API.
func (s *Store) Available(ctx context.Context) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(s.API.version.WithKind(s.API.kind + "List"))
	err := s.Client.List(ctx, list, client.Limit(1))
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up %s: %w", s.API.Name(), err)
	}
	return true, nil
}

func absent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// Namespaces returns the namespaces with a Report of Virtward, sorted.
func (s *Store) Namespaces(ctx context.Context) ([]string, error) {
	var names []string
	list := pages.List{Resource: s.API.version.WithResource(s.API.resource), Form: pages.Metadata, LabelSelector: ManagedByLabel + "=" + ManagedBy}
	_, err := s.Pages.Each(ctx, list, func(found pages.Object) error {
		if found.JSON == nil {
			return nil
		}
		var report metav1.PartialObjectMetadata
		if err := json.Unmarshal(found.JSON, &report); err != nil {
			return err
		}
		if report.Name == Name {
			names = append(names, strings.Clone(report.Namespace))
		}
		return nil
	})
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", s.API.resource, err)
	}
	slices.Sort(names)
	return names, nil
}

// Put writes the Report that build returns, given the one before. Both can be nil, for none. It returns the one before.
// A namespace that is being deleted gets no Report.
func (s *Store) Put(ctx context.Context, namespace string, build func(before *openreports.Report) *openreports.Report) (*openreports.Report, error) {
	before, err := s.read(ctx, namespace)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the %s of namespace %s: %w", s.API.kind, namespace, err)
	case before != nil && before.Labels[ManagedByLabel] != ManagedBy:
		return nil, fmt.Errorf("the %s %s/%s: %w", s.API.kind, namespace, Name, ErrForeign)
	}
	if err := s.write(ctx, before, s.API.reduced(build(before))); err != nil {
		return before, fmt.Errorf("writing the %s of namespace %s: %w", s.API.kind, namespace, err)
	}
	return before, nil
}

// read returns the Report of a namespace; nil for none.
func (s *Store) read(ctx context.Context, namespace string) (*openreports.Report, error) {
	object := s.API.empty()
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, object)
	if absent(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller names the namespace
	}
	return s.API.decode(object)
}

func (s *Store) write(ctx context.Context, before, wanted *openreports.Report) error {
	switch {
	case before == nil && wanted == nil:
		return nil
	case before == nil:
		object, err := s.API.encode(wanted)
		if err != nil {
			return err
		}
		err = s.Client.Create(ctx, object)
		if absent(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	case wanted == nil:
		object, err := s.API.encode(before)
		if err != nil {
			return err
		}
		return client.IgnoreNotFound(s.Client.Delete(ctx, object, client.Preconditions{UID: &before.UID}))
	}
	stored, same := merged(before, wanted)
	if same {
		return nil
	}
	object, err := s.API.encode(stored)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(s.Client.Update(ctx, object)) // with the version that was read: a change in between is a conflict
}
