package convert

import (
	"errors"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/texts"
)

// The kinds that are converted, and those that belong to them.
var (
	native            = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}
	nativeBinding     = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}
	kyverno           = schema.GroupKind{Group: "policies.kyverno.io", Kind: "ValidatingPolicy"}
	kyvernoNamespaced = schema.GroupKind{Group: "policies.kyverno.io", Kind: "NamespacedValidatingPolicy"}
	kyvernoException  = schema.GroupKind{Group: "policies.kyverno.io", Kind: "PolicyException"}

	clusterPolicy    = schema.GroupKind{Group: "kyverno.io", Kind: "ClusterPolicy"}
	namespacedPolicy = schema.GroupKind{Group: "kyverno.io", Kind: "Policy"}
	clusterException = schema.GroupKind{Group: "kyverno.io", Kind: "PolicyException"}

	gatekeeperAssign   = schema.GroupKind{Group: "mutations.gatekeeper.sh", Kind: "Assign"}
	constraintTemplate = schema.GroupKind{Group: "templates.gatekeeper.sh", Kind: "ConstraintTemplate"}
)

// constraintGroup is the group of Gatekeeper's constraints. Their kinds are those of their templates.
const constraintGroup = "constraints.gatekeeper.sh"

func kindOf(object *unstructured.Unstructured) schema.GroupKind {
	return object.GroupVersionKind().GroupKind()
}

// files are the objects that belong to policies.
type files struct {
	objects []*unstructured.Unstructured
	// policies are the names of the native policies, and of Kyverno's with their kinds, as exceptions name them.
	policies map[schema.GroupKind]map[string]bool
}

func sorted(objects []*unstructured.Unstructured) *files {
	f := &files{objects: objects, policies: map[schema.GroupKind]map[string]bool{}}
	for _, object := range objects {
		kind := kindOf(object)
		if f.policies[kind] == nil {
			f.policies[kind] = map[string]bool{}
		}
		f.policies[kind][qualified(object)] = true
	}
	return f
}

// bindings returns the bindings of a native policy.
func (f *files) bindings(policy string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, object := range f.objects {
		if kindOf(object) != nativeBinding {
			continue
		}
		if name, _, _ := unstructured.NestedString(object.Object, "spec", "policyName"); name == policy {
			found = append(found, object)
		}
	}
	return found
}

// parameters returns the objects that a reference selects.
func (f *files) parameters(kind *admissionregistrationv1.ParamKind, ref *admissionregistrationv1.ParamRef) []*unstructured.Unstructured {
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil
	}
	var found []*unstructured.Unstructured
	for _, object := range f.objects {
		if object.GetAPIVersion() != kind.APIVersion || object.GetKind() != kind.Kind || ref.Namespace != "" && object.GetNamespace() != ref.Namespace {
			continue
		}
		if ref.Name != "" && object.GetName() == ref.Name || ref.Selector != nil && selector.Matches(labelsOf(object)) {
			found = append(found, object)
		}
	}
	return found
}

type labels map[string]string

func labelsOf(object *unstructured.Unstructured) labels { return object.GetLabels() }

// Has, Get and Lookup implement labels.Labels.
func (l labels) Has(label string) bool              { _, ok := l[label]; return ok }
func (l labels) Get(label string) string            { return l[label] }
func (l labels) Lookup(label string) (string, bool) { value, ok := l[label]; return value, ok }

// decode reads the spec of an object into its Go type. It returns the names of unknown fields.
func decode(object *unstructured.Unstructured, into any) (unknown []string, err error) {
	value, found, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil || !found {
		return nil, errors.New("spec must be an object")
	}
	return decodeValue(value, into)
}

// decodeValue reads a value into its Go type. It returns the names of unknown fields.
func decodeValue(value map[string]any, into any) (unknown []string, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(value, into, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, one := range strict.Errors() {
			unknown = append(unknown, strings.Trim(strings.TrimPrefix(texts.OneLine(one.Error()), "unknown field "), `"`))
		}
		return unknown, nil
	}
	if err != nil {
		return nil, errors.New(texts.OneLine(err.Error()))
	}
	return nil, nil
}
