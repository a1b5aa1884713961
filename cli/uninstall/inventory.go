package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/virtward/virtward/api/apikinds"
	kupenstackv1alpha1 "github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/policies/export"
)

// class is what objects are for the uninstallation.
type class string

// The classes.
const (
	controllers  class = "controllers"  // Deployments that add finalizers, reports or policies
	webhooks     class = "webhooks"     // configurations of webhooks
	apiServices  class = "apiservices"  // APIs of VM templates
	parts        class = "parts"        // all other objects in the namespace of the release
	guards       class = "guards"       // admission policies and their bindings
	roles        class = "roles"        // roles without a namespace, and their bindings
	finalized    class = "finalized"    // objects with a finalizer of Virtward
	exports      class = "exports"      // native policies of policies with exportTo
	reports      class = "reports"      // Reports of the audit
	remains      class = "remains"      // Leases and certificates that processes wrote
	definitions  class = "definitions"  // definitions of Virtward's kinds
	instances    class = "instances"    // objects of these kinds
	approvalKeys class = "approvalkeys" // the Secret with the keys of approvals
	approvedOnly class = "approvedonly" // namespaces that the guards close
	annotated    class = "annotated"    // other objects with a label or an annotation of Virtward
)

// Object is the metadata of an object, as far as the plan needs them.
type Object struct {
	Kind            string
	Namespace, Name string

	resource   schema.GroupVersionResource
	uid        types.UID
	finalizers []string
	// release is the release of Helm that has the object; helmKeeps reports whether Helm does not delete it with the release.
	release   Release
	helmKeeps bool
	deleting  bool
}

// title is the namespace and the name.
func (o *Object) title() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Release is a release of Helm.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Inventory is what the cluster has of Virtward.
type Inventory struct {
	// Release is the release of Helm; nil if there is none.
	Release *Release
	// Namespace is that of Virtward's processes; empty if nothing names it.
	Namespace string
	Objects   map[class][]Object
	// Unread says what could not be read, and why.
	Unread []string
	// ReadNamespaces reports whether all namespaces could be read.
	ReadNamespaces bool
}

// source is a kind of objects that is listed.
type source struct {
	class    class
	kind     string
	resource schema.GroupVersionResource
	// namespace restricts the list: that of the release, or one with a fixed name; empty for all.
	namespace string
	selector  string
	// keep selects objects; nil selects all. It is not called for an object with another namespace.
	keep func(*metav1.PartialObjectMetadata) bool
}

// installed is the namespace of the release, in a source.
const installed = "\x00"

// Labels and annotations of Helm.
const (
	helmName      = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
	helmPolicy    = "helm.sh/resource-policy"
	helmPart      = "owner=helm,name="
)

// reportName is the name of the Report of a namespace, and of the one of the cluster.
const reportName = "virtward"

// approvalKeysName is the name of the Secret with the keys of approvals.
const approvalKeysName = "virtward-approval-keys"

