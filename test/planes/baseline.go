package planes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/controlplane"
)

// baseline is what a control plane has before the first test.
type baseline struct {
	plane *controlplane.ControlPlane
	typed kubernetes.Interface
	meta  metadata.Interface
	// resources are those that can be listed and deleted, in the order in which their objects are deleted.
	resources []schema.GroupVersionResource
	objects   map[key]state
	// roles are how ClusterRoles get the rules of others, by the names of the roles.
	roles map[string]rbacv1.AggregationRule
}

type key struct {
	schema.GroupVersionResource
	namespace, name string
}

// state is what a test must not change of an object.
type state struct {
	uid types.UID
	// version is the resourceVersion; empty for what the control plane itself writes again.
	version             string
	generation          int64
	labels, annotations map[string]string
	finalizers          []string
}

// Resources whose objects decide about requests come first, so that they do not deny the deletions that follow. Namespaces come
// before their content: nothing is created in them then.
var first = []schema.GroupResource{
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
	namespaces,
}

var (
	namespaces   = schema.GroupResource{Resource: "namespaces"}
	definitions  = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	clusterRoles = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
)

// reported are the resources of which the control plane itself writes the status. They have a generation.
var reported = []schema.GroupResource{
	definitions,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"},
}

// kept reports whether the control plane itself creates an object, also after the start.
func kept(k key, labels map[string]string) bool {
	switch k.GroupResource() {
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return k.name == "default" || k.namespace == metav1.NamespaceSystem
	case schema.GroupResource{Resource: "configmaps"}:
		return k.name == "kube-root-ca.crt" || k.namespace == metav1.NamespaceSystem && (strings.HasPrefix(k.name, "kube-") || k.name == "extension-apiserver-authentication")
	case schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}:
		return labels["kube-aggregator.kubernetes.io/automanaged"] != ""
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return k.namespace == metav1.NamespaceSystem && (strings.HasPrefix(k.name, "kube-") || labels["apiserver.kubernetes.io/identity"] != "")
	case schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}:
		return labels["ipaddress.kubernetes.io/managed-by"] != ""
	case schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}:
		return k.name == "kubernetes"
	}
	return false
}

func newBaseline(ctx context.Context, plane *controlplane.ControlPlane) (b *baseline, err error) {
	b = &baseline{plane: plane}
	config := plane.Config()
	config.WarningHandler = rest.NoWarnings{} // versions that are deprecated are listed too
	if b.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if b.meta, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	lists, err := b.typed.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists)
	found, err := discovery.GroupVersionResources(lists)
	if err != nil {
		return nil, err
	}
	delete(found, schema.GroupVersionResource{Version: "v1", Resource: "events"}) // as events.k8s.io
	b.resources = slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupVersionResource) int { return place(a) - place(b) })
	if b.roles, _, err = b.aggregated(ctx); err != nil {
		return nil, err
	}
	b.objects, err = b.list(ctx)
	return b, err
}

// aggregated returns how ClusterRoles get the rules of others, and whether all have them. A controller writes them again when a role
// with their labels changes.
func (b *baseline) aggregated(ctx context.Context) (roles map[string]rbacv1.AggregationRule, complete bool, err error) {
	list, err := b.typed.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("listing ClusterRoles: %w", err)
	}
	roles, complete = map[string]rbacv1.AggregationRule{}, true
	for i := range list.Items {
		role := &list.Items[i]
		if role.AggregationRule == nil {
			continue
		}
		wanted, err := selected(list.Items, role)
		if err != nil {
			return nil, false, err
		}
		roles[role.Name] = *role.AggregationRule
		complete = complete && contains(wanted, role.Rules) && contains(role.Rules, wanted)
	}
	return roles, complete, nil
}

// selected returns the rules of the roles that a role selects.
func selected(all []rbacv1.ClusterRole, role *rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, err error) {
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("ClusterRole %s: %w", role.Name, err)
		}
		for k := range all {
			if all[k].Name != role.Name && selector.Matches(labels.Set(all[k].Labels)) {
				rules = append(rules, all[k].Rules...)
			}
		}
	}
	return rules, nil
}

// contains reports whether a list of rules has those of another one.
func contains(list, others []rbacv1.PolicyRule) bool {
	return !slices.ContainsFunc(others, func(other rbacv1.PolicyRule) bool {
		return !slices.ContainsFunc(list, func(rule rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(rule, other) })
	})
}

// place is that of a resource in the order of deletion.
func place(r schema.GroupVersionResource) int {
	if i := slices.Index(first, r.GroupResource()); i >= 0 {
		return i
	}
	if r.GroupResource() == definitions {
		return len(first) + 1
	}
	return len(first)
}

