package admissionpolicies

import (
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// settles is the time that API servers need to enforce a new policy.
const settles = 10 * time.Second

// ActiveSince returns the time since which a guard denies creations and updates of a resource; zero if it does not. Both
// objects are nil if they do not exist. A guard that an admin changes in other ways counts as active.
func ActiveSince(resource schema.GroupResource, policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) time.Time {
	return Guard{Resource: resource}.ActiveSince(policy, binding)
}

// Guard is what must be active of a guard, so that the objects of a resource are trusted.
type Guard struct {
	// Name is that of the policy and of its binding.
	Name string
	// Resource is what it evaluates, with its subresource.
	Resource schema.GroupResource
	// Creations: it evaluates only creations, because what it guards cannot change afterwards.
	Creations bool
	// Conditions are the names of the match conditions that it has.
	Conditions []string
}

// RolloutGuards are those that VirtualMachineRollouts need.
func RolloutGuards() []Guard {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "rollout.virtward.io", Resource: resource}
	}
	return []Guard{{Name: Rollouts, Resource: of("virtualmachinerollouts")}, {Name: RolloutStatus, Resource: of("virtualmachinerollouts/status")}}
}

// CaptureGuards are those that VirtualMachineTemplateRequests need.
func CaptureGuards() []Guard {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "template.kubevirt.io", Resource: resource}
	}
	return []Guard{
		{Name: TemplateCapture, Resource: of("virtualmachinetemplaterequests"), Creations: true},
		{Name: TemplateRequestLabels, Resource: of("virtualmachinetemplates"), Conditions: []string{"sets-the-label", "not-by-the-controller"}},
		{Name: TemplateStatus, Resource: of("virtualmachinetemplaterequests/status")},
	}
}

// ImportGuards are those that VirtualMachineTemplateImports need.
func ImportGuards() []Guard {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "template.kubevirt.io", Resource: resource}
	}
	return []Guard{
		{Name: TemplateImport, Resource: of("virtualmachinetemplateimports"), Creations: true},
		{Name: TemplateImportLabels, Resource: of("virtualmachinetemplates"), Conditions: []string{"sets-the-label", "not-by-the-controller"}},
		{Name: TemplateImportStatus, Resource: of("virtualmachinetemplateimports/status")},
	}
}

// ExportGuards are those that VirtualMachineTemplateExports need.
func ExportGuards() []Guard {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "template.kubevirt.io", Resource: resource}
	}
	return []Guard{
		{Name: TemplateExport, Resource: of("virtualmachinetemplateexports"), Creations: true},
		{Name: TemplateExportStatus, Resource: of("virtualmachinetemplateexports/status")},
	}
}

// ExportCloneGuards are those that VirtualMachineTemplateExports also need while they trust clones.
func ExportCloneGuards() []Guard {
	return []Guard{
		{Name: TemplateExportLabels, Resource: schema.GroupResource{Group: "cdi.kubevirt.io", Resource: "datavolumes"}, Conditions: []string{"sets-the-label", "not-by-the-controller"}},
	}
}

// CatalogGuards are those that GoldenImageCatalogs need.
func CatalogGuards() []Guard {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "image.virtward.io", Resource: resource}
	}
	return []Guard{
		{Name: GoldenImageCatalogs, Resource: of("goldenimagecatalogs"), Conditions: []string{"spec-changed"}},
		{Name: GoldenImageStatus, Resource: of("goldenimagecatalogs/status")},
	}
}

// VirtualImageGuards are those that VirtualImages need.
func VirtualImageGuards() []Guard {
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: "kupenstack.io", Resource: resource}
	}
	return []Guard{
		{Name: VirtualImages, Resource: of("virtualimages"), Conditions: []string{"created-or-released"}},
		{Name: VirtualImageStatus, Resource: of("virtualimages/status")},
	}
}

// ActiveSince returns the time since which the guard denies; zero if it does not. Both objects are nil if they do not exist. A
// guard that an admin changes in other ways counts as active.
func (g Guard) ActiveSince(policy *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) time.Time {
	if policy == nil || binding == nil || !g.enforces(&policy.Spec) || policy.DeletionTimestamp != nil || binding.DeletionTimestamp != nil {
		return time.Time{}
	}
	b := &binding.Spec
	if b.PolicyName != policy.Name || b.ParamRef != nil || !everything(b.MatchResources) || !slices.Contains(b.ValidationActions, admissionregistrationv1.Deny) {
		return time.Time{}
	}
	since := policy.CreationTimestamp.Time
	if binding.CreationTimestamp.After(since) {
		since = binding.CreationTimestamp.Time
	}
	return since.Add(settles)
}

// enforces reports whether a policy evaluates all creations and updates of the resource, and fails closed.
func (g Guard) enforces(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) bool {
	failsClosed := spec.FailurePolicy == nil || *spec.FailurePolicy == admissionregistrationv1.Fail
	others := slices.ContainsFunc(spec.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool { return !slices.Contains(g.Conditions, c.Name) })
	if !failsClosed || others || len(spec.Validations) == 0 || spec.ParamKind != nil || spec.MatchConstraints == nil {
		return false
	}
	m := *spec.MatchConstraints
	m.ResourceRules = nil
	return everything(&m) && slices.ContainsFunc(spec.MatchConstraints.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return len(r.ResourceNames) == 0 && has(r.APIGroups, g.Resource.Group) && has(r.APIVersions, "*") && has(r.Resources, g.Resource.Resource) &&
			has(r.Operations, admissionregistrationv1.Create) && (g.Creations || has(r.Operations, admissionregistrationv1.Update)) &&
			(r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope)
	})
}

func has[T ~string](all []T, one T) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}

// everything reports whether a match has no restrictions.
func everything(m *admissionregistrationv1.MatchResources) bool {
	return m == nil || len(m.ResourceRules) == 0 && len(m.ExcludeResourceRules) == 0 && unrestricted(m.NamespaceSelector) && unrestricted(m.ObjectSelector)
}

func unrestricted(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
