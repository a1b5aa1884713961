package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/previews"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
)

// suiteKind is the kind of suites of Plugins. Their group and version are those of policies and of their suites.
const (
	suiteKind    = "PluginSuite"
	suiteVersion = "policy.virtward.io/v1alpha1"
)

// suite is a suite as it is written.
type suite struct {
	metav1.TypeMeta `json:",inline"`

	Metadata policytest.Metadata `json:"metadata"`
	Tests    []suiteTest         `json:"tests"`
}

// suiteTest tests Plugins together.
type suiteTest struct {
	Name string `json:"name"`
	// Plugins are the Plugins to test, and Objects what the virtual machines refer to, or a KubeVirt object.
	Plugins []policytest.Source `json:"plugins"`
	Objects []policytest.Source `json:"objects,omitempty"`
	// Base is the virtual machine to which the patches of cases apply.
	Base *policytest.Source `json:"base,omitempty"`
	// Facts replace those of the KubeVirt object, or of KubeVirt's defaults.
	Facts *suiteFacts `json:"facts,omitempty"`
	// Assume are assumptions about the node.
	Assume *domain.Assumptions `json:"assume,omitempty"`
	Cases  []suiteCase         `json:"cases"`
}

type suiteFacts struct {
	Hypervisor   string `json:"hypervisor,omitempty"`
	Architecture string `json:"architecture,omitempty"`
}

// suiteCase is a virtual machine, and what the Plugins make of its domain.
type suiteCase struct {
	Name string `json:"name"`
	// Object is the virtual machine; it defaults to Base. Patches change it.
	Object  *policytest.Source `json:"object,omitempty"`
	Patches []policytest.Patch `json:"patches,omitempty"`
	Facts   *suiteFacts        `json:"facts,omitempty"`
	Skip    bool               `json:"skip,omitempty"`
	Expect  suiteExpect        `json:"expect"`
}

// suiteExpect is the expected outcome. Fields that are not set are not compared.
type suiteExpect struct {
	// Domain has values of the domain by their paths, as domain -o table prints them. null says that there is none.
	Domain map[string]*string `json:"domain,omitempty"`
	// Changes is the number of values that the Plugins change.
	Changes *int `json:"changes,omitempty"`
	// Hooks are outcomes of hooks by their names: PLUGIN/domainHooks[0].
	Hooks map[string]plugins.Outcome `json:"hooks,omitempty"`
	// Error is a regular expression for the error with which the virtual machine does not start. Without it, an error fails the case.
	Error string `json:"error,omitempty"`
}

// maxSuite bounds the tests of a suite, and the cases of a test.
const maxSuite = 1000

// loaded is a suite with its document.
type loaded struct {
	document manifests.Document
	suite
}

// loadSuites reads the suites of files and directories.
func loadSuites(ctx context.Context, names []string, stdin io.Reader) (all []*loaded, problems []policytest.Problem, err error) {
	content, err := manifests.ReadEach(ctx, names, true, options.Once(stdin))
	if err != nil {
		return nil, nil, err
	}
	content = content.Strictly()
	for i := range content.Unreadable {
		u := &content.Unreadable[i]
		problems = append(problems, problemAt(u.Document, "", u.Err))
	}
	for _, d := range content.Documents {
		if d.Object.GetKind() != suiteKind {
			continue
		}
		l := &loaded{document: d}
		if d.Object.GetAPIVersion() != suiteVersion {
			problems = append(problems, problemAt(d, "apiVersion", fmt.Errorf("must be %s", suiteVersion)))
			continue
		}
		warnings, err := manifests.Decode(d.Object.Object, &l.suite)
		if err == nil && len(warnings) > 0 {
			unknown := strings.TrimPrefix(warnings[0], "unknown field ")
			problems = append(problems, problemAt(d, unknown, errors.New("unknown field")))
			continue
		}
		if err != nil {
			problems = append(problems, problemAt(d, "", err))
			continue
		}
		if found := l.check(); len(found) > 0 {
			for _, wrong := range found {
				problems = append(problems, problemAt(d, wrong.Field, errors.New(wrong.ErrorBody())))
			}
			continue
		}
		all = append(all, l)
	}
	return all, problems, nil
}

func problemAt(d manifests.Document, at string, err error) policytest.Problem {
	position, _ := d.Find(at)
	p := policytest.Problem{File: cmp.Or(d.File, d.Source)}
	p.Line, p.Column, p.Field, p.Message = position.Line, position.Column, at, err.Error()
	return p
}

