package policytest

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/advice"
	"github.com/virtward/virtward/policies/rego"
)

// LintPrefix begins the ids of LintRules.
const LintPrefix = "lint/"

// The ids of LintRules.
const (
	LintReadable   = LintPrefix + "readable"
	LintCompiles   = LintPrefix + "compiles"
	LintDoubtful   = LintPrefix + "doubtful"
	LintDocumented = LintPrefix + "documented"
	LintMessage    = LintPrefix + "message"
	LintExpires    = LintPrefix + "expires"
	LintTested     = LintPrefix + "tested"
	LintValid      = LintPrefix + "valid"
	LintEffect     = LintPrefix + "effect"
	LintDefaults   = LintPrefix + "defaults"
)

// LintRule describes what Lint checks.
type LintRule struct {
	ID, Title, Remedy string
	// Warning reports whether the policy works in spite of its problems.
	Warning bool
}

// LintRules returns all rules of Lint.
func LintRules() []LintRule {
	return []LintRule{
		{LintReadable, "Policies and suites can be read", "Correct the field: an unknown name is usually misspelled.", false},
		{LintCompiles, "Policies compile", "Correct the expression, or the field.", false},
		{LintDoubtful, "Policies do what their authors mean", "Change the expression, or ignore the warning if you mean it.", true},
		{LintDocumented, "Policies are documented", "Add the field: reports and messages show it.", true},
		{LintMessage, "Every validation has a fixed message", "Add a message beside the messageExpression.", true},
		{LintExpires, "Exceptions expire", "Set the time at which the exception expires.", true},
		{LintTested, "Policies are tested", "Write a suite with cases that the policy allows and cases that it denies.", true},
		{LintPrefix + rego.CheckQuantities, "Quantities are compared as quantities", "Use quantity() in CEL, and units.parse_bytes in Rego.", true},
		{LintPrefix + rego.CheckPatterns, "Regular expressions compile", "Correct the pattern: its syntax is that of RE2.", true},
		{LintPrefix + rego.CheckParameters, "Parameters exist", "Add the parameter to spec.params.values, or correct its name.", true},
		{LintPrefix + rego.CheckNegation, "Negated comparisons do not depend on absent fields", "Compare without not, or read the field with object.get.", true},
		{LintPrefix + advice.CheckNull, "Absent fields are not compared with null", "Use has(), or hasValue() for an optional.", true},
		{LintPrefix + rego.CheckAbsent, "Fields that can be absent are tested", "Read the field with .?, or test it with has().", true},
		{LintPrefix + advice.CheckOldObject, "The old object is not read at creation", "Write oldObject == null || before it, or match only UPDATE.", true},
		{LintPrefix + rego.CheckImages, "Prefixes of images and URLs end a host or a directory", "Compare the registry of virtward.image, or end the prefix with /.", true},
		{LintValid, "Objects satisfy their schemas, and RuleSettings and VirtualMachineDefaults are valid", "Correct the field.", false},
		{LintEffect, "Entries of RuleSettings have an effect", "Remove the entry, or change its severity.", true},
		{LintDefaults, "Defaults pass the built-in rules", "Change the default, or the match of the VirtualMachineDefaults.", true},
	}
}

// Policies are the policies of some files and directories, and the problems of those that cannot be read.
type Policies struct {
	all []written
	// configuration are RuleSettings, VirtualMachineDefaults and VirtualMachinePolicyExceptions.
	configuration []manifests.Document
	suites        []*Suite
	// Problems are the problems of policies and suites that cannot be read.
	Problems []Problem
}

// Len returns the number of policies that could be read.
func (p *Policies) Len() int { return len(p.all) }

// Others returns the number of RuleSettings, VirtualMachineDefaults and VirtualMachinePolicyExceptions.
func (p *Policies) Others() int { return len(p.configuration) }

// Select removes objects whose labels the selector does not match. Problems of those that cannot be read stay.
func (p *Policies) Select(selector k8slabels.Selector) {
	p.all = slices.DeleteFunc(p.all, func(w written) bool { return !selector.Matches(k8slabels.Set(w.policy.Labels)) })
	p.configuration = slices.DeleteFunc(p.configuration, func(d manifests.Document) bool {
		return !selector.Matches(k8slabels.Set(d.Object.GetLabels()))
	})
}

// LoadPolicies reads the policies and the suites of files, and of all files below directories.
func LoadPolicies(fsys fs.FS, paths ...string) *Policies {
	p := &Policies{}
	read := &files{fsys: fsys, read: map[string]content{}}
	seen := map[string]bool{}
	for _, name := range paths {
		found, err := filesBehind(fsys, name)
		if err != nil {
			p.Problems = append(p.Problems, inFile(name, plain(err)).under(LintReadable))
			continue
		}
		for _, file := range found {
			if !seen[path.Clean(file)] {
				seen[path.Clean(file)] = true
				p.file(read, file, file == name)
			}
		}
	}
	return p
}

// linted are the kinds that lint reads, besides suites.
func linted() []string {
	return []string{apikinds.VirtualMachinePolicy, apikinds.RuleSettings, apikinds.VirtualMachineDefaults, apikinds.VirtualMachinePolicyException}
}

