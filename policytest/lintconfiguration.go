package policytest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/validators"
)

// lintConfiguration returns the problems of an object that is not a policy, without those that its schema finds.
func (j *Runner) lintConfiguration(d manifests.Document) []Problem {
	if err := schemas.Match("", d.Object.GroupVersionKind()); err != nil {
		return []Problem{at(d, "apiVersion", err.Error()).under(LintReadable)}
	}
	switch d.Object.GetKind() {
	case apikinds.RuleSettings:
		settings := &policyv1alpha1.RuleSettings{}
		if problems := unreadable(d, settings); len(problems) > 0 {
			return problems
		}
		return j.lintSettings(d, settings)
	case apikinds.VirtualMachineDefaults:
		defaults := &policyv1alpha1.VirtualMachineDefaults{}
		if problems := unreadable(d, defaults); len(problems) > 0 {
			return problems
		}
		return j.lintDefaults(d, defaults)
	}
	return unreadable(d, &policyv1alpha1.VirtualMachinePolicyException{})
}

// invalid returns the values of an object that its schema excludes, without those that other problems are about. An object
// that cannot be read has none: that is its problem.
func (j *Runner) invalid(d manifests.Document, known []Problem) (problems []Problem) {
	found, _ := j.schemas.of("")
	result := &evaluator.Result{}
	if err := found.Validate(context.Background(), offline.Written{Object: d.Object.Object, Namespace: defaultNamespace}, result); err != nil {
		return []Problem{at(d, "", err.Error()).under(LintValid)}
	}
	of := at(d, "", "").File
	for i := range result.Findings {
		f := &result.Findings[i]
		same := func(p Problem) bool { return p.File == of && p.Field == f.Error.Field }
		if f.Rule == validators.RuleSchema && !slices.ContainsFunc(known, same) {
			problems = append(problems, at(d, f.Error.Field, f.Text()).under(LintValid))
		}
	}
	return problems
}

// unreadable decodes an object, and returns its problems.
func unreadable(d manifests.Document, into any) []Problem {
	problems := decode(d, into)
	for i := range problems {
		problems[i] = problems[i].under(LintReadable)
	}
	return problems
}

// invalidValues returns field errors as problems.
func invalidValues(d manifests.Document, errs field.ErrorList) []Problem {
	var problems []Problem
	for _, err := range errs {
		problems = append(problems, at(d, err.Field, err.ErrorBody()).under(LintValid))
	}
	return problems
}

// lintSettings returns entries that are invalid, and entries without an effect.
func (j *Runner) lintSettings(d manifests.Document, settings *policyv1alpha1.RuleSettings) []Problem {
	if errs := validators.CheckSettings(j.rules, settings); len(errs) > 0 {
		return invalidValues(d, errs)
	}
	own := map[string]validators.Severity{}
	for i := range j.rules {
		own[j.rules[i].ID] = j.rules[i].Severity
		if j.rules[i].Severity == "" {
			own[j.rules[i].ID] = validators.Deny
		}
	}
	several := map[string]int{}
	for i := range settings.Spec.Rules {
		several[settings.Spec.Rules[i].Rule]++
	}
	var problems []Problem
	for i := range settings.Spec.Rules {
		// With another entry for the rule, this one can be the stricter one in its namespaces.
		entry := &settings.Spec.Rules[i]
		if several[entry.Rule] > 1 || validators.Severity(entry.Severity) != own[entry.Rule] {
			continue
		}
		problem := at(d, index("spec.rules", i), fmt.Sprintf("has no effect by itself: the severity of %s is %s already", entry.Rule, entry.Severity)).under(LintEffect)
		problem.Warning = true
		problems = append(problems, problem)
	}
	return problems
}

