package convert

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/texts"
)

// leaveRules adds a result for a policy without a rule about virtual machines.
func (c *converter) leaveRules(i int, object *unstructured.Unstructured, rules []clusterRule) {
	switch len(rules) {
	case 0:
		c.leave(i, object, NoRule, "")
		return
	case 1:
		c.leave(i, object, NoVirtualMachine, rules[0].unmatched())
		return
	}
	message := because(NoVirtualMachine)
	for k := range rules {
		if advice := rules[k].launchers(); advice != "" && len(message) < maxListed {
			message += fmt.Sprintf("; the rule %s %s", texts.Shorten(rules[k].Name, maxQuoted), advice)
		}
	}
	c.leave(i, object, NoVirtualMachine, message)
}

// clusterPolicy converts a ClusterPolicy or a Policy of Kyverno, once for each of its rules in CEL.
func (c *converter) clusterPolicy(i int, object *unstructured.Unstructured) {
	var spec clusterSpec
	unknown, err := decode(object, &spec)
	if err != nil {
		c.unreadable(i, object, err)
		return
	}
	spec.moveLaunchers()
	var about []*clusterRule
	var notes []Note
	for k := range spec.Rules {
		if rule := &spec.Rules[k]; rule.matches() {
			about = append(about, rule)
		} else {
			message := fmt.Sprintf("the rule %s: %s: keep the original for it", texts.Shorten(rule.Name, maxQuoted), rule.unmatched())
			notes = append(notes, Note{Message: message, Lost: true, Reason: NoVirtualMachine})
		}
	}
	if len(about) == 0 {
		c.leaveRules(i, object, spec.Rules)
		return
	}
	if len(about) > 1 && spec.ApplyRules == "One" {
		notes = append(notes, Note{Message: "spec.applyRules is One, so only the first rule that matches is applied: policies are evaluated independently", Lost: true})
	}
	var converted []*translation
	for _, rule := range about {
		made, reason, problems := rule.translate(spec.ignores())
		if reason == Mutation {
			b := &defaultsBuilder{}
			source, name := object.GetKind()+" "+object.GetName(), object.GetName()
			if len(spec.Rules) > 1 {
				source, name = source+" rule "+texts.Shorten(rule.Name, maxQuoted), name+"-"+rule.Name
			}
			defaults := b.mutating(rule)
			if kindOf(object) == namespacedPolicy {
				defaults.Spec.Match.NamespaceSelector = both(defaults.Spec.Match.NamespaceSelector, namespaceOf(object))
			}
			if b.problem == "" && c.defaults(i, source, name, defaults, b) {
				continue
			}
			problems = b.problem
		}
		if reason != "" {
			message := because(reason) + problems
			if len(spec.Rules) > 1 {
				message = fmt.Sprintf("the rule %s: %s", texts.Shorten(rule.Name, maxQuoted), message)
			}
			notes = append(notes, Note{Message: message, Lost: true, Reason: reason})
			continue
		}
		converted = append(converted, made)
	}
	for _, rule := range converted {
		o := original{index: i, kind: object.GetKind(), name: object.GetName(), annotations: object.GetAnnotations(), bound: true}
		o.unknown(unknown)
		unknown = nil // once
		if len(spec.Rules) > 1 {
			o.part = "rule " + texts.Shorten(rule.rule.Name, maxQuoted)
		}
		if len(converted) > 1 {
			o.suffix = "-" + rule.rule.Name
		}
		c.clusterRule(&o, object, &spec, rule)
	}
	if len(notes) > 0 {
		c.results = append(c.results, Result{Index: i, Source: described(object), Notes: notes})
	}
}

// clusterRule converts a rule in CEL, once for each action that it has.
func (c *converter) clusterRule(o *original, object *unstructured.Unstructured, spec *clusterSpec, made *translation) {
	rule := made.rule
	validate := rule.Validate.CEL
	o.spec.MatchConstraints = &admissionregistrationv1.MatchResources{}
	o.spec.Variables, o.spec.AuditAnnotations = validate.Variables, validate.AuditAnnotations
	o.spec.ParamKind, o.binding.ParamRef = validate.ParamKind, validate.ParamRef
	o.clusterConditions(spec, made)
	for _, v := range validate.Expressions {
		if v.Message == "" {
			v.Message = strings.TrimSpace(rule.Validate.Message)
		}
		o.spec.Validations = append(o.spec.Validations, v)
	}
	for _, note := range made.notes {
		o.differs("spec.validations", note)
	}
	if reason := rule.rest(); reason != NoRule {
		o.lost("spec.validations", "the rule has another part: %s", because(reason))
	}
	if rule.Pods {
		o.differs("spec.match", podsMoved)
	}
	if rule.Preconditions != nil {
		o.lost("spec.match", "the preconditions of the rule are in JMESPath: write them as matchConditions")
	}
	if len(rule.Context) > 0 {
		o.differs("spec.variables", "the context of the rule is not converted: expressions in CEL do not read it")
	}
	if validate.Generate != nil && *validate.Generate {
		o.differs("spec", "for a ValidatingAdmissionPolicy beside the webhook, add exportTo: [APIServer]; see docs/export.md")
	}
	if spec.Background != nil && !*spec.Background {
		o.differs("spec", "spec.background is false: the audit of Virtward evaluates every policy that it can")
	}
	if spec.WebhookConfiguration.TimeoutSeconds != nil || spec.WebhookTimeoutSeconds != nil {
		o.differs("spec", "the timeout of the webhook is not converted: all policies have the same")
	}
	o.admitted, o.written, o.denies = made.patterns, made.written, made.denies
	o.clusterMatch(rule)
	if kindOf(object) == namespacedPolicy {
		o.spec.MatchConstraints.NamespaceSelector = both(o.spec.MatchConstraints.NamespaceSelector, namespaceOf(object))
	}
	c.clusterExceptions(o, object, rule)
	for _, one := range actions(o, spec, rule) {
		c.add(one)
	}
}