func resourceOf(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// clusterSources are the objects without a namespace, of which only admins write any. They name the release.
func clusterSources() []source {
	admission, rbac := "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
	managed := export.ManagedBy + "=" + export.Manager
	exported := func(o *metav1.PartialObjectMetadata) bool { return strings.HasPrefix(o.Name, export.Prefix) }
	return []source{
		{class: webhooks, kind: "ValidatingWebhookConfiguration", resource: resourceOf(admission, "v1", "validatingwebhookconfigurations"), selector: killswitch.PartOf},
		{class: webhooks, kind: "MutatingWebhookConfiguration", resource: resourceOf(admission, "v1", "mutatingwebhookconfigurations"), selector: killswitch.PartOf},
		{class: apiServices, kind: "APIService", resource: resourceOf("apiregistration.k8s.io", "v1", "apiservices"), selector: killswitch.PartOf},
		{class: guards, kind: "ValidatingAdmissionPolicyBinding", resource: apikinds.AdmissionBindings.GroupVersionResource(), selector: killswitch.PartOf},
		{class: guards, kind: "ValidatingAdmissionPolicy", resource: apikinds.AdmissionPolicies.GroupVersionResource(), selector: killswitch.PartOf},
		{class: exports, kind: "ValidatingAdmissionPolicyBinding", resource: apikinds.AdmissionBindings.GroupVersionResource(), selector: managed, keep: exported},
		{class: exports, kind: "ValidatingAdmissionPolicy", resource: apikinds.AdmissionPolicies.GroupVersionResource(), selector: managed, keep: exported},
		{class: roles, kind: "ClusterRoleBinding", resource: resourceOf(rbac, "v1", "clusterrolebindings"), selector: killswitch.PartOf},
		{class: roles, kind: "ClusterRole", resource: resourceOf(rbac, "v1", "clusterroles"), selector: killswitch.PartOf},
		{class: definitions, kind: "CustomResourceDefinition", resource: resourceOf("apiextensions.k8s.io", "v1", "customresourcedefinitions"), selector: killswitch.PartOf},
	}
}

// installedSources are the objects in the namespace of the release, which no user writes.
func installedSources() []source {
	rbac := "rbac.authorization.k8s.io"
	isController := func(o *metav1.PartialObjectMetadata) bool {
		return o.Name != processes.Webhook && o.Name != processes.APIServer
	}
	notKeys := func(o *metav1.PartialObjectMetadata) bool { return o.Name != approvalKeysName }
	all := []source{
		{class: controllers, kind: "Deployment", resource: resourceOf("apps", "v1", "deployments"), keep: isController},
		{class: parts, kind: "Deployment", resource: resourceOf("apps", "v1", "deployments"), keep: func(o *metav1.PartialObjectMetadata) bool { return !isController(o) }},
		{class: parts, kind: "DaemonSet", resource: resourceOf("apps", "v1", "daemonsets")},
		{class: parts, kind: "Job", resource: resourceOf("batch", "v1", "jobs")},
		{class: parts, kind: "Service", resource: resourceOf("", "v1", "services")},
		{class: parts, kind: "ConfigMap", resource: resourceOf("", "v1", "configmaps")},
		{class: parts, kind: "Secret", resource: resourceOf("", "v1", "secrets"), keep: notKeys},
		{class: approvalKeys, kind: "Secret", resource: resourceOf("", "v1", "secrets"), keep: func(o *metav1.PartialObjectMetadata) bool { return !notKeys(o) }},
		{class: parts, kind: "ServiceAccount", resource: resourceOf("", "v1", "serviceaccounts")},
		{class: parts, kind: "RoleBinding", resource: resourceOf(rbac, "v1", "rolebindings")},
		{class: parts, kind: "Role", resource: resourceOf(rbac, "v1", "roles")},
		{class: parts, kind: "NetworkPolicy", resource: resourceOf("networking.k8s.io", "v1", "networkpolicies")},
		{class: parts, kind: "PodDisruptionBudget", resource: resourceOf("policy", "v1", "poddisruptionbudgets")},
		{class: parts, kind: "ServiceMonitor", resource: resourceOf("monitoring.coreos.com", "v1", "servicemonitors")},
		{class: parts, kind: "PrometheusRule", resource: resourceOf("monitoring.coreos.com", "v1", "prometheusrules")},
		{class: parts, kind: "Certificate", resource: resourceOf("cert-manager.io", "v1", "certificates")},
		{class: parts, kind: "Issuer", resource: resourceOf("cert-manager.io", "v1", "issuers")},
	}
	for i := range all {
		all[i].namespace, all[i].selector = installed, killswitch.PartOf
	}
	isProcess := func(o *metav1.PartialObjectMetadata) bool {
		return slices.ContainsFunc(processes.All(), func(p processes.Process) bool { return p.Name == o.Name })
	}
	return append(all,
		source{class: parts, kind: "RoleBinding", resource: resourceOf(rbac, "v1", "rolebindings"), namespace: metav1.NamespaceSystem, selector: killswitch.PartOf},
		source{class: remains, kind: "Lease", resource: resourceOf("coordination.k8s.io", "v1", "leases"), namespace: installed, keep: isProcess},
		source{class: remains, kind: "Secret", resource: resourceOf("", "v1", "secrets"), namespace: installed, keep: func(o *metav1.PartialObjectMetadata) bool {
			return (o.Name == "virtward-webhook-cert" || o.Name == "virtward-apiserver-cert") && o.Labels["app.kubernetes.io/part-of"] != "virtward"
		}},
	)
}

// userSources are objects that users can write too. defined reports whether the cluster has a definition of Virtward.
func userSources(defined func(string) bool) []source {
	hasFinalizer := func(name string) func(*metav1.PartialObjectMetadata) bool {
		return func(o *metav1.PartialObjectMetadata) bool { return slices.Contains(o.Finalizers, name) }
	}
	isReport := func(o *metav1.PartialObjectMetadata) bool { return o.Name == reportName }
	managed := export.ManagedBy + "=" + export.Manager
	all := []source{
		{class: reports, kind: "Report", resource: resourceOf("openreports.io", "v1alpha1", "reports"), selector: managed, keep: isReport},
		{class: reports, kind: "PolicyReport", resource: resourceOf("wgpolicyk8s.io", "v1alpha2", "policyreports"), selector: managed, keep: isReport},
		{class: reports, kind: "ClusterReport", resource: resourceOf("openreports.io", "v1alpha1", "clusterreports"), selector: managed, keep: isReport},
		{class: approvedOnly, kind: apikinds.Namespace, resource: resourceOf("", "v1", "namespaces"), selector: v1beta1.ApprovedOnlyLabel + "=true"},
		{class: annotated, kind: apikinds.Namespace, resource: resourceOf("", "v1", "namespaces"), keep: isMarked},
		{class: annotated, kind: apikinds.VirtualMachine, resource: apikinds.VirtualMachines.GroupVersionResource(), keep: isMarked},
		{class: annotated, kind: apikinds.DataSource, resource: apikinds.DataSources.GroupVersionResource(), keep: isMarked},
		{class: annotated, kind: "DataImportCron", resource: resourceOf("cdi.kubevirt.io", "v1beta1", "dataimportcrons"), keep: isMarked},
		{class: annotated, kind: apikinds.DataVolume, resource: apikinds.DataVolumes.GroupVersionResource(), keep: isMarked},
	}
	requests := resourceOf(v1beta1.GroupVersion.Group, v1beta1.GroupVersion.Version, "virtualmachinetemplaterequests")
	for _, k := range []struct {
		kind, finalizer string
		resource        schema.GroupVersionResource
	}{
		{apikinds.RuleSettings, "", resourceOf("policy.virtward.io", "v1alpha1", "rulesettings")},
		{apikinds.VirtualMachineDefaults, "", resourceOf("policy.virtward.io", "v1alpha1", "virtualmachinedefaults")},
		{apikinds.VirtualMachinePolicy, "", apikinds.Policies.GroupVersionResource()},
		{apikinds.VirtualMachinePolicyException, "", apikinds.PolicyExceptions.GroupVersionResource()},
		{apikinds.VirtualMachineRollout, "", apikinds.Rollouts.GroupVersionResource()},
		{"GoldenImageCatalog", "", resourceOf("image.virtward.io", "v1alpha1", "goldenimagecatalogs")},
		{kupenstackv1alpha1.Kind, kupenstackv1alpha1.Finalizer, apikinds.VirtualImages.GroupVersionResource()},
		{apikinds.VirtualMachineTemplate, "", apikinds.Templates.GroupVersionResource()},
		{apikinds.VirtualMachineTemplateRequest, v1beta1.FinalizerSnapshotCleanup, requests},
		{apikinds.VirtualMachineTemplateImport, v1beta1.FinalizerImport, resourceOf(v1beta1.GroupVersion.Group, v1beta1.GroupVersion.Version, "virtualmachinetemplateimports")},
		{apikinds.VirtualMachineTemplateExport, "", resourceOf(v1beta1.GroupVersion.Group, v1beta1.GroupVersion.Version, "virtualmachinetemplateexports")},
	} {
		if !defined(k.resource.GroupResource().String()) {
			continue // another component has the kind, and its finalizers
		}
		all = append(all, source{class: instances, kind: k.kind, resource: k.resource})
		if k.finalizer != "" {
			all = append(all, source{class: finalized, kind: k.kind, resource: k.resource, keep: hasFinalizer(k.finalizer)})
		}
	}
	return all
}

// ownFinalizer is the finalizer of Virtward on objects of a kind.
func ownFinalizer(kind string) string {
	switch kind {
	case kupenstackv1alpha1.Kind:
		return kupenstackv1alpha1.Finalizer
	case apikinds.VirtualMachineTemplateImport:
		return v1beta1.FinalizerImport
	}
	return v1beta1.FinalizerSnapshotCleanup
}

// isMarked reports whether an object has a label or an annotation of Virtward.
func isMarked(o *metav1.PartialObjectMetadata) bool {
	for _, all := range []map[string]string{o.Labels, o.Annotations} {
		for key := range all {
			if domain, _, found := strings.Cut(key, "/"); found && (domain == "virtward.io" || strings.HasSuffix(domain, ".virtward.io")) {
				return true
			}
		}
	}
	return false
}

// Bounds of what is read: objects of a page, whose annotations can have 256 KiB each, and objects of a kind.
const (
	pageSize   = 100
	maxObjects = 50_000
)

// Reader reads what the cluster has of Virtward.
type Reader struct {
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	// Namespace is that of the release; empty to find it.
	Namespace string
}

// Read returns the inventory. What cannot be read is noted in it.
func (r *Reader) Read(ctx context.Context) (*Inventory, error) {
	i := &Inventory{Objects: map[class][]Object{}, Namespace: r.Namespace, ReadNamespaces: true}
	for _, s := range clusterSources() {
		r.add(ctx, i, s)
	}
	named, err := releaseOf(i)
	if err != nil {
		return nil, err
	}
	if i.Namespace == "" && named != nil {
		i.Namespace = named.Namespace
	}
	if i.Namespace == "" {
		if services := killswitch.Services(ctx, r.Dynamic); len(services) > 0 {
			i.Namespace = services[0][0]
		}
	}
	if i.Namespace != "" {
		for _, s := range installedSources() {
			r.add(ctx, i, s)
		}
	}
	if named != nil {
		i.Release = r.existing(ctx, i, *named)
	}
	defined := func(name string) bool {
		return slices.ContainsFunc(i.Objects[definitions], func(o Object) bool { return o.Name == name })
	}
	for _, s := range userSources(defined) {
		r.add(ctx, i, s)
	}
	return i, ctx.Err()
}

// dnsLabel is the form of names of releases and of namespaces. A name of another form could be an option of Helm.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// releaseOf returns the release that the objects without a namespace name; nil if they name none.
func releaseOf(i *Inventory) (*Release, error) {
	var found []Release
	for _, c := range []class{webhooks, apiServices, guards, roles, definitions} {
		for _, o := range i.Objects[c] {
			if o.release.Name != "" && !slices.Contains(found, o.release) {
				found = append(found, o.release)
			}
		}
	}
	switch {
	case len(found) == 0:
		return nil, nil //nolint:nilnil // there is no release, which is no error
	case len(found) > 1:
		return nil, fmt.Errorf("objects of Virtward belong to more than one release of Helm, such as %s and %s: uninstall one of them with Helm first", found[0], found[1])
	case !dnsLabel.MatchString(found[0].Name) || !dnsLabel.MatchString(found[0].Namespace):
		return nil, fmt.Errorf("the annotations of Virtward's objects name the release %q in the namespace %q, which Helm does not permit", found[0].Name, found[0].Namespace)
	case i.Namespace != "" && i.Namespace != found[0].Namespace:
		return nil, fmt.Errorf("the release %s is not in the namespace %s", found[0], i.Namespace)
	}
	return &found[0], nil
}

// String implements fmt.Stringer.
func (r Release) String() string { return r.Namespace + "/" + r.Name }

// existing returns a release if Helm still has it. Its objects name it longer, since some stay.
func (r *Reader) existing(ctx context.Context, i *Inventory, named Release) *Release {
	secrets := r.Metadata.Resource(resourceOf("", "v1", "secrets")).Namespace(named.Namespace)
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: helmPart + named.Name, Limit: 1})
	switch {
	case err == nil && len(list.Items) == 0:
		return nil
	case err != nil && !slices.ContainsFunc(i.all(webhooks, guards, roles), func(o Object) bool { return o.release == named && !o.helmKeeps }):
		return nil
	}
	return &named
}

