package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

// pageSize is the number of virtual machines that are read and evaluated together.
const pageSize = 250

// audited are the kinds that are audited. Every KubeVirt has the first two.
func audited() []evaluator.KindInfo {
	return slices.DeleteFunc(evaluator.Kinds(), func(info evaluator.KindInfo) bool { return info.GroupKind() == evaluator.Preset })
}

// optional reports whether a cluster with KubeVirt may lack a kind.
func optional(info *evaluator.KindInfo) bool {
	return info.GroupKind() != evaluator.VirtualMachine && info.GroupKind() != evaluator.VirtualMachineInstance
}

// isAbsent reports whether an error says that the cluster does not serve a resource.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// listing lists and evaluates all virtual machines of a cluster, page by page.
type listing struct {
	cluster *offline.Cluster
	// selector selects virtual machines by their labels.
	selector string
	evaluate func(context.Context, []manifests.Document) error
	progress io.Writer
	// notes name what may not be listed.
	notes []string

	read, listed int
}

// all lists the virtual machines of a namespace, or of all namespaces. If the user may not list them in all namespaces,
// it lists each namespace. It returns an error if nothing can be listed.
func (l *listing) all(ctx context.Context, namespace string) error {
	for _, info := range audited() {
		err := l.versions(ctx, &info, namespace)
		switch {
		case apierrors.IsForbidden(err):
			l.notes = append(l.notes, fmt.Sprintf("%s are not evaluated: %v", info.Resource.Resource, err))
		case optional(&info) && isAbsent(err): // not every KubeVirt has it
		case isAbsent(err):
			return fmt.Errorf("listing %s: the cluster has no KubeVirt: %w", info.Resource.Resource, err)
		case err != nil:
			return fmt.Errorf("listing %s: %w", info.Resource.Resource, err)
		default:
			l.listed++
		}
	}
	if l.listed == 0 {
		return errors.New(l.notes[0])
	}
	return nil
}

// versions lists the objects of a kind in the first version that the cluster serves.
func (l *listing) versions(ctx context.Context, info *evaluator.KindInfo, namespace string) (err error) {
	for _, resource := range info.Resources() {
		err = l.pages(ctx, resource, namespace)
		if apierrors.IsForbidden(err) && namespace == "" {
			err = l.each(ctx, resource, err)
		}
		if !isAbsent(err) {
			break
		}
	}
	return err
}

// each lists the virtual machines of each namespace, or of the current one if the user may not list namespaces. It
// returns the given error if they cannot be listed in any.
func (l *listing) each(ctx context.Context, resource schema.GroupVersionResource, why error) error {
	namespaces := []string{l.cluster.Namespace}
	list, err := l.cluster.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{})
	if err == nil {
		namespaces = nil
		for i := range list.Items {
			namespaces = append(namespaces, list.Items[i].GetName())
		}
	}
	var closed []string
	for _, namespace := range namespaces {
		err := l.pages(ctx, resource, namespace)
		switch {
		case apierrors.IsForbidden(err):
			closed = append(closed, namespace)
		case err != nil:
			return err
		}
	}
	switch {
	case len(closed) == len(namespaces):
		return why
	case err != nil:
		l.notes = append(l.notes, fmt.Sprintf("%s are evaluated only in the namespace %s: %v", resource.Resource, l.cluster.Namespace, why))
	case len(closed) > 0:
		l.notes = append(l.notes, fmt.Sprintf("%s of %d of %d namespaces may not be listed and are not evaluated, the first one %s", resource.Resource, len(closed), len(namespaces), closed[0]))
	}
	return nil
}

// pages lists and evaluates page by page. If the continue token has expired, it continues with the inconsistent token
// that the API server returns.
func (l *listing) pages(ctx context.Context, resource schema.GroupVersionResource, namespace string) error {
	options := metav1.ListOptions{LabelSelector: l.selector, Limit: pageSize}
	for {
		list, err := l.cluster.Client.Resource(resource).Namespace(namespace).List(ctx, options)
		if again := resumed(err); again != "" && again != options.Continue {
			options.Continue = again
			continue
		}
		if err != nil {
			return err
		}
		if err := l.evaluate(ctx, l.documents(list)); err != nil {
			return err
		}
		l.report(list)
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// resumed returns the continue token of an error, or an empty one.
func resumed(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// documents returns the objects of a page, without instances of VirtualMachines: those are evaluated as
// VirtualMachines.
func (l *listing) documents(list *unstructured.UnstructuredList) []manifests.Document {
	all := make([]manifests.Document, 0, len(list.Items))
	for i := range list.Items {
		object := &list.Items[i]
		owner := metav1.GetControllerOf(object)
		if owner != nil && owner.Kind == apikinds.VirtualMachine && schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group == v1.GroupVersion.Group {
			continue
		}
		all = append(all, manifests.Document{Source: offline.SourceCluster, Object: object})
	}
	return all
}

// report writes the progress.
func (l *listing) report(list *unstructured.UnstructuredList) {
	before := l.read / progressStep
	l.read += len(list.Items)
	if l.read/progressStep == before {
		return
	}
	left := ""
	if remaining := list.GetRemainingItemCount(); remaining != nil {
		left = fmt.Sprintf(", %d remaining", *remaining)
	}
	fmt.Fprintf(l.progress, "%d read%s\n", l.read, left)
}

// Each calls a function with each page of the virtual machines of a cluster, and of objects that create them. The namespace is empty
// for all. The notes name what the user may not list.
func Each(ctx context.Context, cluster *offline.Cluster, namespace, selector string, progress io.Writer, call func(context.Context, []manifests.Document) error) (notes []string, err error) {
	l := &listing{cluster: cluster, selector: selector, evaluate: call, progress: progress}
	err = l.all(ctx, namespace)
	return l.notes, err
}
