package killswitch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/texts"
)

// Status prints a line for each webhook configuration and admission policy of Virtward, and notes about what is
// missing.
func (s *Switch) Status(ctx context.Context) error {
	bound, err := s.bound(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tNAME\tSTATE\tCA\tWHY")
	found := 0
	var notes []string
	for _, kind := range admissionKinds() {
		objects, err := s.list(ctx, kind)
		if err != nil {
			return err
		}
		found += len(objects)
		for i := range objects {
			object := &objects[i]
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", kind.kind, object.GetName(), stateOf(object, bound), authorityOf(object), whyOf(object))
		}
		if len(objects) == 0 {
			notes = append(notes, missing(kind.kind))
		}
	}
	if found == 0 {
		return notInstalled()
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, service := range s.unanswered(ctx) {
		notes = append(notes, "Service "+service+" has no ready endpoint")
	}
	notes = append(notes, s.openPorts(ctx)...)
	notes = append(notes, s.foreignTemplates(ctx)...)
	for _, note := range notes {
		if _, err := fmt.Fprintln(s.Out, "note: "+note); err != nil {
			return err
		}
	}
	return nil
}

// missing returns a note about a kind without objects.
func missing(kind string) string {
	meaning := map[string]string{
		"MutatingWebhookConfiguration":   "objects are not completed",
		"ValidatingWebhookConfiguration": "objects are not validated",
		"ValidatingAdmissionPolicy":      "there are no guards",
	}[kind]
	return fmt.Sprintf("Virtward has no %s: %s", kind, meaning)
}

// bound returns the names of the admission policies with a binding. Those without one have no effect.
func (s *Switch) bound(ctx context.Context) (map[string]bool, error) {
	bindings, err := s.Client.Resource(admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing validatingadmissionpolicybindings: %w", err)
	}
	names := map[string]bool{}
	for i := range bindings.Items {
		name, _, _ := unstructured.NestedString(bindings.Items[i].Object, "spec", "policyName")
		names[name] = true
	}
	return names, nil
}

func stateOf(object *unstructured.Unstructured, bound map[string]bool) string {
	off, all := disabled(object)
	_, isPolicy := object.Object["spec"]
	switch {
	case isPolicy && !bound[object.GetName()]:
		return "without a binding"
	case all == 0:
		return "without webhooks"
	case off == 0:
		return "on"
	case off == all:
		return "off"
	}
	return fmt.Sprintf("off in part (%d of %d)", off, all)
}

// authorityOf reports whether all webhooks have a CA bundle. Admission policies need none.
func authorityOf(object *unstructured.Unstructured) string {
	if _, isPolicy := object.Object["spec"]; isPolicy {
		return "-"
	}
	for _, webhook := range conditioned(object) {
		if bundle, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle"); bundle == "" {
			return "missing"
		}
	}
	return "present"
}

// whyOf returns the content of the annotation, or -.
func whyOf(object *unstructured.Unstructured) string {
	text, noted := object.GetAnnotations()[admissionpolicies.Disabled]
	if !noted {
		return "-"
	}
	note := disabledNote{}
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return texts.OneLine(text)
	}
	return texts.OneLine(fmt.Sprintf("%s, by %s at %s", note.Reason, note.By, note.At))
}

// unanswered returns the Services of Virtward's webhooks without a ready endpoint. It leaves out Services whose
// endpoints are not known, such as those of type ExternalName.
func (s *Switch) unanswered(ctx context.Context) []string {
	var without []string
	for _, service := range s.services(ctx) {
		if ready, known := s.answers(ctx, service[0], service[1]); known && !ready {
			without = append(without, service[0]+"/"+service[1])
		}
	}
	return without
}

// openPorts returns notes about NetworkPolicies that let all pods reach the port of the webhook. It leaves out those
// that cannot be read.
func (s *Switch) openPorts(ctx context.Context) []string {
	policies := s.Client.Resource(networkingv1.SchemeGroupVersion.WithResource("networkpolicies"))
	var notes []string
	for _, service := range s.services(ctx) {
		object, err := policies.Namespace(service[0]).Get(ctx, service[1], metav1.GetOptions{}) // in the chart, both have the same name
		if apierrors.IsNotFound(err) {
			notes = append(notes, fmt.Sprintf("there is no NetworkPolicy %s/%s: all pods can reach the port of the webhook", service[0], service[1]))
			continue
		}
		if err != nil {
			continue
		}
		policy := &networkingv1.NetworkPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			continue
		}
		open := func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return len(rule.From) == 0 && (len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
				return p.Port == nil || p.Port.StrVal == "webhook" || p.Port.IntVal != 0
			}))
		}
		if slices.ContainsFunc(policy.Spec.Ingress, open) {
			notes = append(notes, fmt.Sprintf("NetworkPolicy %s/%s lets all pods reach the port of the webhook: set networkPolicy.apiServerCIDRs of the chart", service[0], service[1]))
		}
	}
	return notes
}

// foreignTemplates returns a note if virt-operator manages VM templates. It leaves out objects that cannot be read.
func (s *Switch) foreignTemplates(ctx context.Context) []string {
	var found []string
	for _, o := range platform.TemplateObjects() {
		object, err := s.Client.Resource(o.Resource).Get(ctx, o.Name, metav1.GetOptions{})
		if err == nil && platform.ManagedByVirtOperator(object.GetLabels()) {
			found = append(found, o.Kind+" "+o.Name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Virtward does not serve VM templates, because virt-operator manages %s. Before you set %s in the KubeVirt resource, transfer the definitions, or all templates are deleted: see docs/operations.md",
		strings.Join(found, ", "), platform.TemplateSwitch)}
}

// services returns namespace and name of the Services that webhooks of Virtward call.
func (s *Switch) services(ctx context.Context) [][2]string {
	var found [][2]string
	for _, kind := range admissionKinds() {
		objects, err := s.list(ctx, kind)
		if err != nil {
			continue
		}
		for i := range objects {
			for _, webhook := range conditioned(&objects[i]) {
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

// answers reports whether a Service has a ready endpoint. It returns true if that is not known.
func (s *Switch) answers(ctx context.Context, namespace, name string) (ready, known bool) {
	service, err := s.Client.Resource(corev1.SchemeGroupVersion.WithResource("services")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, false
	}
	if kind, _, _ := unstructured.NestedString(service.Object, "spec", "type"); kind == string(corev1.ServiceTypeExternalName) {
		return false, false
	}
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
	return false, true
}

// isReady reports whether an endpoint is ready, which is the default.
func isReady(endpoint any) bool {
	fields, _ := endpoint.(map[string]any)
	ready, said, _ := unstructured.NestedBool(fields, "conditions", "ready")
	return ready || !said
}