// all returns the objects of some classes.
func (i *Inventory) all(classes ...class) (all []Object) {
	for _, c := range classes {
		all = append(all, i.Objects[c]...)
	}
	return all
}

// add lists a kind. A kind that the cluster does not have has no objects.
func (r *Reader) add(ctx context.Context, i *Inventory, s source) {
	namespace := s.namespace
	if namespace == installed {
		namespace = i.Namespace
	}
	found, err := r.list(ctx, s, namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		note := fmt.Sprintf("%s: %s", s.resource.GroupResource(), reason(err))
		if !slices.Contains(i.Unread, note) {
			i.Unread = append(i.Unread, note)
		}
		if s.class == approvedOnly {
			i.ReadNamespaces = false
		}
		return
	}
	i.Objects[s.class] = append(i.Objects[s.class], found...)
}

// reason is an error without the name of the resource.
func reason(err error) string {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return "you may not list them"
	}
	return err.Error()
}

func (r *Reader) list(ctx context.Context, s source, namespace string) (found []Object, _ error) {
	options := metav1.ListOptions{LabelSelector: s.selector, Limit: pageSize}
	for {
		page, err := r.Metadata.Resource(s.resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			o := &page.Items[i]
			if namespace != "" && o.Namespace != namespace || s.keep != nil && !s.keep(o) {
				continue
			}
			if len(found) == maxObjects {
				return nil, errors.New("there are more than the command reads: delete objects of the kind first")
			}
			found = append(found, objectOf(s, o))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

func objectOf(s source, o *metav1.PartialObjectMetadata) Object {
	return Object{
		Kind: s.kind, Namespace: o.Namespace, Name: o.Name, resource: s.resource, uid: o.UID, finalizers: o.Finalizers,
		release: Release{Namespace: o.Annotations[helmNamespace], Name: o.Annotations[helmName]}, helmKeeps: o.Annotations[helmPolicy] == "keep", deleting: o.DeletionTimestamp != nil,
	}
}
