package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// original is a policy with one binding, in the form of native policies.
type original struct {
	index       int
	kind, name  string
	annotations map[string]string
	spec        admissionregistrationv1.ValidatingAdmissionPolicySpec
	// binding is empty if the policy needs none, and bound is false if it has none among the files.
	binding     admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec
	bindingName string
	bound       bool
	// several reports whether the policy has other bindings.
	several bool
	// part is the name of the rule of the policy, or the kind and the name of what it belongs to; empty for a whole policy.
	part string
	// suffix is added to the name of the policy.
	suffix string
	// matched is what the policy matches, if that is not in the form of native policies.
	matched map[cell]names
	// conditions are those of exceptions, and what a match has beyond that of native policies.
	conditions []condition
	// excludedUsers and excludedGroups are those of the match.
	excludedUsers, excludedGroups []string
	// admitted reports whether the original is not evaluated at deletions.
	admitted bool
	// denies reports whether the original is a rule with deny, which Kyverno evaluates at deletions too.
	denies bool
	// pods reports whether the original is about the pods of the virtual machines that it matches.
	pods bool
	// written is the rule in patterns, if the original is one.
	written *Written
	// module is in Rego v1; empty for an original in CEL.
	module string
	// values are parameters that are not in an object of their own.
	values map[string]any
	notes  []Note
}

func (o *original) source() string {
	text := o.kind + " " + o.name
	if o.part != "" {
		text += " " + o.part
	}
	if o.bindingName != "" {
		text += " with the binding " + o.bindingName
	}
	return text
}

// policyName returns the name of the original; of several bindings, each has its own.
func (o *original) policyName() string {
	if o.several {
		return o.bindingName
	}
	return o.name + o.suffix
}

// valid returns a name that a policy can have.
func valid(name string) string {
	if len(name) <= policyv1alpha1.MaxPolicyNameLength && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	const hash = 8
	sum := sha256.Sum256([]byte(name))
	kept = strings.Trim(kept[:min(len(kept), policyv1alpha1.MaxPolicyNameLength-hash-1)], "-")
	return strings.TrimPrefix(kept+"-"+hex.EncodeToString(sum[:])[:hash], "-")
}

func (o *original) lost(field, format string, values ...any) {
	o.notes = append(o.notes, Note{Field: field, Message: fmt.Sprintf(format, values...), Lost: true})
}

func (o *original) differs(field, message string) {
	o.notes = append(o.notes, Note{Field: field, Message: message})
}

// notesOf notes what differs in expressions about pods.
func (o *original) notesOf(pods *celPods) {
	for _, note := range pods.notes() {
		o.differs("spec.validations", note)
	}
}

// deniesErrors makes an error in an expression a violation, because Kyverno denies it with failurePolicy Ignore, too. conditions are those
// whose errors are governed by the failurePolicy: then the original is not evaluated.
func (o *original) deniesErrors(conditions []admissionregistrationv1.MatchCondition) {
	policy := o.spec.FailurePolicy
	if policy == nil || *policy != admissionregistrationv1.Ignore {
		return
	}
	o.spec.FailurePolicy = new(admissionregistrationv1.Fail)
	const field = "spec.failurePolicy"
	o.differs(field, "the original has Ignore, which Kyverno does not apply to errors of expressions: it denies them")
	if len(conditions) > 0 {
		o.lost(field, "with an error in its matchConditions, the original is not evaluated: here, it is a violation")
	}
}

// unknown notes fields that the converter does not know.
func (o *original) unknown(fields []string) {
	for _, field := range fields {
		o.lost("spec", "the field %s is unknown, and is not converted", texts.Shorten(field, maxQuoted))
	}
}

