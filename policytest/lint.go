package policytest

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
)

// LintPrefix begins the ids of what Lint looks for.
const LintPrefix = "lint/"

// What Lint looks for, by id.
const (
	LintReadable   = LintPrefix + "readable"
	LintCompiles   = LintPrefix + "compiles"
	LintDoubtful   = LintPrefix + "doubtful"
	LintDocumented = LintPrefix + "documented"
	LintMessage    = LintPrefix + "message"
	LintExpires    = LintPrefix + "expires"
	LintTested     = LintPrefix + "tested"
)

// LintRule says what one of them is about.
type LintRule struct {
	ID, Title, Remedy string
	// Warning tells that the policy can be used all the same.
	Warning bool
}

// LintRules are all of them.
func LintRules() []LintRule {
	return []LintRule{
		{LintReadable, "Policies and suites can be read", "Correct the field: a name that is not known is usually misspelt.", false},
		{LintCompiles, "Policies compile", "Correct the expression, or the field.", false},
		{LintDoubtful, "Policies say what is meant", "Say it in another way, or leave it if it is meant.", true},
		{LintDocumented, "Policies say what they are about", "Add the field: reports and messages show it.", true},
		{LintMessage, "Every validation has a message to fall back on", "Add a message beside the messageExpression.", true},
		{LintExpires, "Exceptions come to an end", "Give the exception a day on which it expires.", true},
		{LintTested, "Policies are tested", "Write a suite with cases that the policy allows and cases that it does not.", true},
	}
}

// Policies are those of some files and directories, with what is wrong with those that cannot be read.
type Policies struct {
	all    []written
	suites []*Suite
	// Problems are those of policies, and of suites.
	Problems []Problem
}

// Len is how many policies could be read.
func (p *Policies) Len() int { return len(p.all) }

// LoadPolicies reads the policies of some files, and of all files below some directories, and the suites there.
func LoadPolicies(fsys fs.FS, paths ...string) *Policies {
	p := &Policies{}
	read := &files{fsys: fsys, read: map[string]content{}}
	seen := map[string]bool{}
	for _, name := range paths {
		found, err := filesBehind(fsys, name)
		if err != nil {
			p.Problems = append(p.Problems, Problem{Rule: LintReadable, File: name, Message: plain(err)})
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

// file reads what there is in a file.
func (p *Policies) file(read *files, name string, named bool) {
	some, wrong := read.suites(name, false)
	p.suites = append(p.suites, some...)
	for _, problem := range wrong {
		problem.Rule = LintReadable
		p.Problems = append(p.Problems, problem)
	}
	if len(wrong) > 0 || !named && !read.mentions(name, kindPolicy) {
		return
	}
	found, err := read.file(name)
	if err != nil {
		p.Problems = append(p.Problems, Problem{Rule: LintReadable, File: name, Message: strings.TrimPrefix(err.Error(), name+": ")})
		return
	}
	for _, d := range found {
		if kind := d.Object.GroupVersionKind().GroupKind(); kind.Group != policyv1alpha1.GroupVersion.Group || kind.Kind != kindPolicy {
			continue
		}
		w, problems := readPolicy(d)
		for _, problem := range problems {
			problem.Rule = LintReadable
			p.Problems = append(p.Problems, problem)
		}
		if len(problems) == 0 {
			p.all = append(p.all, w)
		}
	}
}

// Lint says what is wrong with policies, and what is doubtful, by file and line. A policy counts as tested if a suite
// among the files has a case for it.
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
		if other, twice := names[w.policy.Name]; twice && w.policy.Name != "" {
			problem := at(w.document, "metadata.name", fmt.Sprintf("the policy %s has this name: of the two, a cluster can have one", other))
			problem.Rule = LintReadable
			problems = append(problems, problem)
		}
		names[w.policy.Name] = "of " + w.file()
		if compiled.Broken() != "" {
			continue
		}
		problems = append(problems, doubts(w)...)
		if !tested[w.key()] {
			problems = append(problems, w.doubt(LintTested, "metadata.name", "no suite here has a case for this policy"))
		}
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

// doubt is a warning about a field of the policy.
func (w *written) doubt(rule, field, message string) Problem {
	problem := at(w.document, field, message)
	problem.Rule, problem.Warning = rule, true
	return problem
}

// doubts are about what a policy leaves out.
func doubts(w *written) []Problem {
	var found []Problem
	spec := &w.policy.Spec
	for _, field := range []struct{ name, value, why string }{
		{"title", spec.Title, "lists and reports show it"},
		{"description", spec.Description, "it says why the policy is there"},
		{"category", spec.Category, "reports sort by it"},
		{"severity", string(spec.Severity), "without it, a violation is medium"},
		{"remedy", spec.Remedy, "it ends every message, and says what to do"},
	} {
		if field.value == "" {
			found = append(found, w.doubt(LintDocumented, "spec."+field.name, "is missing: "+field.why))
		}
	}
	for i := range spec.Validations {
		if v := &spec.Validations[i]; v.MessageExpression != "" && v.Message == "" {
			found = append(found, w.doubt(LintMessage, index("spec.validations", i), "has no message: where its messageExpression fails, people read the expression"))
		}
	}
	for i := range spec.Exceptions {
		if spec.Exceptions[i].Expires == nil {
			found = append(found, w.doubt(LintExpires, index("spec.exceptions", i), "never expires"))
		}
	}
	return found
}

// tested are the keys of the policies for which there is a case that is not skipped.
func (p *Policies) tested() map[string]bool {
	found := map[string]bool{}
	for _, s := range p.suites {
		for i := range s.Tests {
			t := &s.Tests[i]
			if !slices.ContainsFunc(t.Cases, func(c Case) bool { return !c.Skip }) {
				continue
			}
			named, err := s.policies(index("tests", i)+".policies", t.Policies)
			if err != nil { // running the suite says so
				continue
			}
			for k := range named {
				found[named[k].key()] = true
			}
		}
	}
	return found
}

// Untested are the policies for which a report has no case that was evaluated: those that were read, and those that its
// tests name.
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
			problem := at(w.document, "metadata.name", fmt.Sprintf("no case was run for the policy %s", w.policy.Name))
			problem.Rule = LintTested
			problems = append(problems, problem)
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