// check returns what is missing in a suite.
func (l *loaded) check() (wrong field.ErrorList) {
	if l.Metadata.Name == "" {
		wrong = append(wrong, field.Required(field.NewPath("metadata", "name"), "name the suite"))
	}
	tests := field.NewPath("tests")
	if len(l.Tests) == 0 || len(l.Tests) > maxSuite {
		return append(wrong, field.Invalid(tests, len(l.Tests), fmt.Sprintf("must have 1 to %d tests", maxSuite)))
	}
	for i := range l.Tests {
		t, at := &l.Tests[i], tests.Index(i)
		if t.Name == "" {
			wrong = append(wrong, field.Required(at.Child("name"), "name the test"))
		}
		if len(t.Plugins) == 0 {
			wrong = append(wrong, field.Required(at.Child("plugins"), "name the Plugins to test"))
		}
		if len(t.Cases) == 0 || len(t.Cases) > maxSuite {
			wrong = append(wrong, field.Invalid(at.Child("cases"), len(t.Cases), fmt.Sprintf("must have 1 to %d cases", maxSuite)))
		}
		for k := range t.Cases {
			c, at := &t.Cases[k], at.Child("cases").Index(k)
			if c.Name == "" {
				wrong = append(wrong, field.Required(at.Child("name"), "name the case"))
			}
			if c.Object == nil && t.Base == nil {
				wrong = append(wrong, field.Required(at.Child("object"), "a case needs a virtual machine, or the test a base"))
			}
			if _, err := regexp.Compile(c.Expect.Error); err != nil {
				wrong = append(wrong, field.Invalid(at.Child("expect", "error"), c.Expect.Error, err.Error()))
			}
			if c.Expect.Domain == nil && c.Expect.Changes == nil && c.Expect.Hooks == nil && c.Expect.Error == "" {
				wrong = append(wrong, field.Required(at.Child("expect"), "expect at least one of domain, changes, hooks and error"))
			}
		}
	}
	return wrong
}

// documents returns the objects of sources: those in the suite, and those of files beside it.
func (l *loaded) documents(ctx context.Context, sources []policytest.Source) (all []manifests.Document, err error) {
	for i := range sources {
		if sources[i].File == "" {
			all = append(all, manifests.Document{Source: l.document.Source, File: l.document.File, Object: &unstructured.Unstructured{Object: sources[i].Object}})
			continue
		}
		folder := filepath.Dir(l.document.File)
		name, err := manifests.Inside(filepath.Join(folder, sources[i].File), folder, ".")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sources[i].File, err)
		}
		content, err := manifests.ReadEach(ctx, []string{name}, false, nil)
		if err != nil {
			return nil, err
		}
		found, err := content.Strictly().Complete()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// run runs the chosen cases of a test.
func (l *loaded) run(ctx context.Context, index int, chosen func(test, name string) bool) (outcome policytest.TestOutcome) {
	t := &l.Tests[index]
	at := fmt.Sprintf("tests[%d]", index)
	outcome = policytest.TestOutcome{Name: t.Name, Line: l.line(at), Policies: []string{}}
	set, names, err := l.plugins(ctx, t)
	outcome.Policies = names
	for k := range t.Cases {
		c := &t.Cases[k]
		if !chosen(t.Name, c.Name) {
			continue
		}
		result := policytest.CaseOutcome{Name: c.Name, Line: l.line(fmt.Sprintf("%s.cases[%d]", at, k)), Status: policytest.Passed}
		failed := err
		switch {
		case c.Skip:
			result.Status, failed = policytest.Skipped, nil
		case failed == nil:
			result.Reasons, result.Notes, failed = l.evaluate(ctx, t, c, set)
			if len(result.Reasons) > 0 {
				result.Status = policytest.Failed
			}
		}
		if failed != nil {
			result.Status, result.Reasons = policytest.Broken, []string{failed.Error()}
		}
		outcome.Cases = append(outcome.Cases, result)
	}
	return outcome
}

func (l *loaded) line(at string) int {
	position, _ := l.document.Find(at)
	return position.Line
}

// plugins compiles the Plugins of a test.
func (l *loaded) plugins(ctx context.Context, t *suiteTest) (*plugins.Set, []string, error) {
	documents, err := l.documents(ctx, t.Plugins)
	if err != nil {
		return nil, nil, err
	}
	read := previews.PluginsOf(documents)
	list, err := read.Complete()
	if err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, errors.New("plugins: there is no Plugin")
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return plugins.NewSet(list), names, nil
}

