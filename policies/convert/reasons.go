package convert

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
)

// Reason is why an original, or one of its rules, is not converted.
type Reason struct {
	// ID is in the notes of results in JSON.
	ID string
	// Message is for users.
	Message string
}

// The ids of Reasons.
const (
	NoVirtualMachine = "no-virtual-machine"
	Unreadable       = "unreadable"
	Mutation         = "mutation"
	Generation       = "generation"
	Signatures       = "signatures"
	Cleanup          = "cleanup"
	Pattern          = "pattern"
	Deny             = "deny"
	ForEach          = "foreach"
	PodSecurity      = "pod-security"
	Manifests        = "manifests"
	Assertion        = "assert"
	Rego             = "rego"
	NoRule           = "no-rule"
	NoPolicy         = "no-policy"
	NoConstraint     = "no-constraint"
	NoTemplate       = "no-template"
	Unknown          = "unknown"
	Settings         = "settings"
	NotAPolicy       = "not-a-policy"
)

const rewriteKyverno = ": docs/from-kyverno.md has the same requirements as VirtualMachinePolicies"

// Reasons returns all reasons. The first one that applies is given.
func Reasons() []Reason {
	return []Reason{
		{NotAPolicy, "skipped: it is not a policy"},
		{NoVirtualMachine, "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool"},
		{Unreadable, "it cannot be read"},
		{Mutation, "it changes objects: Virtward does not run mutations of users, and converts only those that set defaults, see docs/site-defaults.md"},
		{Generation, "it creates objects: Virtward does not create objects for users, see docs/from-kyverno.md"},
		{Signatures, "it verifies signatures: Virtward does not verify those of images, see docs/from-kyverno.md"},
		{Cleanup, "it deletes objects: Virtward does not delete objects"},
		{Pattern, "a part of its patterns (validate.pattern, validate.anyPattern) has no equivalent" + rewriteKyverno},
		{Deny, "a part of its conditions (validate.deny, preconditions) has no equivalent" + rewriteKyverno},
		{ForEach, "a part of its loops (validate.foreach) has no equivalent" + rewriteKyverno},
		{PodSecurity, "it checks Pods with the Pod Security Standards (validate.podSecurity), and a virtual machine is not a Pod: keep the original"},
		{Manifests, "it verifies signatures of manifests (validate.manifests): Virtward does not verify signatures"},
		{Assertion, "it is written as an assertion tree (validate.assert), and only CEL is converted" + rewriteKyverno},
		{Rego, "its template in Rego has a part without an equivalent (docs/from-gatekeeper.md shows how a module changes)"},
		{NoRule, "it has no rule that denies or warns"},
		{NoPolicy, "none of its policies is among the files"},
		{NoConstraint, "its match and its parameters are in constraints, and there is none among the files: add their files with -f"},
		{NoTemplate, "its expressions are in a ConstraintTemplate, which is not among the files: add its file with -f"},
		{Unknown, "this kind of policy is not converted: docs/from-kyverno.md and docs/from-gatekeeper.md have the same requirements as VirtualMachinePolicies"},
		{Settings, "it excludes namespaces from all policies of Gatekeeper: use exceptions, or the chart's value webhook.exemptNamespaces"},
	}
}

// because returns the message of a reason.
func because(id string) string {
	for _, r := range Reasons() {
		if r.ID == id {
			return r.Message
		}
	}
	return id
}

// foreign is a kind that is not converted as a whole.
type foreign struct {
	group, kind, reason string
	// matches reports whether an object can be about virtual machines.
	matches func(*unstructured.Unstructured) bool
}

// foreigners lists the kinds of policy engines that are not converted as a whole. An empty kind is for all other kinds of a
// group.
func foreigners() []foreign {
	const (
		api        = "admissionregistration.k8s.io"
		policies   = "policies.kyverno.io"
		mutations  = "mutations.gatekeeper.sh"
		gatekeeper = "gatekeeper.sh"
	)
	return []foreign{
		{api, "MutatingAdmissionPolicy", Mutation, constrained},
		{api, "MutatingAdmissionPolicyBinding", Mutation, anything},
		{policies, "MutatingPolicy", Mutation, constrained},
		{policies, "NamespacedMutatingPolicy", Mutation, constrained},
		{policies, "GeneratingPolicy", Generation, constrained},
		{policies, "NamespacedGeneratingPolicy", Generation, constrained},
		{policies, "ImageValidatingPolicy", Signatures, constrained},
		{policies, "NamespacedImageValidatingPolicy", Signatures, constrained},
		{policies, "DeletingPolicy", Cleanup, constrained},
		{policies, "NamespacedDeletingPolicy", Cleanup, constrained},
		{policies, "", Unknown, anything},
		{"kyverno.io", "CleanupPolicy", Cleanup, filtered},
		{"kyverno.io", "ClusterCleanupPolicy", Cleanup, filtered},
		{"kyverno.io", "UpdateRequest", NotAPolicy, anything},
		{"kyverno.io", "GlobalContextEntry", NotAPolicy, anything},
		{"kyverno.io", "Test", NotAPolicy, anything}, // of Kyverno's program, as is UserInfo
		{"kyverno.io", "UserInfo", NotAPolicy, anything},
		{"kyverno.io", "", Unknown, anything},
		{mutations, "", Mutation, applied},
		{"config." + gatekeeper, "Config", Settings, excludes},
		{"templates." + gatekeeper, "", Unknown, anything},
		{"constraints." + gatekeeper, "", Unknown, anything},
	}
}