// file reads the policies and the suites of a file.
func (p *Policies) file(read *files, name string, named bool) {
	if !named && !read.mentions(name, append(linted(), Kind)) {
		return
	}
	found, problems := read.parts(name)
	some, wrong := read.suitesOf(name, found)
	p.suites = append(p.suites, some...)
	for _, problem := range append(problems, wrong...) {
		p.Problems = append(p.Problems, problem.under(LintReadable))
	}
	for _, d := range found {
		kind := d.Object.GroupVersionKind().GroupKind()
		if kind.Group != policyv1alpha1.GroupVersion.Group || !slices.Contains(linted(), kind.Kind) {
			continue
		}
		if kind.Kind != apikinds.VirtualMachinePolicy {
			p.configuration = append(p.configuration, d)
			continue
		}
		w, problems := readPolicy(d)
		for _, problem := range problems {
			p.Problems = append(p.Problems, problem.under(LintReadable))
		}
		if len(problems) == 0 {
			p.all = append(p.all, w)
		}
	}
}

// Lint returns the problems of policies, sorted by file and line. A policy is tested if a suite among the files has a
// case for it.
func (j *Runner) Lint(p *Policies) []Problem {
	problems := slices.Clone(p.Problems)
	tested := p.tested()
	names := map[string]string{}
	for i := range p.all {
		w := &p.all[i]
		compiled, found := policies.Compile(j.environment, w.policy, nil)
		for _, problem := range w.problems(found, true) {
			problem.Rule = LintCompiles
			if problem.Warning {
				problem.Rule = LintDoubtful
			}
			problems = append(problems, problem)
		}
		problems = append(problems, j.invalid(w.document, problems)...)
		if other, twice := names[w.policy.Name]; twice && w.policy.Name != "" {
			problem := at(w.document, "metadata.name", fmt.Sprintf("the policy %s has the same name: names of policies must be unique", other))
			problem.Rule = LintReadable
			problems = append(problems, problem)
		}
		names[w.policy.Name] = "of " + w.file()
		if compiled.Broken() != "" {
			continue
		}
		problems = append(problems, doubts(w)...)
		for _, a := range advice.Of(compiled.Spec(), effective.AlwaysSet()) {
			problems = append(problems, w.problem(a.Problem).under(LintPrefix+a.Check))
		}
		if !tested[w.key()] {
			problems = append(problems, w.doubt(LintTested, "metadata.name", "no suite in these files has a case for this policy"))
		}
	}
	for _, d := range p.configuration {
		found := j.lintConfiguration(d)
		problems = append(problems, append(found, j.invalid(d, found)...)...)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return problems
}

// doubt returns a warning about a field of the policy.
func (w *written) doubt(rule, field, message string) Problem {
	problem := at(w.document, field, message).under(rule)
	problem.Warning = true
	return problem
}

// doubts returns warnings about fields that a policy lacks.
func doubts(w *written) []Problem {
	var found []Problem
	spec := &w.policy.Spec
	for _, field := range []struct{ name, value, why string }{
		{"title", spec.Title, "lists and reports show it"},
		{"description", spec.Description, "it explains the purpose of the policy"},
		{"category", spec.Category, "reports are sorted by it"},
		{"severity", string(spec.Severity), "the default is medium"},
		{"remedy", spec.Remedy, "it ends every message, and tells users what to do"},
	} {
		if field.value == "" {
			found = append(found, w.doubt(LintDocumented, "spec."+field.name, "should be set: "+field.why))
		}
	}
	for i := range spec.Validations {
		if v := &spec.Validations[i]; v.MessageExpression != "" && v.Message == "" {
			found = append(found, w.doubt(LintMessage, index("spec.validations", i), "should have a message: users see the expression if messageExpression fails"))
		}
	}
	for i := range spec.Exceptions {
		if spec.Exceptions[i].Expires == nil {
			found = append(found, w.doubt(LintExpires, index("spec.exceptions", i), "should expire"))
		}
	}
	return found
}

// tested returns the keys of the policies for which a suite has a case that is not skipped.
func (p *Policies) tested() map[string]bool {
	found := map[string]bool{}
	for _, s := range p.suites {
		for i := range s.Tests {
			t := &s.Tests[i]
			if !slices.ContainsFunc(t.Cases, func(c Case) bool { return !c.Skip }) {
				continue
			}
			named, err := s.policies(index("tests", i)+".policies", t.Policies)
			if err != nil { // running the suite reports it
				continue
			}
			for k := range named {
				found[named[k].key()] = true
			}
		}
	}
	return found
}

// Untested returns a problem for each policy without an evaluated case in the report: of the policies that were read,
// and of those that the tests name.
func (p *Policies) Untested(r *Report) []Problem {
	evaluated := map[string]bool{}
	for _, key := range r.evaluated {
		evaluated[key] = true
	}
	var problems []Problem
	seen := map[string]bool{}
	note := func(w *written) {
		if key := w.key(); !evaluated[key] && !seen[key] {
			seen[key] = true
			message := fmt.Sprintf("no case was run for the policy %s", w.policy.Name)
			problems = append(problems, at(w.document, "metadata.name", message).under(LintTested))
		}
	}
	for i := range p.all {
		note(&p.all[i])
	}
	for _, s := range p.suites {
		for i := range s.Tests {
			named, err := s.policies(index("tests", i)+".policies", s.Tests[i].Policies)
			for k := range named {
				if err == nil {
					note(&named[k])
				}
			}
		}
	}
	return problems
}
