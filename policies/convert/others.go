package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// foreign is a kind of another policy engine that is not converted, and what to read instead.
type foreign struct {
	group, kind, advice string
}

const (
	kyvernoPage    = "docs/from-kyverno.md has the same patterns as VirtualMachinePolicies"
	gatekeeperPage = "docs/from-gatekeeper.md has the same patterns as VirtualMachinePolicies"
	noMutation     = "Virtward does not run mutations of users: VirtualMachineDefaults set defaults, see docs/site-defaults.md"
)

// foreigners lists the kinds of other engines. An empty kind is for all other kinds of a group.
var foreigners = []foreign{
	{"admissionregistration.k8s.io", "MutatingAdmissionPolicy", noMutation},
	{"admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", noMutation},
	{"policies.kyverno.io", "MutatingPolicy", noMutation},
	{"policies.kyverno.io", "NamespacedMutatingPolicy", noMutation},
	{"policies.kyverno.io", "GeneratingPolicy", "Virtward does not create objects: see docs/from-kyverno.md"},
	{"policies.kyverno.io", "ImageValidatingPolicy", "Virtward does not verify signatures of images: see docs/from-kyverno.md"},
	{"policies.kyverno.io", "", kyvernoPage},
	{"kyverno.io", "", "policies in patterns are not converted: " + kyvernoPage},
	{"templates.gatekeeper.sh", "", gatekeeperPage},
	{"constraints.gatekeeper.sh", "", gatekeeperPage},
	{"mutations.gatekeeper.sh", "", noMutation},
}

// foreignAdvice returns what to read about a kind of another policy engine; it is empty for other kinds.
func foreignAdvice(kind schema.GroupKind) string {
	for _, f := range foreigners {
		if f.group == kind.Group && (f.kind == kind.Kind || f.kind == "") {
			return f.advice
		}
	}
	return ""
}

// other notes what becomes of an object that is no policy.
func (c *converter) other(i int, object *unstructured.Unstructured) {
	kind := kindOf(object)
	switch {
	case kind == nativeBinding:
		name, _, _ := unstructured.NestedString(object.Object, "spec", "policyName")
		if !c.files.policies[native][name] {
			c.leave(i, object, true, fmt.Sprintf("its policy %q is not among the files", name))
		}
	case kind == kyvernoException:
		refs, _, _ := unstructured.NestedSlice(object.Object, "spec", "policyRefs")
		for _, ref := range refs {
			entry, _ := ref.(map[string]any)
			if name, _ := entry["name"].(string); c.files.policies[kyverno][name] || c.files.policies[kyvernoNamespaced][name] {
				return
			}
		}
		c.leave(i, object, true, "none of its policies is among the files")
	case foreignAdvice(kind) != "":
		c.leave(i, object, true, foreignAdvice(kind))
	case !c.files.parameter(object):
		c.leave(i, object, false, "skipped: it is not a policy")
	}
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
