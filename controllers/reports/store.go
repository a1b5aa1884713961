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
var ErrForeign = errors.New("the name is taken by a Report that is not Virtward's")

// Store stores Reports in the API server. Its client has no cache, and knows the kinds of OpenReports.
type Store struct {
	Client client.Client
	// Pages list the metadata of Reports, in pages whose bytes are bounded: other users can create Reports with
	// Virtward's label.
	Pages Pages
}

// Pages read lists: see pages.Reader.
type Pages interface {
	Each(ctx context.Context, list pages.List, found func(pages.Object) error) (version string, err error)
}

// Available reports whether the cluster has OpenReports.
func (s *Store) Available(ctx context.Context) (bool, error) {
	list := metadataList()
	err := s.Client.List(ctx, list, client.Limit(1))
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up OpenReports: %w", err)
	}
	return true, nil
}

func absent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

func metadataList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(openreports.SchemeGroupVersion.WithKind("ReportList"))
	return list
}

// Namespaces returns the namespaces with a Report of Virtward, sorted.
func (s *Store) Namespaces(ctx context.Context) ([]string, error) {
	var names []string
	list := pages.List{Resource: openreports.SchemeGroupVersion.WithResource("reports"), Form: pages.Metadata, LabelSelector: ManagedByLabel + "=" + ManagedBy}
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
		return nil, fmt.Errorf("listing Reports: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// Put writes the Report that build returns, given the one before. Both can be nil, for none. It returns the one before.
// A namespace that is being deleted gets no Report.
func (s *Store) Put(ctx context.Context, namespace string, build func(before *openreports.Report) *openreports.Report) (*openreports.Report, error) {
	before := &openreports.Report{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, before)
	switch {
	case absent(err):
		before = nil
	case err != nil:
		return nil, fmt.Errorf("reading the Report of namespace %s: %w", namespace, err)
	case before.Labels[ManagedByLabel] != ManagedBy:
		return nil, fmt.Errorf("the Report %s/%s: %w", namespace, Name, ErrForeign)
	}
	if err := s.write(ctx, before, build(before)); err != nil {
		return before, fmt.Errorf("writing the Report of namespace %s: %w", namespace, err)
	}
	return before, nil
}

func (s *Store) write(ctx context.Context, before, wanted *openreports.Report) error {
	switch {
	case before == nil && wanted == nil:
		return nil
	case before == nil:
		err := s.Client.Create(ctx, wanted)
		if absent(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	case wanted == nil:
		return client.IgnoreNotFound(s.Client.Delete(ctx, before, client.Preconditions{UID: &before.UID}))
	}
	stored, same := merged(before, wanted)
	if same {
		return nil
	}
	return client.IgnoreNotFound(s.Client.Update(ctx, stored)) // with the version that was read: a change in between is a conflict
}
