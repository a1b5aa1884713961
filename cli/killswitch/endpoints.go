package killswitch

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// unanswered returns the Services of Virtward's webhooks without a ready endpoint. It leaves out Services whose
// endpoints are not known, such as those of type ExternalName without EndpointSlices.
func (s *Switch) unanswered(ctx context.Context) []string {
	var without []string
	for _, service := range Services(ctx, s.Client) {
		if ready, known := s.answers(ctx, service[0], service[1]); known && !ready {
			without = append(without, service[0]+"/"+service[1])
		}
	}
	return without
}

// Services returns namespace and name of the Services that webhooks of Virtward call.
func Services(ctx context.Context, client dynamic.Interface) [][2]string {
	var found [][2]string
	for _, kind := range Kinds() {
		objects, err := List(ctx, client, kind)
		if err != nil {
			continue
		}
		for i := range objects {
			for _, webhook := range Conditioned(&objects[i]) {
				namespace, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "namespace")
				name, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "name")
				if service := [2]string{namespace, name}; name != "" && !slices.Contains(found, service) {
					found = append(found, service)
				}
			}
		}
	}
	return found
}

// answers reports whether a Service has a ready endpoint, and whether that is known. Kubernetes writes no
// EndpointSlices for a Service of type ExternalName.
func (s *Switch) answers(ctx context.Context, namespace, name string) (ready, known bool) {
	service, err := s.Client.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, false
	}
	kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	slicesOf := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name}
	list, err := s.Client.Resource(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")).Namespace(namespace).List(ctx, slicesOf)
	if err != nil {
		return false, false
	}
	for i := range list.Items {
		endpoints, _, _ := unstructured.NestedSlice(list.Items[i].Object, "endpoints")
		if slices.ContainsFunc(endpoints, isReady) {
			return true, true
		}
	}
	return false, kind != string(corev1.ServiceTypeExternalName) || len(list.Items) > 0
}

// isReady reports whether an endpoint is ready, which is the default.
func isReady(endpoint any) bool {
	fields, _ := endpoint.(map[string]any)
	ready, said, _ := unstructured.NestedBool(fields, "conditions", "ready")
	return ready || !said
}