// foreignReason returns why an object of another policy engine is not converted; it is empty for other kinds.
func foreignReason(object *unstructured.Unstructured) string {
	kind := kindOf(object)
	for _, f := range foreigners() {
		if f.group != kind.Group || f.kind != kind.Kind && f.kind != "" {
			continue
		}
		if f.matches(object) {
			return f.reason
		}
		if f.reason == Settings {
			return NotAPolicy
		}
		return NoVirtualMachine
	}
	return ""
}

func anything(*unstructured.Unstructured) bool { return true }

// constrained reports whether the match of a policy in CEL has virtual machines. One that cannot be read can have them.
func constrained(object *unstructured.Unstructured) bool {
	var constraints admissionregistrationv1.MatchResources
	value, found, err := unstructured.NestedMap(object.Object, "spec", "matchConstraints")
	if err != nil || !found {
		return true
	}
	if _, err := decodeValue(value, &constraints); err != nil {
		return true
	}
	return len(cells(&constraints)) > 0
}

// filtered reports whether the match of a policy of Kyverno has virtual machines.
func filtered(object *unstructured.Unstructured) bool {
	var rule clusterRule
	value, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return true
	}
	if _, err := decodeValue(map[string]any{"match": value["match"]}, &rule); err != nil {
		return true
	}
	return rule.matches()
}

// applied reports whether a mutation of Gatekeeper has virtual machines. Assign, ModifySet and AssignImage name their kinds in
// applyTo, AssignMetadata in its match.
func applied(object *unstructured.Unstructured) bool {
	var spec struct {
		ApplyTo []struct {
			Groups []string `json:"groups"`
			Kinds  []string `json:"kinds"`
		} `json:"applyTo"`
		Match struct {
			Kinds []struct {
				APIGroups []string `json:"apiGroups"`
				Kinds     []string `json:"kinds"`
			} `json:"kinds"`
		} `json:"match"`
	}
	if _, err := decode(object, &spec); err != nil {
		return true
	}
	named := func(groups, kinds []string) bool {
		return slices.ContainsFunc(export.Kinds(), func(kind policyv1alpha1.PolicyKind) bool {
			group, _, _ := export.Resource(kind)
			return anyOf(groups, group) && anyOf(kinds, string(kind))
		})
	}
	to, match := len(spec.ApplyTo) == 0, len(spec.Match.Kinds) == 0
	for _, a := range spec.ApplyTo {
		to = to || named(a.Groups, a.Kinds)
	}
	for _, k := range spec.Match.Kinds {
		match = match || named(k.APIGroups, k.Kinds)
	}
	return to && match
}

// excludes reports whether the settings of Gatekeeper exclude namespaces.
func excludes(object *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(object.Object, "spec", "match")
	return len(list) > 0
}

// other notes what becomes of an object that no other function converts.
func (c *converter) other(i int, object *unstructured.Unstructured) {
	switch kind := kindOf(object); {
	case kind == nativeBinding:
		name, _, _ := unstructured.NestedString(object.Object, "spec", "policyName")
		if !c.files.policies[native][name] {
			c.leave(i, object, NoPolicy, fmt.Sprintf("its policy %q is not among the files", name))
		}
	case kind == kyvernoException:
		c.exception(i, object, "policyRefs", "name", kyverno, kyvernoNamespaced)
	case kind == clusterException:
		c.exception(i, object, "exceptions", "policyName", clusterPolicy, namespacedPolicy)
	case foreignReason(object) != "":
		c.leave(i, object, foreignReason(object), "")
	case !c.files.parameter(object):
		c.leave(i, object, NotAPolicy, "")
	}
}

// exception notes an exception that is for none of the policies.
func (c *converter) exception(i int, object *unstructured.Unstructured, list, field string, kinds ...schema.GroupKind) {
	refs, _, _ := unstructured.NestedSlice(object.Object, "spec", list)
	for _, ref := range refs {
		entry, _ := ref.(map[string]any)
		name, _ := entry[field].(string)
		for _, kind := range kinds {
			if c.files.policies[kind][name] {
				return
			}
		}
	}
	c.leave(i, object, NoPolicy, "")
}

// parameter reports whether a policy among the files reads objects of this kind as parameters.
func (f *files) parameter(object *unstructured.Unstructured) bool {
	for _, policy := range f.objects {
		version, _, _ := unstructured.NestedString(policy.Object, "spec", "paramKind", "apiVersion")
		kind, _, _ := unstructured.NestedString(policy.Object, "spec", "paramKind", "kind")
		if kindOf(policy) == native && version == object.GetAPIVersion() && kind == object.GetKind() {
			return true
		}
	}
	return false
}