// lintDefaults returns fields that are invalid, and built-in rules that a virtual machine violates only with the
// defaults.
func (j *Runner) lintDefaults(d manifests.Document, defaults *policyv1alpha1.VirtualMachineDefaults) []Problem {
	if _, errs := mutators.NewSiteDefaults(defaults); len(errs) > 0 {
		return invalidValues(d, errs)
	}
	var problems []Problem
	reported := map[string]bool{}
	for _, s := range probes(defaults) {
		before, err := j.denied(s)
		if err != nil {
			return append(problems, at(d, "spec", err.Error()).under(LintValid))
		}
		s.Objects = []*unstructured.Unstructured{d.Object}
		after, err := j.denied(s)
		if err != nil {
			return append(problems, at(d, "spec", err.Error()).under(LintValid))
		}
		for _, text := range slices.Sorted(maps.Keys(after)) {
			if before[text] || reported[text] {
				continue
			}
			reported[text] = true
			problem := at(d, "spec.template", fmt.Sprintf("on %s and %s, a virtual machine with these defaults is denied: %s", s.Facts.Hypervisor.Name, s.Facts.DefaultArchitecture, text)).under(LintDefaults)
			problem.Warning = true
			problems = append(problems, problem)
		}
	}
	return problems
}

// denied returns the findings of built-in rules that deny.
func (j *Runner) denied(s *Situation) (map[string]bool, error) {
	result, err := j.evaluate(context.Background(), s, policies.NewSet("virtward-system"))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for i := range result.Findings {
		if f := &result.Findings[i]; f.Severity == validators.Deny {
			found[fmt.Sprintf("%s [virtward/%s]", f.Text(), f.Rule)] = true
		}
	}
	return found, nil
}

// probes returns situations with a small virtual machine that gets the defaults: one for each hypervisor and architecture
// that they match.
func probes(defaults *policyv1alpha1.VirtualMachineDefaults) []*Situation {
	match := &defaults.Spec.Match
	hypervisors := match.Hypervisors
	if len(hypervisors) == 0 {
		hypervisors = platform.HypervisorNames()
	}
	matched := make([]string, len(match.Architectures))
	for i := range match.Architectures {
		matched[i] = string(match.Architectures[i])
	}
	if len(matched) == 0 {
		matched = architectures.Names()
	}
	var all []*Situation
	for _, name := range hypervisors {
		hypervisor, err := platform.HypervisorByName(name)
		if err != nil {
			continue // it is not in this version, so no virtual machine gets the defaults
		}
		for _, architecture := range matched {
			facts := platform.Defaults(platform.Settings{}).WithHypervisor(hypervisor)
			facts.DefaultArchitecture = architecture
			all = append(all, &Situation{
				Operation: create, Now: start, Facts: facts, Object: probe(match.ObjectSelector),
				Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: defaultNamespace, Labels: selected(match.NamespaceSelector)}},
			})
		}
	}
	return all
}

// probe is a virtual machine with memory and a disk, which the selector selects.
func probe(selector *metav1.LabelSelector) *unstructured.Unstructured {
	labels := map[string]any{}
	for key, value := range selected(selector) {
		labels[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion.String(), "kind": apikinds.VirtualMachine,
		"metadata": map[string]any{"name": "probe", "namespace": defaultNamespace},
		"spec": map[string]any{"runStrategy": "Always", "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"domain":  map[string]any{"memory": map[string]any{"guest": "1Gi"}, "devices": map[string]any{"disks": []any{map[string]any{"name": "root"}}}},
				"volumes": []any{map[string]any{"name": "root", "containerDisk": map[string]any{"image": "quay.io/containerdisks/fedora:latest"}}},
			},
		}},
	}}
}

// selected returns labels that a selector selects, if its expressions allow them.
func selected(selector *metav1.LabelSelector) map[string]string {
	labels := map[string]string{}
	if selector == nil {
		return labels
	}
	for _, e := range selector.MatchExpressions {
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			labels[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			labels[e.Key] = ""
		}
	}
	maps.Copy(labels, selector.MatchLabels)
	return labels
}
