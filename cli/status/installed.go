package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/platform"
)

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// apiServices reports whether the API server can call the APIs of Virtward. There are none if Virtward serves no templates.
func (c *cluster) apiServices(ctx context.Context) []Result {
	services, err := c.list(ctx, killswitch.APIServices, "", killswitch.PartOf)
	if err != nil {
		return []Result{unknown("APIServices", err)}
	}
	removed, err := killswitch.Removed(ctx, c.client)
	if err != nil {
		return []Result{unknown("APIServices", err)}
	}
	var results []Result
	for _, name := range removed {
		results = append(results, Result{Subject: name, State: Warning, Message: "removed by disable, because it did not answer", Remedy: c.program + " enable"})
	}
	for i := range services {
		r := Result{Subject: services[i].GetName(), State: OK, Message: "available"}
		if status, reason, message := condition(&services[i], "Available"); status != "True" {
			r.State, r.Message = Error, strings.TrimSpace("not available: "+reason+" "+message)
			r.Remedy = "check the pods of " + processes.APIServer + " and their log; see \"If the API of VM templates is unavailable\" in docs/template-api.md"
		}
		results = append(results, r)
	}
	return results
}

// versionLabel has the version of the release that installed an object.
const versionLabel = "app.kubernetes.io/version"

// definitions reports whether the definitions of Virtward's kinds are established, and of one release.
func (c *cluster) definitions(ctx context.Context) []Result {
	all, err := c.list(ctx, definitionResource, "", killswitch.PartOf)
	if err != nil {
		return []Result{unknown("CustomResourceDefinitions", err)}
	}
	if len(all) == 0 {
		return []Result{{Subject: "CustomResourceDefinitions", State: Error, Message: "the cluster has none of Virtward's", Remedy: "upgrade the release"}}
	}
	var results []Result
	releases := map[string]int{}
	for i := range all {
		release := all[i].GetLabels()[versionLabel]
		releases[release]++
		if status, reason, message := condition(&all[i], "Established"); status != "True" {
			results = append(results, Result{
				Subject: all[i].GetName(), State: Error, Message: strings.TrimSpace("not established: " + reason + " " + message), Remedy: "kubectl describe customresourcedefinition " + all[i].GetName(),
			})
		}
		if old := unserved(&all[i]); len(old) > 0 {
			results = append(results, Result{
				Subject: all[i].GetName(), State: Warning, Message: "objects can be stored in versions that are not served: " + strings.Join(old, ", "),
				Remedy: "write all its objects again, then remove the versions from status.storedVersions",
			})
		}
	}
	of := slices.Sorted(maps.Keys(releases))
	summary := Result{Subject: "CustomResourceDefinitions", State: OK, Message: fmt.Sprintf("%d of the release %s", len(all), strings.Join(of, ", "))}
	if len(of) > 1 {
		summary.State, summary.Message, summary.Remedy = Warning, fmt.Sprintf("%d of different releases: %s", len(all), strings.Join(of, ", ")), "upgrade the release again"
	}
	return append([]Result{summary}, results...)
}

// unserved returns the stored versions of a definition that it does not serve.
func unserved(definition *unstructured.Unstructured) []string {
	stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, one := range versions {
		fields, _ := one.(map[string]any)
		if fields["served"] == true {
			stored = slices.DeleteFunc(stored, func(name string) bool { return name == fields["name"] })
		}
	}
	return stored
}

// network reports whether a NetworkPolicy limits who can reach the port of the webhook.
func (c *cluster) network(ctx context.Context) []Result {
	resource := networkingv1.SchemeGroupVersion.WithResource("networkpolicies")
	for _, kind := range killswitch.Kinds() {
		if _, err := c.configurations(ctx, kind); err != nil {
			return []Result{unknown("NetworkPolicies", err)}
		}
	}
	var results []Result
	for _, service := range killswitch.Services(ctx, c.client) {
		r := Result{Subject: "NetworkPolicy " + service[0] + "/" + service[1], State: OK, Message: "it limits who can reach the port of the webhook"}
		object, err := c.client.Resource(resource).Namespace(service[0]).Get(ctx, service[1], metav1.GetOptions{}) // in the chart, both have the same name
		policy := &networkingv1.NetworkPolicy{}
		switch {
		case apierrors.IsNotFound(err):
			r.State, r.Message, r.Remedy = Warning, "there is none: all pods can reach the port of the webhook", "set networkPolicy.enabled of the chart"
		case err != nil:
			r = unknown(r.Subject, &readError{verb: "get", resource: resource, namespace: service[0], err: err})
		case runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy) != nil:
			r.State, r.Message = Unknown, "it cannot be read"
		case slices.ContainsFunc(policy.Spec.Ingress, opens):
			r.State, r.Message, r.Remedy = Warning, "it lets all pods reach the port of the webhook", "set networkPolicy.apiServerCIDRs of the chart"
		}
		results = append(results, r)
	}
	return results
}

// opens reports whether a rule admits all pods to the port of the webhook.
func opens(rule networkingv1.NetworkPolicyIngressRule) bool {
	return len(rule.From) == 0 && (len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port == nil || p.Port.StrVal == "webhook" || p.Port.IntVal != 0
	}))
}

// templates reports whether virt-operator manages VM templates. Objects that cannot be read are left out.
func (c *cluster) templates(ctx context.Context) []Result {
	var found []string
	for _, o := range platform.TemplateObjects() {
		object, err := c.client.Resource(o.Resource).Get(ctx, o.Name, metav1.GetOptions{})
		if err == nil && platform.ManagedByVirtOperator(object.GetLabels()) {
			found = append(found, o.Kind+" "+o.Name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return []Result{{
		Subject: "virt-operator", State: OK, Message: "Virtward does not serve VM templates, because virt-operator manages " + strings.Join(found, ", "),
		Remedy: fmt.Sprintf("before you set %s in the KubeVirt resource, transfer the definitions, or all templates are deleted: see docs/template-api.md", platform.TemplateSwitch),
	}}
}
