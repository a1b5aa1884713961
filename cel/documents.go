package cel

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// Documents are what one evaluation sees. They are read, never written; what was read of them is kept for the
// other programs and policies that evaluate the same, so that Documents belong to one goroutine and do not change
// after their first use. What is not kept is Params: each policy may set its own, or use a copy.
type Documents struct {
	// Kind of Object: one of Kinds.
	Kind string
	// Object and OldObject are pointers to typed objects, such as *v1.VirtualMachine; nil if there is none. A deletion has
	// only OldObject.
	// A kind without a Go type may be given as the map[string]any of its JSON.
	Object, OldObject any
	// VM is the effective VM: name, namespace, labels and annotations as the VMI will have them, and the
	// completed spec. Its status is not read.
	VM *v1.VirtualMachineInstance
	// OwnerLabels are the labels of the VirtualMachine that controls an instance; nil if they are not known, or if there
	// is none. Only exceptions of policies read them.
	OwnerLabels map[string]string
	// Request is the admission request. Without an Operation there is none, as in an audit: then only kind,
	// resource, name and namespace can be read of it.
	Request Request
	// Namespace is the object's namespace, of which the metadata can be read; nil if it is not known.
	Namespace *corev1.Namespace
	// Instancetype and Preference are the specs that the VM is expanded from, as
	// *instancetypev1beta1.VirtualMachineInstancetypeSpec and …PreferenceSpec; nil if there is none.
	Instancetype, Preference any
	// Provenance says which layer set what, with paths of the effective VM.
	Provenance []provenance.Change
	// AtRunTime are the fields of VM that are empty in the instance, with the values that KubeVirt uses at run time.
	AtRunTime []provenance.Change
	// Facts are the facts about the cluster.
	Facts *platform.Facts
	// Requester is the name of the requester; empty if there is none.
	Requester string
	// Author is the user for whom KubeVirt sends the request; nil if that is not to be known, as for the virtual machines of
	// a pool. No expression reads it: see As.
	Author *Author
	// Rollout is what an update of a running VM changes.
	Rollout Rollout
	// References are the objects that the VM points at; nil if they are not known.
	References *References
	// MoreReferences reads the objects that only policies which do not deny read, and returns them with those of
	// References; nil if there are none, or if they were read. See ReadMore.
	MoreReferences func() *References
	// Previews compute the pod and the domain; nil if they are not known.
	Previews *Previews
	// Params are the parameters of the policy, as JSON decodes them; nil if there are none.
	Params any
	// Authorizer answers what Request.UserInfo may do. Without one an expression that asks is in error.
	// AuthorizerApart is that of policies that do not deny; nil for Authorizer..
	Authorizer, AuthorizerApart authorizer.UnconditionalAuthorizer
	// OnlyDenying leaves out the policies that do not deny.
	OnlyDenying bool
	// Gone reports whether the request was canceled, so that the result does not matter; nil for never.
	Gone func() bool
	// Hurry tells that there is no time left for policies that do not deny; nil for never.
	Hurry func() bool
	// Large reports whether the object is larger than an ordinary one. No expression reads it.
	Large bool

	seen seen
}

// Author is the user for whom KubeVirt creates or changes a virtual machine.
type Author struct {
	User authenticationv1.UserInfo
	// Unknown says why the user is not known; empty if it is.
	Unknown string
}

// As returns the documents of the same request, as if a user sent it.
func (d *Documents) As(user authenticationv1.UserInfo) *Documents {
	as := *d
	as.Request.UserInfo, as.Requester, as.Author, as.seen.request = user, user.Username, nil, nil
	return &as
}

// OutOfTime reports that there is no time left for policies that do not deny.
func (d *Documents) OutOfTime() bool {
	if d.Hurry != nil {
		return d.Hurry()
	}
	return d.Gone != nil && d.Gone()
}

// Subject returns the object that the request is about: OldObject in a deletion.
func (d *Documents) Subject() any {
	if d.Object == nil {
		return d.OldObject
	}
	return d.Object
}

// ReadMore reads the objects of MoreReferences, once. It is for policies that do not deny, after all that do.
func (d *Documents) ReadMore() {
	if d.MoreReferences != nil {
		d.References, d.MoreReferences, d.seen.references = d.MoreReferences(), nil, nil
	}
}

// Request is what an expression knows of an admission request.
type Request struct {
	Operation   string                      `json:"operation"` // CREATE, UPDATE or DELETE
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	UserInfo    authenticationv1.UserInfo   `json:"userInfo"`
	DryRun      bool                        `json:"dryRun"`
	// Options are those of the operation, such as the propagationPolicy of a DELETE; nil if they are unknown.
	Options map[string]any `json:"options,omitempty"`
}

// Rollout is the variable rollout: the fields of the VM that an update changes, by when the guest gets the change. All
// lists are empty if there is no running instance.
type Rollout struct {
	// Restart are fields that need a restart, Migration those that need a live migration, and Never those whose change
	// has no effect.
	Restart   []string `json:"restart"`
	Migration []string `json:"migration"`
	Never     []string `json:"never"`
	// Unknown is true if the VM runs, and the lists are not known or not complete.
	Unknown bool `json:"unknown"`
}

// Complete is the rollout with lists instead of nil.
func (r Rollout) Complete() *Rollout {
	for _, list := range []*[]string{&r.Restart, &r.Migration, &r.Never} {
		if *list == nil {
			*list = []string{}
		}
	}
	return &r
}

// described is the variable platform.
type described struct {
	Hypervisor          string   `json:"hypervisor"`
	HypervisorDevice    string   `json:"hypervisorDevice"`
	Architecture        string   `json:"architecture"`
	DefaultArchitecture string   `json:"defaultArchitecture"`
	FeatureGates        []string `json:"featureGates"`
	// KubeVirtUsers are the user names of KubeVirt's own accounts.
	KubeVirtUsers []string `json:"kubeVirtUsers"`
}

// effectiveVM is the variable vm.
type effectiveVM struct {
	APIVersion string                         `json:"apiVersion"`
	Kind       string                         `json:"kind"`
	Metadata   *metav1.ObjectMeta             `json:"metadata"`
	Spec       *v1.VirtualMachineInstanceSpec `json:"spec"`
}

// namespace is the variable namespaceObject.
type namespace struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   *metav1.ObjectMeta `json:"metadata"`
}

// architecture is that of the VM, and the cluster's default where it names none.
func (d *Documents) architecture() string {
	if d.VM != nil && d.VM.Spec.Architecture != "" {
		return d.VM.Spec.Architecture
	}
	return d.Facts.DefaultArchitecture
}

func (d *Documents) describe() *described {
	if d.Facts == nil {
		return nil
	}
	return &described{
		Hypervisor:          d.Facts.Hypervisor.Name,
		HypervisorDevice:    d.Facts.Hypervisor.Device,
		Architecture:        d.architecture(),
		DefaultArchitecture: d.Facts.DefaultArchitecture,
		FeatureGates:        d.Facts.EnabledGates(),
		KubeVirtUsers:       d.Facts.KubeVirtUsers(),
	}
}

// layers maps the paths of fields to the layers that set them; of two, the last counts.
func (d *Documents) layers() map[string]string {
	layers := make(map[string]string, len(d.Provenance))
	for _, change := range d.Provenance {
		layers[change.Path] = change.Layer
	}
	return layers
}
