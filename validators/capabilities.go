package validators

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Capability is something that a spec may ask of the platform it runs on.
type Capability struct {
	// Name is stable, and kebab-case: video-vga.
	Name string
	// Title names it for people: "A video device of type vga".
	Title string
	// Uses says where a spec asks for it, one for each place. Nil where a rule of the shared tables finds that out.
	Uses func(*Subject) []Use
}

// Use is one place in which a spec asks for a capability.
type Use struct {
	// Path is the field, in the object as it was written, and Value what it says.
	Path  *field.Path
	Value any
	// Detail takes the place of the line's, where the message depends on the spec or the cluster.
	Detail string
}

// Level is how far a platform supports a capability. A capability that no table lists is supported, or unknown.
type Level string

// The levels.
const (
	// Unsupported is what nothing that uses it could run with.
	Unsupported Level = "unsupported"
	// Experimental is what KubeVirt keeps behind a feature gate.
	Experimental Level = "experimental"
	// Deprecated is what works, and will go.
	Deprecated Level = "deprecated"
	// Ignored is what KubeVirt accepts, and has no effect.
	Ignored Level = "ignored"
)

// Support is one line of a capability table: what a platform says of one capability. It is VEP 97.1's, with the
// rule that it becomes.
type Support struct {
	// Hypervisor and Architecture are the platform; empty stands for any.
	Hypervisor, Architecture string
	Capability               Capability
	Level                    Level
	// Gate is KubeVirt's feature gate of what is experimental.
	Gate string
	// Rule is the id of the rule that checks it. With a title the rule is made of the line, and of the other lines
	// with this id; without, it is one of the shared tables. What is experimental may have none: nothing is
	// rejected then.
	Rule string
	// Title, Remedy and Security are those of the rule that is made of the line.
	Title, Remedy string
	Security      bool
	// Cause is the type of the rule's findings: NotSupported if empty, or Invalid where KubeVirt says so.
	Cause field.ErrorType
	// Detail is the message about each use.
	Detail string
	// Source says in a few words how this is known: "KubeVirt's admission", "VEP 97".
	Source string
}

// SupportTable is an ordered list of lines.
type SupportTable []Support

// BaseSupport is what holds on every hypervisor: the lines of each architecture, and those of none in particular.
func BaseSupport() SupportTable {
	return slices.Concat(gatedSupport(), amd64Support(), arm64Support(), s390xSupport())
}

// For are the lines that hold on a platform.
func (t SupportTable) For(hypervisor, architecture string) SupportTable {
	var lines SupportTable
	for i := range t {
		if cmp.Or(t[i].Hypervisor, hypervisor) == hypervisor && cmp.Or(t[i].Architecture, architecture) == architecture {
			lines = append(lines, t[i])
		}
	}
	return lines
}

// Rules are made of the lines with a title: one for each id, in the order in which the ids come.
func (t SupportTable) Rules() Table {
	var rules Table
	lines := map[string]SupportTable{}
	for i := range t {
		line := &t[i]
		if line.Title == "" {
			continue
		}
		if lines[line.Rule] == nil {
			rules = append(rules, Rule{
				ID: line.Rule, Title: line.Title, Scope: OnSpec, Severity: line.severity(), Security: line.Security, Remedy: line.Remedy,
				AtStart: line.Architecture != "" && line.cause() == field.ErrorTypeNotSupported, OnlyWritten: line.Level == Ignored,
			})
		}
		lines[line.Rule] = append(lines[line.Rule], *line)
	}
	for i := range rules {
		rules[i].Check = lines[rules[i].ID].check
	}
	return rules
}

// check reports every use of every line. A line without uses has none to report.
func (t SupportTable) check(s *Subject, found *Errors) {
	for i := range t {
		line := &t[i]
		if line.Capability.Uses == nil || line.Level == Experimental && s.Facts.GateEnabled(line.Gate) {
			continue
		}
		for _, use := range line.Capability.Uses(s) {
			found.Add(line.finding(use))
		}
	}
}