// clusterConditions writes the conditions of a rule, and what an error means.
func (o *original) clusterConditions(spec *clusterSpec, made *translation) {
	conditions := spec.WebhookConfiguration.MatchConditions
	o.spec.MatchConditions = slices.Clone(conditions)
	if o.spec.FailurePolicy = spec.WebhookConfiguration.FailurePolicy; o.spec.FailurePolicy == nil {
		o.spec.FailurePolicy = spec.FailurePolicy
	}
	if before := made.rule.CELPreconditions; made.inCEL() {
		o.spec.MatchConditions = append(o.spec.MatchConditions, before...)
	} else if len(before) > 0 {
		o.differs("spec.match", "celPreconditions are left out: they have an effect on rules with validate.cel only")
	}
	if generate := made.rule.Validate.CEL.Generate; made.inCEL() && (generate == nil || !*generate) {
		o.deniesErrors(conditions)
	}
}

// actions returns the original for each action that a rule has: in namespaces of overrides, it can have another one.
func actions(o *original, spec *clusterSpec, rule *clusterRule) []*original {
	enforces := func(action string) bool { return strings.EqualFold(action, "Enforce") }
	overrides, action := rule.Validate.FailureActionOverrides, rule.Validate.FailureAction
	if action == "" {
		overrides, action = slices.Concat(overrides, spec.ValidationFailureActionOverrides), spec.ValidationFailureAction
	}
	condition, denies := "", enforces(action)
	for _, override := range slices.Backward(overrides) {
		if isInvalid(override.NamespaceSelector) || !enforces(override.Action) && !strings.EqualFold(override.Action, "Audit") {
			o.lost("spec.enforcement", "an override has an unknown action or selector, and no effect: %s", texts.Shorten(override.Action, maxQuoted))
			continue
		}
		if enforces(override.Action) == denies && condition == "" {
			continue
		}
		if override.Namespaces != nil && len(override.Namespaces) == 0 {
			o.differs("spec.enforcement", "an override with an empty list of namespaces has no effect")
			continue
		}
		if len(override.Namespaces) == 0 && override.NamespaceSelector == nil {
			condition, denies = "", enforces(override.Action)
			continue
		}
		f := &filter{namespaces: override.Namespaces, namespaceSelector: override.NamespaceSelector}
		otherwise := condition
		if otherwise == "" {
			otherwise = fmt.Sprint(denies)
		}
		condition = simplified(f.whole(nil), enforces(override.Action), otherwise)
	}
	weaker := admissionregistrationv1.Audit
	if spec.EmitWarning != nil && *spec.EmitWarning {
		weaker = admissionregistrationv1.Warn
	}
	of := func(denies bool, condition, suffix string) *original {
		one := *o
		one.notes, one.conditions = slices.Clone(o.notes), slices.Clone(o.conditions)
		one.suffix += suffix
		action := weaker
		if denies {
			action = admissionregistrationv1.Deny
		}
		if spec.Admission != nil && !*spec.Admission {
			action = admissionregistrationv1.Audit
			one.differs("spec.enforcement", "spec.admission is false: Audit has the same effect")
		}
		one.binding.ValidationActions = []admissionregistrationv1.ValidationAction{action}
		if condition != "" {
			one.require("action", condition)
			one.differs("spec.enforcement", "the action differs by namespace, so there is one policy for each action")
		}
		return &one
	}
	if condition == "" {
		return []*original{of(denies, "", "")}
	}
	return []*original{of(true, condition, ""), of(false, "!("+condition+")", "-"+strings.ToLower(string(weaker)))}
}

// simplified returns the expression (override ? action : otherwise).
func simplified(override string, action bool, otherwise string) string {
	switch {
	case override == always:
		return fmt.Sprint(action)
	case action && otherwise == "false":
		return override
	case action:
		return "(" + override + ") || " + bracketed(otherwise)
	case otherwise == "true":
		return "!(" + override + ")"
	}
	return "!(" + override + ") && " + bracketed(otherwise)
}

// clusterExceptions adds a condition for each exception of a rule.
func (c *converter) clusterExceptions(o *original, policy *unstructured.Unstructured, rule *clusterRule) {
	for _, object := range c.files.objects {
		if kindOf(object) != clusterException {
			continue
		}
		var spec clusterExceptionSpec
		unknown, err := decode(object, &spec)
		named := slices.ContainsFunc(spec.Exceptions, func(e exceptedRules) bool {
			return e.PolicyName == qualified(policy) && slices.ContainsFunc(e.RuleNames, func(name string) bool { return isLike(name, rule.Name) })
		})
		if !named {
			continue
		}
		left := ""
		if rule.Pods {
			spec.Match, left = spec.Match.ofMachines(true)
		}
		filters, every := spec.Match.excepting()
		var made []*filter
		lost := left != "" || err != nil || len(unknown) > 0 || spec.Conditions != nil
		for i := range filters {
			f := filters[i].filter(operations, rule.Pods)
			made, lost = append(made, f), lost || len(f.lost) > 0
		}
		name := valid("not-" + object.GetName())
		switch {
		case lost:
			o.lost("spec.match", "the exception %s has more than a match, and is not converted: see docs/from-kyverno.md", texts.Shorten(object.GetName(), maxQuoted))
		case len(made) == 0:
			o.differs("spec.match", "the exception "+texts.Shorten(object.GetName(), maxQuoted)+" has a match that is empty, and no effect")
		case every:
			o.requireNot(name, made...)
		default:
			for _, f := range made {
				o.requireNot(name, f)
			}
		}
	}
}
