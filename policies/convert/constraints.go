package convert

import (
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// constraint converts a constraint with its template.
func (c *converter) constraint(i int, object *unstructured.Unstructured) {
	o := &original{
		index: i, kind: object.GetKind(), name: object.GetName(), bound: true,
		spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionregistrationv1.MatchResources{}},
	}
	var spec constraintSpec
	if value, found, err := unstructured.NestedMap(object.Object, "spec"); err != nil || found { // it can have none
		unknown, err := decodeValue(value, &spec)
		if err != nil {
			c.unreadable(i, object, err)
			return
		}
		o.unknown(unknown)
	}
	var left string
	if o.pods, left = spec.moveLaunchers(); left != "" {
		c.leaveLauncher(i, object, left)
		return
	}
	o.constraintMatch(&spec)
	if len(o.matched) == 0 {
		message := because(NoVirtualMachine)
		if spec.ofPods() {
			message += ofAllPods
		}
		c.leave(i, object, NoVirtualMachine, message)
		return
	}
	template := c.files.templateOf(object)
	if template == nil {
		c.leave(i, object, NoTemplate, "")
		return
	}
	var code templateSpec
	if _, err := decode(template, &code); err != nil {
		c.unreadable(i, template, err)
		return
	}
	o.part = "with the template " + template.GetName()
	o.annotations = titled(template.GetAnnotations())
	switch reason, err := o.code(&code, object, &spec); {
	case err == nil:
		if o.written != nil {
			o.written.Template = template
		}
		c.add(o)
	case reason == Unreadable:
		c.unreadable(i, template, err)
	case o.pods:
		c.leaveLauncher(i, object, err.Error())
	default:
		c.leave(i, object, reason, because(reason)+": "+err.Error())
	}
}

// code writes the code of a template. The error says what has no equivalent; the reason is that for a constraint about virtual machines.
func (o *original) code(template *templateSpec, constraint *unstructured.Unstructured, spec *constraintSpec) (reason string, err error) {
	if template.source() == nil {
		return Rego, o.regoTemplate(template, constraint, spec)
	}
	if err := o.templateCode(template, constraint, spec); err != nil {
		return Unreadable, err
	}
	if !o.pods {
		return "", nil
	}
	return NoVirtualMachine, o.podExpressions(spec)
}

// leaveLauncher adds a result for a constraint or a policy about pods of virtual machines.
func (c *converter) leaveLauncher(i int, object *unstructured.Unstructured, left string) {
	const selects = "; it selects pods of virtual machines, and is not rewritten: "
	c.leave(i, object, NoVirtualMachine, because(NoVirtualMachine)+selects+texts.Shorten(left, maxListed)+"; write it for VirtualMachines")
}

// titled returns the annotations of a template in the form of Kyverno's.
func titled(annotations map[string]string) map[string]string {
	return map[string]string{
		"policies.kyverno.io/title":       annotations["metadata.gatekeeper.sh/title"],
		"policies.kyverno.io/description": annotations["description"],
	}
}

// constraintMatch writes the match of a constraint.
func (o *original) constraintMatch(spec *constraintSpec) {
	m := &spec.Match
	cells := map[cell]bool{}
	var others []string
	add := func(groups, kinds []string) {
		named := map[string]bool{}
		for _, kind := range export.Kinds() {
			group, _, _ := export.Resource(kind)
			if !anyOf(groups, group) || !anyOf(kinds, string(kind)) {
				continue
			}
			named[string(kind)] = true
			for _, operation := range operations {
				cells[cell{kind, operation}] = true
			}
		}
		if len(kinds) == 0 {
			kinds = []string{"*"}
		}
		for _, kind := range kinds {
			if !named[kind] {
				others = append(others, kind)
			}
		}
	}
	for _, k := range m.Kinds {
		add(k.APIGroups, k.Kinds)
	}
	if len(m.Kinds) == 0 {
		add(nil, nil)
	}
	if m.Scope == string(apiextensionsv1.ClusterScoped) || m.Source == "Generated" {
		cells = nil
	}
	o.matched = map[cell]names{}
	for c := range cells {
		o.matched[c] = names{}
	}
	o.beyond(others)
	included := &filter{cells: cells, objectSelector: m.LabelSelector, namespaceSelector: m.NamespaceSelector}
	if o.pods {
		included.objectSelector, included.conditions = nil, selected(labelsOfPod, m.LabelSelector)
		o.differs("spec.match", podsMoved)
	}
	included.namespaces, included.patterns = byWildcards(m.Namespaces)
	if m.Name != "" {
		included.conditions = []string{like(nameOf, []string{m.Name})}
	}
	o.narrow(included)
	if len(m.ExcludedNamespaces) > 0 {
		excluded := &filter{cells: cells, everyKind: true, everyOperation: true}
		excluded.namespaces, excluded.patterns = byWildcards(m.ExcludedNamespaces)
		o.exclude(excluded)
	}
}

