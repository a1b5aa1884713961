package offline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/schemas"
)

// Served decides which versions of kinds are served: by the cluster, or by a minor version of KubeVirt. It is safe for
// concurrent use.
type Served struct {
	// minor is empty if the version of KubeVirt is not known: then each supported one may serve a version.
	minor string
	// installed has the versions that the cluster serves, the one to prefer first.
	installed map[schema.GroupKind][]string
}

// Discovery lists the resources of a group and version of a cluster.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// NewServed returns what a version of KubeVirt serves; all supported ones for an empty or an unknown version.
func NewServed(version string) *Served {
	minor, known := schemas.MinorOf(version)
	if !known {
		minor = ""
	}
	return &Served{minor: minor, installed: map[schema.GroupKind][]string{}}
}

// Read reads the versions of the documents' kinds that a cluster serves. The kinds that it does not serve at all are those of
// the version of KubeVirt. The note says that the versions cannot be read.
func (s *Served) Read(ctx context.Context, cluster *Cluster, documents []manifests.Document) (note string) {
	if cluster == nil || cluster.Discovery == nil {
		return ""
	}
	lists := discovered{ctx: ctx, resources: cluster.Discovery, read: map[string][]metav1.APIResource{}}
	done := map[schema.GroupVersionKind]bool{}
	for _, d := range documents {
		kind := d.Object.GroupVersionKind()
		known := schemas.VersionsOf(kind.GroupKind())
		if len(known) == 0 || done[kind] {
			continue
		}
		done[kind] = true
		served, err := lists.serving(kind, kind.Version)
		if len(served) == 0 && err == nil { // one of the others is the remedy
			served, err = lists.serving(kind, known...)
		}
		if err != nil {
			return fmt.Sprintf("which versions of %s the cluster serves cannot be read: %v", kind.Kind, err)
		}
		s.installed[kind.GroupKind()] = append(s.installed[kind.GroupKind()], served...)
	}
	return ""
}

// discovered are the resources of a cluster by group and version, each read once.
type discovered struct {
	ctx       context.Context //nolint:containedctx // of one call of Read
	resources Discovery
	read      map[string][]metav1.APIResource
}

// serving returns those versions of a kind that the cluster serves.
func (l *discovered) serving(kind schema.GroupVersionKind, versions ...string) (served []string, err error) {
	for _, version := range versions {
		name := kind.GroupKind().WithVersion(version).GroupVersion().String()
		if _, done := l.read[name]; !done {
			list, err := l.resources.ServerResourcesForGroupVersionWithContext(l.ctx, name)
			switch {
			case apierrors.IsNotFound(err):
				list = &metav1.APIResourceList{}
			case err != nil:
				return nil, err
			}
			l.read[name] = list.APIResources
		}
		if slices.ContainsFunc(l.read[name], func(r metav1.APIResource) bool { return r.Kind == kind.Kind && !strings.Contains(r.Name, "/") }) {
			served = append(served, version)
		}
	}
	return served, nil
}

// Match returns an error, in kubectl's words and with what to write, if an object of a file has a version that is not served, or
// that is not read here. The error names the field apiVersion.
func (s *Served) Match(kind schema.GroupVersionKind) error {
	err := schemas.Match(s.minor, kind)
	if installed := s.installed[kind.GroupKind()]; len(installed) > 0 {
		err = schemas.MatchServed(kind, installed)
	}
	if err == nil {
		err = readable(kind)
	}
	if err != nil {
		return &manifests.FieldError{Path: "apiVersion", Err: err}
	}
	return nil
}

// MatchAll returns the error of the first document whose version is not served: by the cluster, or without one by the version of
// KubeVirt. It has the location of the document.
func MatchAll(ctx context.Context, cluster *Cluster, facts *platform.Facts, documents []manifests.Document) error {
	served := NewServed(facts.KubeVirtVersion)
	served.Read(ctx, cluster, documents) // a note says only that the table of versions is used
	for _, d := range documents {
		if err := served.Match(d.Object.GroupVersionKind()); err != nil {
			return fmt.Errorf("%s: %w", d.Location(), err)
		}
	}
	return nil
}

// readable rejects versions that only a newer program reads. Their fields may differ.
func readable(kind schema.GroupVersionKind) error {
	versions := []string{policyv1alpha1.GroupVersion.Version}
	if info, known := evaluator.Info(kind.GroupKind()); known {
		versions = info.Versions
	} else if !IsConfiguration(kind) {
		return nil
	}
	if slices.Contains(versions, kind.Version) {
		return nil
	}
	return fmt.Errorf("this kubectl-virtward does not read %s in %s: use %s", kind.Kind, kind.GroupVersion(), schema.GroupVersion{Group: kind.Group, Version: versions[0]})
}

// keepServed removes documents from the files whose version is not served, and adds them to those that cannot be read.
func (w *Evaluator) keepServed(ctx context.Context, files *Files, cluster *Cluster) {
	lists := []*[]manifests.Document{&files.Subjects, &files.Beside, &files.Configuration, &files.ConfigMaps, &files.Namespaces, &files.Nodes, &files.References, &files.Skipped}
	served := NewServed(w.facts.KubeVirtVersion)
	var all []manifests.Document
	for _, list := range lists {
		all = append(all, *list...)
	}
	if note := served.Read(ctx, cluster, all); note != "" {
		w.Notes = append(w.Notes, note)
	}
	var rejected []manifests.Document
	for _, list := range lists {
		kept := make([]manifests.Document, 0, len(*list))
		for _, d := range *list {
			err := served.Match(d.Object.GroupVersionKind())
			if err == nil {
				kept = append(kept, d)
				continue
			}
			if slices.ContainsFunc(rejected, func(r manifests.Document) bool { return r.Object == d.Object }) {
				continue // it is in another list too
			}
			rejected = append(rejected, d)
			w.Unreadable = append(w.Unreadable, d.Unreadable(err))
			files.Notes = slices.DeleteFunc(files.Notes, func(note string) bool { return note == skippedNote(d) })
		}
		*list = kept
	}
}