func (s *Support) finding(use Use) *field.Error {
	detail := cmp.Or(use.Detail, s.Detail)
	if s.Level == Experimental {
		detail += ": it needs KubeVirt's feature gate " + s.Gate + ", which is off in this cluster"
	}
	return &field.Error{Type: s.cause(), Field: use.Path.String(), BadValue: use.Value, Detail: detail}
}

// cause is Invalid for what would work, but not here and now.
func (s *Support) cause() field.ErrorType {
	if s.Cause != "" || s.Level == Unsupported {
		return cmp.Or(s.Cause, field.ErrorTypeNotSupported)
	}
	return field.ErrorTypeInvalid
}

func (s *Support) severity() Severity {
	if s.Level == Deprecated || s.Level == Ignored {
		return Warn
	}
	return Deny
}

// Platform is how messages name the platform of a line: kvm/amd64, with any for what is left open.
func (s *Support) Platform() string {
	return cmp.Or(s.Hypervisor, "any") + "/" + cmp.Or(s.Architecture, "any")
}

// Validate tells what is wrong with the lines, by themselves and beside each other; all of it, joined.
func (t SupportTable) Validate() error {
	var errs []error
	listed, titles, rules := map[string]bool{}, map[string]string{}, map[string]*Support{}
	for i := range t {
		line := &t[i]
		name := fmt.Sprintf("capability %q of %s", line.Capability.Name, line.Platform())
		for _, problem := range line.problems() {
			errs = append(errs, fmt.Errorf("%s %s", name, problem))
		}
		if listed[name] {
			errs = append(errs, fmt.Errorf("%s is listed twice", name))
		}
		listed[name] = true
		if title, known := titles[line.Capability.Name]; known && title != line.Capability.Title {
			errs = append(errs, fmt.Errorf("%s has the title %q, and elsewhere %q", name, line.Capability.Title, title))
		}
		titles[line.Capability.Name] = line.Capability.Title
		if first := rules[line.Rule]; line.Title != "" && first == nil {
			rules[line.Rule] = line
		} else if line.Title != "" && !line.sameRule(first) {
			errs = append(errs, fmt.Errorf("%s makes another rule %s than %q of %s", name, line.Rule, first.Capability.Name, first.Platform()))
		}
	}
	return errors.Join(errs...)
}

// sameRule reports whether two lines make one rule: for one platform, with the same words.
func (s *Support) sameRule(other *Support) bool {
	return s.Platform() == other.Platform() && s.Title == other.Title && s.Remedy == other.Remedy &&
		s.severity() == other.severity() && s.Security == other.Security && (s.Level == Ignored) == (other.Level == Ignored)
}

var kebab = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (s *Support) problems() []string {
	var problems []string
	for _, expectation := range []struct {
		met bool
		not string
	}{
		{kebab.MatchString(s.Capability.Name), "has a name that is not kebab-case"},
		{s.Capability.Title != "", "has no title"},
		{s.Level == Unsupported || s.Level == Experimental || s.Level == Deprecated || s.Level == Ignored, fmt.Sprintf("has no level, but %q", s.Level)},
		{(s.Level == Experimental) == (s.Gate != ""), "must have a feature gate if it is experimental, and only then"},
		{s.Rule != "" || s.Level == Experimental, "has no rule that checks it"},
		{s.Rule != "" || s.Title == "", "has the title of a rule, but no id"},
		{s.Title == "" || s.Remedy != "", "makes a rule without a remedy"},
		{s.Title == "" || s.Capability.Uses != nil, "makes a rule, but does not say where a spec uses it"},
		{s.Detail != "", "says nothing in detail"},
		{s.Source != "", "has no source"},
	} {
		if !expectation.met {
			problems = append(problems, expectation.not)
		}
	}
	return problems
}