// anyOf reports whether a list is empty, or has a name or a *.
func anyOf(list []string, name string) bool { return len(list) == 0 || has(list, name) }

// byWildcards separates names without wildcards from those with wildcards.
func byWildcards(list []string) (exact, patterns []string) {
	for _, name := range list {
		if wild(name) {
			patterns = append(patterns, name)
		} else {
			exact = append(exact, name)
		}
	}
	return exact, patterns
}

// templateCode writes the code of a template, with the parameters and the action of a constraint.
func (o *original) templateCode(template *templateSpec, constraint *unstructured.Unstructured, spec *constraintSpec) error {
	var source celSource
	unknown, err := decodeValue(template.source(), &source)
	if err != nil {
		return err
	}
	o.unknown(unknown)
	o.templateOperations(template)
	o.spec.FailurePolicy, o.spec.MatchConditions = source.FailurePolicy, source.MatchConditions
	o.spec.Variables, o.spec.Validations = source.Variables, source.Validations
	if source.GenerateVAP != nil && *source.GenerateVAP {
		o.differs("spec", "for a ValidatingAdmissionPolicy beside the webhook, add exportTo: [APIServer]; see docs/export.md")
	}
	o.action(spec)
	o.parameters(constraint, template.parametersOf(spec))
	return nil
}

// podExpressions replaces the expressions of a template about pods. The error says why they have no equivalent.
func (o *original) podExpressions(spec *constraintSpec) error {
	pods := &celPods{params: o.values}
	if err := pods.replace(o.spec.MatchConditions, o.spec.Variables, o.spec.Validations); err != nil {
		return err
	}
	o.notesOf(pods)
	if w := o.aboutConstraint(spec); w != nil {
		params := &regoReads{written: w}
		params.literalsOf(o.values)
		pods.literals = append(pods.literals, params.literals...)
		o.written = pods.written(w)
	}
	return nil
}

// templateOperations leaves the operations that a template declares, which are creations and updates by default.
func (o *original) templateOperations(template *templateSpec) {
	if o.pods { // each pod is created, also for a virtual machine that changed
		if declared := template.Targets[0].Operations; len(declared) == 0 || has(declared, admissionregistrationv1.Create) {
			maps.DeleteFunc(o.matched, func(c cell, _ names) bool { return c.operation == policyv1alpha1.PolicyDelete })
			return
		}
	}
	operationsOf := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	if declared := template.Targets[0].Operations; len(declared) > 0 {
		operationsOf = declared
	} else {
		o.differs("spec.match.operations", "deletions are not matched: add DELETE if the webhook of Gatekeeper has this operation")
	}
	if has(operationsOf, admissionregistrationv1.Connect) {
		o.lost("spec.match.operations", "it also matches CONNECT: keep the original for this operation")
	}
	maps.DeleteFunc(o.matched, func(c cell, _ names) bool {
		return !has(operationsOf, admissionregistrationv1.OperationType(c.operation))
	})
}

// action writes the action of a constraint.
func (o *original) action(spec *constraintSpec) {
	named := []string{spec.EnforcementAction}
	if spec.EnforcementAction == "scoped" {
		named = nil
		for _, scoped := range spec.ScopedEnforcementActions {
			for _, point := range scoped.EnforcementPoints {
				if slices.Contains([]string{"*", "validation.gatekeeper.sh", "vap.k8s.io"}, point.Name) {
					named = append(named, scoped.Action)
				}
			}
		}
		if len(named) == 0 {
			named = []string{"dryrun"}
			o.differs("spec.enforcement", "the constraint is enforced only by the audit")
		}
	}
	for _, action := range named {
		switch action {
		case "", "deny":
			o.binding.ValidationActions = append(o.binding.ValidationActions, admissionregistrationv1.Deny)
		case "warn":
			o.binding.ValidationActions = append(o.binding.ValidationActions, admissionregistrationv1.Warn)
		case "dryrun":
			o.binding.ValidationActions = append(o.binding.ValidationActions, admissionregistrationv1.Audit)
		default:
			o.lost("spec.enforcement", "the enforcementAction %s is unknown", texts.Shorten(action, maxQuoted))
		}
	}
}