// native converts a ValidatingAdmissionPolicy, once for each binding.
func (c *converter) native(i int, object *unstructured.Unstructured) {
	one := original{index: i, kind: object.GetKind(), name: object.GetName(), annotations: object.GetAnnotations()}
	unknown, err := decode(object, &one.spec)
	if err != nil {
		c.unreadable(i, object, err)
		return
	}
	one.unknown(unknown)
	bindings := c.files.bindings(one.name)
	if len(bindings) == 0 {
		one.differs("spec.enforcement", "there is no binding among the files, so the original denies nothing: choose Deny, Warn or Audit")
		if one.spec.ParamKind != nil {
			one.lost("spec", "parameters are named by a binding, and there is none among the files")
		}
		if left := one.moveLaunchers(); left != "" {
			c.leaveLauncher(i, object, left)
			return
		}
		c.add(&one)
		return
	}
	for _, binding := range bindings {
		o := one
		o.notes, o.several, o.bound, o.bindingName = append([]Note(nil), one.notes...), len(bindings) > 1, true, binding.GetName()
		unknown, err := decode(binding, &o.binding)
		if err != nil {
			c.unreadable(i, binding, err)
			continue
		}
		o.unknown(unknown)
		if left := o.moveLaunchers(); left != "" {
			c.leaveLauncher(i, object, left)
			continue
		}
		c.add(&o)
	}
}

// namespaceOf selects the namespace of a policy.
func namespaceOf(policy *unstructured.Unstructured) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: policy.GetNamespace()}}
}

