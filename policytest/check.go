package policytest

import (
	"fmt"
	"regexp"
	"strings"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/platform"
)

// The operations.
const (
	create = string(policyv1alpha1.PolicyCreate)
	update = string(policyv1alpha1.PolicyUpdate)
)

// maxName bounds names, in bytes: they are lines of reports.
const maxName = 256

// checking gathers what is wrong with a suite.
type checking struct {
	suite    *Suite
	problems []Problem
}

// wrong notes a problem, unless there is nothing to say.
func (c *checking) wrong(field, message string) {
	if message != "" {
		c.problems = append(c.problems, c.suite.problem(field, message))
	}
}

// check says what is wrong with a suite whose form is right.
func (s *Suite) check() []Problem {
	c := &checking{suite: s}
	c.name("metadata.name", s.Metadata.Name, nil)
	switch {
	case len(s.Tests) == 0:
		c.wrong("tests", "a suite needs tests")
	case len(s.Tests) > maxTests:
		c.wrong("tests", fmt.Sprintf("%d tests are more than %d", len(s.Tests), maxTests))
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

// name holds a name to what a report can show, and to being the only one of its kind.
func (c *checking) name(field, name string, taken map[string]bool) {
	switch {
	case strings.TrimSpace(name) == "":
		c.wrong(field, "a name is needed")
	case len(name) > maxName:
		c.wrong(field, fmt.Sprintf("is longer than %d bytes", maxName))
	case strings.ContainsAny(name, "\n\r"):
		c.wrong(field, "is more than one line")
	case taken[name]:
		c.wrong(field, fmt.Sprintf("%q is taken", name))
	}
	if taken != nil {
		taken[name] = true
	}
}

func (c *checking) test(at string, t *Test) {
	if len(t.Policies) == 0 {
		c.wrong(at+".policies", "a test needs policies")
	}
	c.sources(at+".policies", t.Policies)
	c.sources(at+".objects", t.Objects)
	c.facts(at+".facts", t.Facts)
	if len(t.Cases) > maxCases {
		c.wrong(at+".cases", fmt.Sprintf("%d cases are more than %d", len(t.Cases), maxCases))
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
		c.wrong(at, fmt.Sprintf("%d entries are more than %d", len(sources), maxObjects))
		return
	}
	for i := range sources {
		c.source(index(at, i), &sources[i])
	}
}

// source rejects an entry that is null; it has neither form.
func (c *checking) source(at string, s *Source) {
	if s != nil && s.File == "" && s.Object == nil {
		c.wrong(at, "is neither the name of a file nor an object")
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
		c.wrong(at+".architecture", oneOf(f.Architecture, platform.AMD64, platform.ARM64, platform.S390X))
	}
}

// one checks a case.
func (c *checking) one(at string, t *Test, one *Case) {
	c.source(at+".object", one.Object)
	c.source(at+".oldObject", one.OldObject)
	if one.Object == nil && t.Base == nil {
		c.wrong(at, "an object is needed, or a base of the test")
	}
	c.patches(at+".patches", one.Patches)
	c.patches(at+".oldPatches", one.OldPatches)
	old := one.OldObject != nil || len(one.OldPatches) > 0
	switch {
	case one.Operation == "":
	case one.Operation == update && !old:
		c.wrong(at+".operation", "an UPDATE needs an oldObject, or oldPatches")
	case one.Operation == create && old:
		c.wrong(at+".operation", "a CREATE has no old object")
	default:
		c.wrong(at+".operation", oneOf(one.Operation, create, update))
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
			c.wrong(in+".path", "is that of the object as a whole: name another object instead")
		}
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			c.wrong(in+".path", fmt.Sprintf("%q is not of the form /spec/template: see RFC 6901", p.Path))
		}
		valued := p.Op == "add" || p.Op == "replace" || p.Op == "test"
		if valued && len(p.Value) == 0 {
			c.wrong(in, p.Op+" needs a value")
		}
		if from := p.Op == "move" || p.Op == "copy"; from != (p.From != "") {
			c.wrong(in+".from", "is for move and copy, and needed there")
		}
	}
}

func (c *checking) permission(at string, p *Permission) {
	if p.Verb == "" {
		c.wrong(at+".verb", "a verb is needed, or * for all")
	}
	if p.Path != "" && (p.Group != "" || p.Resource != "" || p.Subresource != "" || p.Namespace != "" || p.Name != "") {
		c.wrong(at+".path", "is for what is no resource: leave out group, resource, subresource, namespace and name")
	}
}

func (c *checking) expect(at string, e *Expect) {
	if e.Verdict == "" && e.Violations == nil && e.Message == "" && e.Field == "" && !e.Error {
		c.wrong(at, "says nothing: expect a verdict, violations, a message, a field or an error")
	}
	if e.Verdict != "" {
		c.wrong(at+".verdict", oneOf(e.Verdict, Denied, Warned, Allowed))
	}
	if e.Violations != nil && *e.Violations < 0 {
		c.wrong(at+".violations", "is a number from 0 up")
	}
	if _, err := regexp.Compile(e.Message); err != nil {
		c.wrong(at+".message", strings.Replace(err.Error(), "error parsing regexp", "is no regular expression", 1))
	}
}
