package templates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// EngineCase is a template with given values: a line of engine.jsonl whose area starts with engine/.
type EngineCase struct {
	ID         string            `json:"id"`
	Area       string            `json:"area"`
	Template   json.RawMessage   `json:"template"`
	Parameters map[string]string `json:"parameters"`
	Expect     EngineAnswer      `json:"expect"`
}

// EngineAnswer is what virt-template answered.
type EngineAnswer struct {
	Stage          string               `json:"stage"`
	Causes         []Cause              `json:"causes"`
	Warnings       []Cause              `json:"warnings"`
	VirtualMachine json.RawMessage      `json:"virtualMachine"`
	VMSha256       string               `json:"vmSha256"`
	Message        string               `json:"message"`
	Generated      map[string]Generated `json:"generated"`
	Unstable       []json.RawMessage    `json:"unstable"`
}

// Cause is an error or a warning of virt-template.
type Cause struct {
	Class string `json:"class"`
	Field string `json:"field"`
}

// Generated describes a generated value.
type Generated struct {
	Pattern string `json:"pattern"`
	Length  int    `json:"length"`
}

// matches reports whether a value is one of those that were recorded. The pattern and the length are about characters or, as a
// generator counts them, about bytes.
func (g *Generated) matches(value string) bool {
	pattern, err := regexp.Compile(g.Pattern)
	if err != nil {
		return false
	}
	characters := make([]rune, len(value))
	for i := range len(value) {
		characters[i] = rune(value[i])
	}
	hasLength := len(value) == g.Length || utf8.RuneCountInString(value) == g.Length
	return hasLength && (pattern.MatchString(value) || pattern.MatchString(string(characters)))
}

// repeated is how the cases write long texts.
var repeated = regexp.MustCompile(`@@repeat:(\d+):([^"]*)`)

// Expand writes long texts out.
func Expand(line []byte) []byte {
	return repeated.ReplaceAllFunc(line, func(match []byte) []byte {
		parts := repeated.FindSubmatch(match)
		n, err := strconv.Atoi(string(parts[1]))
		if err != nil {
			return match
		}
		return bytes.Repeat(parts[2], n)
	})
}

// RunEngine renders the template of a case and compares.
func RunEngine(c *EngineCase) Result {
	result := Result{ID: c.ID, Area: c.Area, Outcome: Other}
	var template v1beta1.VirtualMachineTemplate
	if err := json.Unmarshal(c.Template, &template); err != nil {
		result.Difference = err.Error()
		return result
	}
	rendered, findings := templates.Render(&template.Spec, c.Parameters, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if result.Difference = c.difference(rendered, findings); result.Difference == "" {
		result.Outcome = Equal
		return result
	}
	x := &engineRun{c, &template.Spec, rendered, findings}
	for _, class := range engineClasses {
		if class.of(x) && class.right(x) {
			result.Outcome, result.Class = Better, class.name
			return result
		}
	}
	return result
}

// difference is empty if Virtward's answer is the recorded one.
func (c *EngineCase) difference(rendered *templates.Rendered, findings []validators.Finding) string {
	if len(c.Expect.Unstable) > 0 {
		return "virt-template's answer is not stable"
	}
	if c.Expect.Stage != "" {
		if rendered != nil {
			return fmt.Sprintf("recorded: %s %v; rendered", c.Expect.Stage, c.Expect.Causes)
		}
		if diff := unequal(c.Expect.Causes, ofSeverity(findings, validators.Deny)); diff != "" {
			return c.Expect.Stage + ": " + diff
		}
		return ""
	}
	if rendered == nil {
		return fmt.Sprintf("recorded: a VirtualMachine; %v", ofSeverity(findings, validators.Deny))
	}
	if diff := unequal(c.Expect.Warnings, ofSeverity(findings, validators.Warn)); diff != "" {
		return "warnings: " + diff
	}
	if len(c.Expect.VirtualMachine) == 0 { // informative: a digest of a very long one
		return ""
	}
	for name, generated := range c.Expect.Generated {
		if value := rendered.Values[name]; !generated.matches(value) {
			return fmt.Sprintf("%s is %q, which does not match %s with the length %d", name, value, generated.Pattern, generated.Length)
		}
	}
	want, message, err := c.drawn(rendered.Values)
	switch {
	case err != nil:
		return err.Error()
	case message != rendered.Message:
		return fmt.Sprintf("message %q, recorded %q", rendered.Message, message)
	}
	return differentVM(want, rendered.VirtualMachine)
}

// drawn are the recorded VirtualMachine and message with generated values.
func (c *EngineCase) drawn(values map[string]string) (vm []byte, message string, err error) {
	want, message := string(c.Expect.VirtualMachine), c.Expect.Message
	for name := range c.Expect.Generated {
		quoted, err := json.Marshal(values[name])
		if err != nil {
			return nil, "", err
		}
		inner := string(quoted[1 : len(quoted)-1])
		want = strings.ReplaceAll(want, "<<"+name+">>", inner)
		want = strings.ReplaceAll(want, `\u003c\u003c`+name+`\u003e\u003e`, inner)
		message = strings.ReplaceAll(message, "<<"+name+">>", values[name])
	}
	return []byte(want), message, nil
}

// differentVM compares VirtualMachines by what they mean.
func differentVM(want []byte, got *kubevirtv1.VirtualMachine) string {
	var recorded kubevirtv1.VirtualMachine
	if err := json.Unmarshal(want, &recorded); err != nil {
		return err.Error()
	}
	if !equality.Semantic.DeepEqual(&recorded, got) {
		written, err := json.Marshal(got)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("VirtualMachine %s, recorded %s", written, want)
	}
	return ""
}

// ofSeverity are findings of a severity as causes.
func ofSeverity(findings []validators.Finding, severity validators.Severity) []Cause {
	var causes []Cause
	for i := range findings {
		if findings[i].Severity == severity {
			causes = append(causes, Cause{strings.TrimPrefix(findings[i].Rule, "template-"), findings[i].Error.Field})
		}
	}
	return causes
}

// unequal compares causes as sets. A field below the recorded one is more exact, and equal. Of a class that the recorded
// answer has, it names one cause where Virtward names all.
func unequal(recorded, got []Cause) string {
	matches := func(r, g Cause) bool {
		return r.Class == g.Class && (r.Field == "" || r.Field == g.Field || strings.HasPrefix(g.Field, strings.TrimSuffix(r.Field, ".raw")) || r.Field == "spec.parameters" && strings.HasPrefix(g.Field, "parameters["))
	}
	for _, r := range recorded {
		if !slices.ContainsFunc(got, func(g Cause) bool { return matches(r, g) }) {
			return fmt.Sprintf("%v is missing in %v", r, got)
		}
	}
	for _, g := range got {
		if !slices.ContainsFunc(recorded, func(r Cause) bool { return matches(r, g) }) {
			return fmt.Sprintf("%v is not recorded in %v", g, recorded)
		}
	}
	return ""
}

// replayEngine replays a line.
func replayEngine(line []byte) (Result, error) {
	var c EngineCase
	if err := json.Unmarshal(line, &c); err != nil {
		return Result{}, err
	}
	return RunEngine(&c), nil
}