// evaluate makes the domain of a case, applies the Plugins, and returns the differences from what is expected.
func (l *loaded) evaluate(ctx context.Context, t *suiteTest, c *suiteCase, set *plugins.Set) (reasons, notes []string, err error) {
	made, err := l.machine(ctx, t, c)
	if err != nil {
		return nil, nil, err
	}
	result := set.Apply(made.Instance, made.Document)
	for i := range result.Hooks {
		if h := &result.Hooks[i]; h.Outcome != plugins.Applied {
			notes = append(notes, fmt.Sprintf("%s/%s: %s, %s", h.Plugin, h.Hook, h.Outcome, h.Message))
		}
	}
	return compare(&c.Expect, result), notes, nil
}

// machine makes the domain of a case.
func (l *loaded) machine(ctx context.Context, t *suiteTest, c *suiteCase) (*previews.Machine, error) {
	subject, err := l.subject(ctx, t, c)
	if err != nil {
		return nil, err
	}
	objects, err := l.documents(ctx, t.Objects)
	if err != nil {
		return nil, err
	}
	sources := options.NewSources()
	for _, facts := range []*suiteFacts{t.Facts, c.Facts} {
		if facts != nil {
			sources.Hypervisor, sources.Architecture = cmp.Or(facts.Hypervisor, sources.Hypervisor), cmp.Or(facts.Architecture, sources.Architecture)
		}
	}
	files := offline.Sort(&manifests.Content{Documents: objects})
	facts := sources.FactsIn(files)
	if facts == nil {
		facts = platform.Defaults(sources.Settings)
	}
	if len(files.Unreadable) > 0 {
		return nil, &files.Unreadable[0]
	}
	if facts, err = sources.Assume(facts); err != nil {
		return nil, err
	}
	w, err := sources.NewEvaluator(ctx, files, nil, facts)
	if err != nil {
		return nil, err
	}
	host := t.Assume
	if host == nil {
		host = &domain.Assumptions{}
	}
	previewer, err := previews.New(w, host)
	if err != nil {
		return nil, err
	}
	return previewer.Machine(ctx, *subject)
}

// subject is the virtual machine of a case, with its patches.
func (l *loaded) subject(ctx context.Context, t *suiteTest, c *suiteCase) (*manifests.Document, error) {
	source := c.Object
	if source == nil {
		source = t.Base
	}
	found, err := l.documents(ctx, []policytest.Source{*source})
	if err != nil {
		return nil, err
	}
	if len(found) != 1 || !offline.IsSubject(found[0].Object.GroupVersionKind()) {
		return nil, errors.New("object: must be one virtual machine")
	}
	d := found[0]
	raw, err := json.Marshal(d.Object.Object)
	if err != nil {
		return nil, err
	}
	operations, err := json.Marshal(append([]policytest.Patch{}, c.Patches...))
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, fmt.Errorf("patches: %w", err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		return nil, fmt.Errorf("patches: %w", err)
	}
	d.Object = &unstructured.Unstructured{}
	if err := d.Object.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	return &d, nil
}

// compare returns the differences of a result from what is expected.
func compare(want *suiteExpect, result *plugins.Result) (reasons []string) {
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case want.Error == "" && result.Err != nil:
		add("the virtual machine would not start: %v", result.Err)
	case want.Error != "" && result.Err == nil:
		add("the virtual machine starts, and an error was expected that matches %q", want.Error)
	case want.Error != "" && !regexp.MustCompile(want.Error).MatchString(result.Err.Error()):
		add("the error %q does not match %q", result.Err.Error(), want.Error)
	}
	if result.Err == nil {
		after := cleaned(result.Document)
		values := map[string]string{}
		after.Walk(func(path, value string, _ domain.Source) { values[path] = value })
		for _, path := range slices.Sorted(maps.Keys(want.Domain)) {
			got, has := values[path]
			switch value := want.Domain[path]; {
			case value == nil && has:
				add("%s is %q, and must be absent", path, got)
			case value != nil && !has:
				add("%s is absent, and must be %q", path, *value)
			case value != nil && got != *value:
				add("%s is %q, and must be %q", path, got, *value)
			}
		}
		if changes := len(domain.Diff(cleaned(result.Before), after)); want.Changes != nil && changes != *want.Changes {
			add("%s, and must be %d", texts.Count(changes, "value changes", "values change"), *want.Changes)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.Hooks)) {
		i := slices.IndexFunc(result.Hooks, func(h plugins.HookResult) bool { return h.Plugin+"/"+h.Hook == name })
		switch {
		case i < 0:
			add("the hook %s was not called", name)
		case result.Hooks[i].Outcome != want.Hooks[name]:
			add("the hook %s is %s, and must be %s", name, result.Hooks[i].Outcome, want.Hooks[name])
		}
	}
	return reasons
}
