package killswitch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/virtward/virtward/api/template/subresources"
)

// APIServices is the resource of the registrations of APIs.
var APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// removedAnnotation is the annotation of the MutatingWebhookConfiguration with the APIServices that Disable has removed, as a JSON object by
// their names. The chart leaves these out of upgrades.
const removedAnnotation = "virtward.io/removed-apiservices"

// removeAPIs removes the APIServices of Virtward that do not answer: while the API server cannot discover them, Kubernetes finishes the
// deletion of no namespace. Those that answer stay, and so do the templates.
func (s *Switch) removeAPIs(ctx context.Context) error {
	list, err := s.Client.Resource(APIServices).List(ctx, metav1.ListOptions{LabelSelector: PartOf})
	if err != nil {
		return fmt.Errorf("listing apiservices: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	for i := range list.Items {
		api := &list.Items[i]
		if !unavailable(api) || !strings.HasSuffix(api.GetName(), "."+subresources.Group) {
			continue
		}
		if err := s.removeAPI(ctx, api); err != nil {
			return fmt.Errorf("APIService %s: %w", api.GetName(), err)
		}
	}
	return nil
}

// removeAPI records an APIService, and then deletes it: an end in between loses nothing.
func (s *Switch) removeAPI(ctx context.Context, api *unstructured.Unstructured) error {
	if s.DryRun {
		_, err := fmt.Fprintf(s.Out, "APIService %s: would be removed, because it does not answer\n", api.GetName())
		return err
	}
	kept := map[string]any{"apiVersion": api.GetAPIVersion(), "kind": api.GetKind(), "spec": api.Object["spec"]}
	metadata := map[string]any{"name": api.GetName()}
	for _, field := range []string{"labels", "annotations"} {
		if content, found, _ := unstructured.NestedMap(api.Object, "metadata", field); found {
			metadata[field] = content
		}
	}
	kept["metadata"] = metadata
	err := s.changeRemoved(ctx, func(removed map[string]json.RawMessage) error {
		content, err := json.Marshal(kept)
		removed[api.GetName()] = content
		return err
	})
	if err != nil {
		return err
	}
	uid := api.GetUID()
	err = s.Client.Resource(APIServices).Delete(ctx, api.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "APIService %s: removed, because it does not answer: no namespace would be deleted meanwhile\n", api.GetName())
	return err
}

// restoreAPIs creates the APIServices again that Disable has removed.
func (s *Switch) restoreAPIs(ctx context.Context) error {
	removed, err := s.removed(ctx)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(removed))
	for name := range removed {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		api, err := recorded(name, removed[name])
		if err != nil {
			return fmt.Errorf("APIService %q of the annotation %s: %w", name, removedAnnotation, err)
		}
		if s.DryRun {
			fmt.Fprintf(s.Out, "APIService %s: would be created again\n", name)
			continue
		}
		_, err = s.Client.Resource(APIServices).Create(ctx, api, metav1.CreateOptions{FieldManager: switchManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("APIService %s: %w", name, err)
		}
		if err := s.changeRemoved(ctx, func(left map[string]json.RawMessage) error { delete(left, name); return nil }); err != nil {
			return fmt.Errorf("APIService %s: %w", name, err)
		}
		fmt.Fprintf(s.Out, "APIService %s: created again\n", name)
		s.warnOfAPI(ctx, api)
	}
	return nil
}

// recorded returns an APIService of the annotation. While Virtward is off, so is the guard of the object with the annotation, and an account
// of Virtward can write it. So it is an error if the APIService is of another API: a user who may create APIServices would create it.
func recorded(name string, content []byte) (*unstructured.Unstructured, error) {
	api := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &api.Object); err != nil {
		return nil, err
	}
	group, _, _ := unstructured.NestedString(api.Object, "spec", "group")
	version, _, _ := unstructured.NestedString(api.Object, "spec", "version")
	if group != subresources.Group || api.GetName() != name || name != version+"."+group {
		return nil, fmt.Errorf("it is not a version of %s, as those that disable removes: delete it from the annotation", subresources.Group)
	}
	return api, nil
}

// warnOfAPI warns of an APIService whose Service has no ready endpoint.
func (s *Switch) warnOfAPI(ctx context.Context, api *unstructured.Unstructured) {
	namespace, _, _ := unstructured.NestedString(api.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(api.Object, "spec", "service", "name")
	if ready, known := s.answers(ctx, namespace, name); known && !ready {
		fmt.Fprintf(s.ErrOut, "warning: Service %s/%s has no ready endpoint: until it has, no namespace of the cluster is deleted. To remove the APIService again: %s disable\n", namespace, name, s.Program)
	}
}

// removed returns the APIServices that are removed, by their names.
func (s *Switch) removed(ctx context.Context) (map[string]json.RawMessage, error) {
	holder, err := s.holder(ctx)
	if err != nil || holder == nil {
		return nil, err
	}
	return removedOf(holder)
}

// changeRemoved changes the annotation with the removed APIServices.
func (s *Switch) changeRemoved(ctx context.Context, change func(map[string]json.RawMessage) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		holder, err := s.holder(ctx)
		if err != nil {
			return err
		}
		if holder == nil {
			return NotInstalled()
		}
		removed, err := removedOf(holder)
		if err != nil {
			return err
		}
		if err := change(removed); err != nil {
			return err
		}
		annotations := holder.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if delete(annotations, removedAnnotation); len(removed) > 0 {
			content, err := json.Marshal(removed)
			if err != nil {
				return err
			}
			annotations[removedAnnotation] = string(content)
		}
		if len(annotations) == 0 {
			annotations = nil
		}
		holder.SetAnnotations(annotations)
		_, err = s.Client.Resource(Kinds()[0].Resource).Update(ctx, holder, metav1.UpdateOptions{FieldManager: switchManager})
		return err
	})
}

// holder returns the object with the annotation: the first MutatingWebhookConfiguration of Virtward, or nil if there is none.
func (s *Switch) holder(ctx context.Context) (*unstructured.Unstructured, error) {
	found, err := List(ctx, s.Client, Kinds()[0])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Removed returns the names of the APIServices that Disable has removed, sorted.
func Removed(ctx context.Context, client dynamic.Interface) ([]string, error) {
	removed, err := (&Switch{Client: client}).removed(ctx)
	names := make([]string, 0, len(removed))
	for name := range removed {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, err
}

func removedOf(holder *unstructured.Unstructured) (map[string]json.RawMessage, error) {
	removed := map[string]json.RawMessage{}
	if text := holder.GetAnnotations()[removedAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &removed); err != nil {
			return nil, fmt.Errorf("reading the annotation %s: %w", removedAnnotation, err)
		}
	}
	return removed, nil
}

// unavailable reports whether the API server knows that it cannot reach an API. A new one has no condition yet.
func unavailable(api *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(one any) bool {
		fields, _ := one.(map[string]any)
		return fields["type"] == "Available" && fields["status"] == string(metav1.ConditionFalse)
	})
}
