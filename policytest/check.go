package policytest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/platform"
)

// The operations.
const (
	create = string(policyv1alpha1.PolicyCreate)
	update = string(policyv1alpha1.PolicyUpdate)
	remove = string(policyv1alpha1.PolicyDelete)
)

// maxName bounds names, in bytes: reports show them in one line.
const maxName = 256

// checking collects the problems of a suite.
type checking struct {
	suite    *Suite
	problems []Problem
}

// wrong adds a problem, unless the message is empty.
func (c *checking) wrong(field, message string) {
	if message != "" {
		c.problems = append(c.problems, c.suite.problem(field, message))
	}
}

// check returns the problems of a suite that could be decoded.
func (s *Suite) check() []Problem {
	c := &checking{suite: s}
	c.name("metadata.name", s.Metadata.Name, nil)
	switch {
	case len(s.Tests) == 0:
		c.wrong("tests", "must have at least one test")
	case len(s.Tests) > maxTests:
		c.wrong("tests", fmt.Sprintf("must have at most %[2]d tests, and has %[1]d", len(s.Tests), maxTests))
		return c.problems
	}
	names := map[string]bool{}
	for i := range s.Tests {
		at := index("tests", i)
		c.name(at+".name", s.Tests[i].Name, names)
		c.test(at, &s.Tests[i])
	}
	return c.problems
}

// name rejects names that reports cannot show, and names that are taken.
func (c *checking) name(field, name string, taken map[string]bool) {
	switch {
	case strings.TrimSpace(name) == "":
		c.wrong(field, "must not be empty")
	case len(name) > maxName:
		c.wrong(field, fmt.Sprintf("must be no longer than %d bytes", maxName))
	case strings.ContainsAny(name, "\n\r"):
		c.wrong(field, "must be one line")
	case taken[name]:
		c.wrong(field, fmt.Sprintf("%q is the name of another one", name))
	}
	if taken != nil {
		taken[name] = true
	}
}

func (c *checking) test(at string, t *Test) {
	if len(t.Policies) == 0 {
		c.wrong(at+".policies", "must have at least one policy")
	}
	c.sources(at+".policies", t.Policies)
	c.sources(at+".objects", t.Objects)
	c.facts(at+".facts", t.Facts)
	if len(t.Cases) > maxCases {
		c.wrong(at+".cases", fmt.Sprintf("must have at most %[2]d cases, and has %[1]d", len(t.Cases), maxCases))
		return
	}
	names := map[string]bool{}
	for i := range t.Cases {
		in := index(at+".cases", i)
		c.name(in+".name", t.Cases[i].Name, names)
		c.one(in, t, &t.Cases[i])
	}
}

func (c *checking) sources(at string, sources []Source) {
	if len(sources) > maxObjects {
		c.wrong(at, fmt.Sprintf("must have at most %[2]d entries, and has %[1]d", len(sources), maxObjects))
		return
	}
	for i := range sources {
		c.source(index(at, i), &sources[i])
	}
}

// source rejects an entry that is null.
func (c *checking) source(at string, s *Source) {
	if s != nil && s.File == "" && s.Object == nil {
		c.wrong(at, "must be the name of a file, or an object")
	}
}

func (c *checking) facts(at string, f *Facts) {
	if f == nil {
		return
	}
	if f.Hypervisor != "" {
		if _, err := platform.HypervisorByName(f.Hypervisor); err != nil {
			c.wrong(at+".hypervisor", err.Error())
		}
	}
	if f.Architecture != "" {
		c.wrong(at+".architecture", oneOf(f.Architecture, architectures.Names()...))
	}
}

// one checks a case.
func (c *checking) one(at string, t *Test, one *Case) {
	c.source(at+".object", one.Object)
	c.source(at+".oldObject", one.OldObject)
	if one.Object == nil && t.Base == nil {
		c.wrong(at, "must have an object, if the test has no base")
	}
	c.patches(at+".patches", one.Patches)
	c.patches(at+".oldPatches", one.OldPatches)
	old := one.OldObject != nil || one.OldPatches != nil
	switch {
	case one.Operation == "":
	case one.Operation == update && !old:
		c.wrong(at+".operation", "UPDATE requires oldObject or oldPatches")
	case (one.Operation == create || one.Operation == remove) && old:
		c.wrong(at+".operation", one.Operation+" excludes oldObject and oldPatches")
	default:
		c.wrong(at+".operation", oneOf(one.Operation, create, update, remove))
	}
	if one.Running && !old {
		c.wrong(at+".running", "requires oldObject or oldPatches")
	}
	c.sources(at+".objects", one.Objects)
	c.facts(at+".facts", one.Facts)
	for i := range one.May {
		c.permission(index(at+".may", i), &one.May[i])
	}
	c.expect(at+".expect", &one.Expect)
}

func (c *checking) patches(at string, patches []Patch) {
	for i := range patches {
		p, in := &patches[i], index(at, i)
		c.wrong(in+".op", oneOf(p.Op, "add", "remove", "replace", "move", "copy", "test"))
		if p.Path == "" && p.Op != "test" {
			c.wrong(in+".path", "must not be the whole object: set object instead")
		}
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			c.wrong(in+".path", fmt.Sprintf("%q must have the form /spec/template: see RFC 6901", p.Path))
		}
		valued := p.Op == "add" || p.Op == "replace" || p.Op == "test"
		if valued && len(p.Value) == 0 {
			c.wrong(in, p.Op+" requires a value")
		}
		if from := p.Op == "move" || p.Op == "copy"; from != (p.From != "") {
			c.wrong(in+".from", "is required for move and copy, and not allowed otherwise")
		}
	}
}

func (c *checking) permission(at string, p *Permission) {
	if p.Verb == "" {
		c.wrong(at+".verb", "must be a verb, or * for all verbs")
	}
	if p.Path != "" && (p.Group != "" || p.Resource != "" || p.Subresource != "" || p.Namespace != "" || p.Name != "") {
		c.wrong(at+".path", "excludes group, resource, subresource, namespace and name")
	}
}

func (c *checking) expect(at string, e *Expect) {
	if e.Verdict == "" && e.Violations == nil && e.Message == "" && e.Field == "" && e.Exempted == nil && !e.Error {
		c.wrong(at, "must have a verdict, violations, a message, a field, exempted policies or an error")
	}
	if e.Verdict != "" {
		c.wrong(at+".verdict", oneOf(e.Verdict, Denied, Warned, Allowed))
	}
	if e.Violations != nil && *e.Violations < 0 {
		c.wrong(at+".violations", "must be 0 or more")
	}
	if _, err := regexp.Compile(e.Message); err != nil {
		c.wrong(at+".message", strings.Replace(err.Error(), "error parsing regexp", "must be a regular expression", 1))
	}
}