// list returns the state of all objects.
func (b *baseline) list(ctx context.Context) (map[key]state, error) {
	all := map[key]state{}
	for _, resource := range b.resources {
		list, err := b.meta.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) { // its definition is gone, which changed reports
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if k := (key{resource, o.Namespace, o.Name}); !kept(k, o.Labels) {
				all[k] = b.stateOf(k, &o.ObjectMeta)
			}
		}
	}
	return all, nil
}

func (b *baseline) stateOf(k key, o *metav1.ObjectMeta) state {
	s := state{o.UID, o.ResourceVersion, o.Generation, o.Labels, o.Annotations, o.Finalizers}
	_, hasOthers := b.roles[k.name]
	if slices.Contains(reported, k.GroupResource()) || k.GroupResource() == clusterRoles && hasOthers {
		s.version = ""
	}
	return s
}

// restore ends the processes of Deployments, and deletes everything that the baseline does not have. It reports whether the control
// plane is then as it was.
func (b *baseline) restore(ctx context.Context) (same bool, err error) {
	if err := b.plane.EndProcesses(); err != nil {
		return false, err
	}
	for {
		now, err := b.list(ctx)
		if err != nil {
			return false, err
		}
		extra := b.extra(now)
		if len(extra) == 0 {
			return b.settle(ctx, now)
		}
		failed := b.remove(ctx, extra) // a guard that is deleted can deny for another moment
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%d objects are left, such as %v: %w", len(extra), extra[0], errors.Join(failed, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// settle waits until the control plane has noticed that everything else is deleted. It reports whether it is as it was.
func (b *baseline) settle(ctx context.Context, now map[key]state) (same bool, err error) {
	roles, _, err := b.aggregated(ctx)
	if err != nil || !b.unchanged(now) || !equality.Semantic.DeepEqual(roles, b.roles) {
		return false, err
	}
	complete := func(ctx context.Context) (bool, error) {
		_, complete, err := b.aggregated(ctx)
		return complete, err
	}
	if err := until(ctx, complete); err != nil {
		return false, err
	}
	if err := b.noticed(ctx); err != nil {
		return false, err
	}
	return complete(ctx)
}

// extra returns the objects that the baseline does not have, in the order in which they are deleted.
func (b *baseline) extra(now map[key]state) (extra []key) {
	for k := range now {
		if _, known := b.objects[k]; !known {
			extra = append(extra, k)
		}
	}
	slices.SortFunc(extra, func(x, y key) int { return place(x.GroupVersionResource) - place(y.GroupVersionResource) })
	return extra
}

// unchanged reports whether the objects of the baseline are there, and are as they were.
func (b *baseline) unchanged(now map[key]state) bool {
	for k, was := range b.objects {
		if is, found := now[k]; !found || !reflect.DeepEqual(is, was) {
			return false
		}
	}
	return true
}

// remove deletes objects, with their finalizers. What the deletion of one deletes too can be gone already.
func (b *baseline) remove(ctx context.Context, objects []key) (failed error) {
	began := time.Now()
	for _, k := range objects {
		if k.GroupResource() == definitions {
			failed = errors.Join(failed, b.release(ctx, k.name))
		}
		failed = errors.Join(failed, b.removeOne(ctx, k))
	}
	for _, k := range objects {
		if k.GroupResource() == namespaces && failed == nil && time.Since(began) < controllerWaits {
			failed = b.finalize(ctx, k.name)
		}
	}
	return failed
}

func (b *baseline) removeOne(ctx context.Context, k key) error {
	resource := b.meta.Resource(k.GroupVersionResource).Namespace(k.namespace)
	err := resource.Delete(ctx, k.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %v: %w", k, err)
	}
	left, err := resource.Get(ctx, k.name, metav1.GetOptions{})
	if err == nil && len(left.Finalizers) > 0 && k.GroupResource() != definitions { // the API server has that of a definition
		_, err = resource.Patch(ctx, k.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	return client.IgnoreNotFound(err)
}

// controllerWaits is less than the time that the controller of namespaces waits before it deletes the content of one. Later, it
// could delete the content of the next namespace of that name.
const controllerWaits = 3 * time.Second

// release removes the finalizers of the objects of a definition that is deleted.
func (b *baseline) release(ctx context.Context, name string) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.plane.Client().Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
		return client.IgnoreNotFound(err)
	}
	resource := schema.GroupVersionResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	for _, version := range definition.Spec.Versions {
		if version.Served {
			resource.Version = version.Name
		}
	}
	list, err := b.meta.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	var objects []key
	for i := range list.Items {
		objects = append(objects, key{resource, list.Items[i].Namespace, list.Items[i].Name})
	}
	return b.remove(ctx, objects)
}

// finalize ends the deletion of a namespace whose content is deleted.
func (b *baseline) finalize(ctx context.Context, name string) error {
	namespace, err := b.typed.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil || namespace.DeletionTimestamp == nil {
		return client.IgnoreNotFound(err)
	}
	namespace.Spec.Finalizers = nil
	_, err = b.typed.CoreV1().Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
	return client.IgnoreNotFound(err)
}