// kyvernoSpec has the fields of Kyverno's ValidatingPolicies that native policies do not have.
type kyvernoSpec struct {
	admissionregistrationv1.ValidatingAdmissionPolicySpec `json:",inline"`

	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions,omitempty"`
	Evaluation        struct {
		Mode      string `json:"mode,omitempty"`
		Admission struct {
			Enabled *bool `json:"enabled,omitempty"`
		} `json:"admission,omitempty"`
		Background struct {
			Enabled *bool `json:"enabled,omitempty"`
		} `json:"background,omitempty"`
	} `json:"evaluation,omitempty"`
	Autogen struct {
		ValidatingAdmissionPolicy struct {
			Enabled *bool `json:"enabled,omitempty"`
		} `json:"validatingAdmissionPolicy,omitempty"`
		// PodControllers generates rules for the kinds that create pods. None of them is a virtual machine.
		PodControllers map[string]any `json:"podControllers,omitempty"`
	} `json:"autogen,omitempty"`
	WebhookConfiguration struct {
		TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`
	} `json:"webhookConfiguration,omitempty"`
}

// kyverno converts a ValidatingPolicy of Kyverno, with its exceptions.
func (c *converter) kyverno(i int, object *unstructured.Unstructured) {
	o := &original{index: i, kind: object.GetKind(), name: object.GetName(), annotations: object.GetAnnotations(), bound: true}
	var spec kyvernoSpec
	unknown, err := decode(object, &spec)
	if err != nil {
		c.unreadable(i, object, err)
		return
	}
	if mode := spec.Evaluation.Mode; mode != "" && mode != "Kubernetes" {
		c.leave(i, object, NoVirtualMachine, fmt.Sprintf("%s: spec.evaluation.mode is %s, and Virtward evaluates only objects of the cluster",
			because(NoVirtualMachine), texts.Shorten(mode, maxQuoted)))
		return
	}
	o.unknown(unknown)
	o.spec, o.binding.ValidationActions = spec.ValidatingAdmissionPolicySpec, spec.ValidationActions
	if len(spec.ValidationActions) == 0 {
		o.binding.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	}
	off := func(enabled *bool) bool { return enabled != nil && !*enabled }
	if off(spec.Evaluation.Admission.Enabled) {
		o.binding.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
		o.differs("spec.enforcement", "spec.evaluation.admission is not enabled: Audit has the same effect")
	}
	if off(spec.Evaluation.Background.Enabled) {
		o.differs("spec", "spec.evaluation.background is not enabled: the audit of Virtward evaluates every policy that it can")
	}
	if enabled := spec.Autogen.ValidatingAdmissionPolicy.Enabled; enabled != nil && *enabled {
		o.differs("spec", "for a ValidatingAdmissionPolicy beside the webhook, add exportTo: [APIServer]; see docs/export.md")
	}
	if spec.WebhookConfiguration.TimeoutSeconds != nil {
		o.differs("spec", "spec.webhookConfiguration is not converted: all policies have the timeout of the webhook")
	}
	if kindOf(object) == kyvernoNamespaced {
		if o.spec.MatchConstraints == nil {
			o.spec.MatchConstraints = &admissionregistrationv1.MatchResources{}
		}
		o.spec.MatchConstraints.NamespaceSelector = both(o.spec.MatchConstraints.NamespaceSelector, namespaceOf(object))
	}
	if enabled := spec.Autogen.ValidatingAdmissionPolicy.Enabled; enabled == nil || !*enabled {
		o.deniesErrors(spec.MatchConditions)
	}
	if left := o.moveLaunchers(); left != "" {
		c.leaveLauncher(i, object, left)
		return
	}
	o.absentObjects("spec.match", c.exceptions(o, kindOf(object).Kind))
	o.absentObjects("spec.validations", o.expressions())
	c.add(o)
}

// absentObjects notes expressions of a field about an object that a request does not have: Kyverno has an empty one there, and policies null.
func (o *original) absentObjects(field string, all []*string) {
	constraints := o.spec.MatchConstraints
	if constraints == nil {
		return
	}
	creates, deletes := false, false
	for c := range cells(constraints) {
		creates, deletes = creates || c.operation == policyv1alpha1.PolicyCreate, deletes || c.operation == policyv1alpha1.PolicyDelete
	}
	switch {
	case comparesNull(o.spec.Variables, all):
		o.lost(field, "it compares object or oldObject with null, which Kyverno never has: where a request has none, it has an empty object. "+
			"Compare request.operation")
	case slices.ContainsFunc(all, func(text *string) bool {
		return creates && export.Reads(*text, "oldObject") || deletes && export.Reads(*text, "object")
	}):
		o.differs(field, "where a request has no object or no oldObject, Kyverno has an empty one, and a policy null: "+
			"test request.operation before you read it")
	}
}

// kyvernoExceptionSpec is an exception of Kyverno's policies in CEL.
type kyvernoExceptionSpec struct {
	PolicyRefs []struct {
		Name string `json:"name"`
		Kind string `json:"kind,omitempty"`
	} `json:"policyRefs"`
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
}

// exceptions adds a condition for each exception of a policy, and returns the expressions of the exceptions.
func (c *converter) exceptions(o *original, kind string) (all []*string) {
	for _, object := range c.files.objects {
		if kindOf(object) != kyvernoException {
			continue
		}
		var spec kyvernoExceptionSpec
		unknown, err := decode(object, &spec)
		for _, ref := range spec.PolicyRefs {
			if ref.Name != o.name || ref.Kind != "" && ref.Kind != kind {
				continue
			}
			name := texts.Shorten(object.GetName(), maxQuoted)
			if err != nil || len(unknown) > 0 || len(spec.MatchConditions) == 0 {
				o.lost("spec.match", "the exception %s has more than matchConditions, and is not converted: see docs/from-kyverno.md", name)
				continue
			}
			for i := range spec.MatchConditions {
				all = append(all, &spec.MatchConditions[i].Expression)
			}
			conditions := slices.Clone(spec.MatchConditions)
			if o.pods {
				if err := (&celPods{}).replace(conditions, nil, nil); err != nil {
					o.lost("spec.match", "the exception %s is not converted: %v", name, err)
					continue
				}
			}
			o.require(valid("not-"+object.GetName()), unmet(conditions))
		}
	}
	return all
}

// unmet returns the expression that is true where one of several conditions is not met.
func unmet(conditions []admissionregistrationv1.MatchCondition) string {
	all := make([]string, len(conditions))
	for i := range conditions {
		all[i] = bracketed(conditions[i].Expression)
	}
	return "!" + bracketed(strings.Join(all, " && "))
}

// bracketed puts an expression in brackets. It may end with a comment.
func bracketed(text string) string {
	if strings.Contains(text, "//") {
		return "(" + text + "\n)"
	}
	return "(" + text + ")"
}
