package answers

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/playground/lessons"
	"github.com/virtward/virtward/cli/subjects"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/schemas"
)

// Bounds of a question.
const (
	// MaxFile is the size of a file, in bytes.
	MaxFile = 1 << 20
	// MaxBytes is the size of all files, in bytes.
	MaxBytes = 2 << 20
	// MaxFiles is the number of files.
	MaxFiles = 12
	// MaxPlatforms is the number of platforms.
	MaxPlatforms = 6
	// MaxSubjects is the number of virtual machines.
	MaxSubjects = 20
	// MaxValues is the number of values for parameters.
	MaxValues = 100
)

// Question is what the page asks.
type Question struct {
	// Files are the files of a folder, in the order in which explain reads them.
	Files []File `json:"files"`
	// Platforms are those that virtual machines are explained for. An empty one is that of the KubeVirt object, or of KubeVirt's
	// defaults.
	Platforms []Platform `json:"platforms"`
	// KubeVirtVersion is the version of KubeVirt whose schemas validate; empty for that of the KubeVirt object, or the newest.
	KubeVirtVersion string `json:"kubeVirtVersion,omitempty"`
	// Trace adds what each policy does, with the values of all parts of its expressions.
	Trace bool `json:"trace,omitempty"`
	// Before are the files of the version that runs, to plan the change from it; empty for no plan.
	Before []File `json:"before,omitempty"`
	// Values are values for the parameters of VirtualMachineTemplates.
	Values map[string]string `json:"values,omitempty"`
	// Lesson is the name of a lesson that the files are to solve; empty for none.
	Lesson string `json:"lesson,omitempty"`
}

// File is a text with the name that suites use for it.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// HasSuite reports whether the file has a suite, also if it cannot be parsed. explain does not read these files.
func (f File) HasSuite() bool { return suiteKind.MatchString(f.Text) }

var suiteKind = regexp.MustCompile(`(?m)^[ \t]*["']?kind["']?[ \t]*:[ \t]*["']?` + policytest.Kind + `\b`)

// Platform is a hypervisor and the default architecture of a cluster.
type Platform struct {
	Hypervisor   string `json:"hypervisor,omitempty"`
	Architecture string `json:"architecture,omitempty"`
}

// Answer has all results.
type Answer struct {
	// Platforms has what explain prints for each platform.
	Platforms []Explained `json:"platforms"`
	// Problems are those of policy lint.
	Problems []policytest.Problem `json:"problems"`
	// Tests is the report of policy test; nil without a suite.
	Tests *Tests `json:"tests"`
	// Lesson says whether the files solve the lesson of the question; nil without one.
	Lesson *Learned `json:"lesson,omitempty"`
}

// Explained is the result of explain for one platform.
type Explained struct {
	Platform Platform `json:"platform"`
	// Error says why nothing could be evaluated.
	Error string `json:"error,omitempty"`
	// Machines are the virtual machines, and other objects with findings.
	Machines   []Machine                `json:"machines"`
	Unreadable []explanation.Unreadable `json:"unreadable"`
	// Notes name skipped documents, and Warnings unknown fields of references.
	Notes    []string `json:"notes"`
	Warnings []string `json:"warnings"`
}

// Machine is an explanation, and the lines of the effective object.
type Machine struct {
	// File is the file that it was read from.
	File        string                   `json:"file"`
	Explanation *explanation.Explanation `json:"explanation"`
	Lines       []explanation.Line       `json:"lines"`
	// Traces are the traces of the policies, with Question.Trace.
	Traces []policytest.Trace `json:"traces,omitempty"`
	// Plan is the plan of the change from Question.Before; nil without it, and for objects that are no VirtualMachine.
	Plan *Plan `json:"plan,omitempty"`
}

// Tests is a report with its counts, as policy test prints it.
type Tests struct {
	*policytest.Report

	Counts policytest.Counts `json:"counts"`
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\.(yaml|yml|json)$`)

// Check returns an error that names what of the question is not permitted.
func (q *Question) Check() error {
	if err := CheckFiles(q.Files); err != nil {
		return err
	}
	if err := CheckFiles(q.Before); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	if len(q.Values) > MaxValues {
		return fmt.Errorf("values: must be at most %d", MaxValues)
	}
	for name, value := range q.Values {
		if len(name)+len(value) > v1beta1.MaxParameterValue {
			return fmt.Errorf("values[%.80s]: must have at most %d bytes", name, v1beta1.MaxParameterValue)
		}
	}
	if len(q.Platforms) == 0 || len(q.Platforms) > MaxPlatforms {
		return fmt.Errorf("platforms: must be 1 to %d", MaxPlatforms)
	}
	for i, p := range q.Platforms {
		if p.Hypervisor != "" && !slices.Contains(platform.HypervisorNames(), p.Hypervisor) {
			return fmt.Errorf("platforms[%d].hypervisor: unknown hypervisor %.80q: the known ones are %s", i, p.Hypervisor, strings.Join(platform.HypervisorNames(), ", "))
		}
		if p.Architecture != "" && !slices.Contains(architectures.Names(), p.Architecture) {
			return fmt.Errorf("platforms[%d].architecture: unknown architecture %.80q: the known ones are %s", i, p.Architecture, strings.Join(architectures.Names(), ", "))
		}
	}
	if q.KubeVirtVersion != "" && !slices.Contains(schemas.Minors(), q.KubeVirtVersion) {
		return fmt.Errorf("kubeVirtVersion: unknown version %.80q: the known ones are %s", q.KubeVirtVersion, strings.Join(schemas.Minors(), ", "))
	}
	if q.Lesson != "" && lessons.Find(q.Lesson) == nil {
		return fmt.Errorf("lesson: unknown lesson %.80q", q.Lesson)
	}
	return nil
}

// CheckFiles returns an error that names what of the files is not permitted.
func CheckFiles(files []File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("files: must be at most %d", MaxFiles)
	}
	seen, total := map[string]bool{}, 0
	for i, f := range files {
		total += len(f.Text)
		switch {
		case !fileName.MatchString(f.Name):
			return fmt.Errorf("files[%d].name: %.80q must have letters, digits, dots, dashes and underscores, and end with .yaml, .yml or .json", i, f.Name)
		case seen[f.Name]:
			return fmt.Errorf("files[%d].name: %s is the name of another file", i, f.Name)
		case len(f.Text) > MaxFile:
			return fmt.Errorf("files[%d].text: %s has %d KiB: at most %d are evaluated", i, f.Name, len(f.Text)>>10, MaxFile>>10)
		case total > MaxBytes:
			return fmt.Errorf("files: they have more than %d KiB together", MaxBytes>>10)
		}
		seen[f.Name] = true
	}
	return nil
}

// Answerer answers questions. It keeps some evaluators, because making one compiles all policies. It is safe for concurrent use.
type Answerer struct {
	runner     func() (*policytest.Runner, error)
	evaluators *evaluators
	problems   remembered[[]policytest.Problem]
	tests      remembered[*Tests]
}

// New returns an answerer. The function returns the time.
func New(now func() time.Time) *Answerer {
	return &Answerer{runner: sync.OnceValues(policytest.NewRunner), evaluators: &evaluators{now: now, kept: map[string]*kept{}}}
}

// Answer answers a question that Check permits. It returns the error of the context if that is done first.
func (a *Answerer) Answer(ctx context.Context, q *Question) (*Answer, error) {
	content, err := read(ctx, q.Files)
	if err != nil {
		return nil, err
	}
	before, err := read(ctx, q.Before)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Platforms: []Explained{}}
	for _, p := range q.Platforms {
		e := Explained{Platform: p, Machines: []Machine{}, Unreadable: []explanation.Unreadable{}, Notes: []string{}, Warnings: []string{}}
		if err := a.explain(ctx, q, content, before, &e); err != nil {
			e.Error = err.Error()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		answer.Platforms = append(answer.Platforms, e)
	}
	if err := a.test(ctx, q, answer); err != nil {
		return nil, err
	}
	if answer.Lesson, err = a.learned(ctx, q); err != nil {
		return nil, err
	}
	return answer, ctx.Err()
}

// read reads the files that explain reads.
func read(ctx context.Context, files []File) (*manifests.Content, error) {
	content := &manifests.Content{}
	for _, f := range files {
		if f.HasSuite() {
			continue
		}
		read, err := manifests.ReadParts(ctx, f.Name, strings.NewReader(f.Text))
		if err != nil {
			return nil, err
		}
		for i := range read.Documents {
			read.Documents[i].File = f.Name
		}
		for i := range read.Unreadable {
			read.Unreadable[i].File = f.Name
		}
		content.Documents = append(content.Documents, read.Documents...)
		content.Unreadable = append(content.Unreadable, read.Unreadable...)
	}
	return content, nil
}

// evaluator returns the sorted files of a content, and an evaluator for them.
func (a *Answerer) evaluator(ctx context.Context, q *Question, files []File, content *manifests.Content, p Platform) (*offline.Files, *offline.Evaluator, error) {
	assumed := &offline.Assumptions{
		Hypervisor: p.Hypervisor, Architecture: p.Architecture, KubeVirtVersion: q.KubeVirtVersion, MaxException: offline.DefaultMaxException,
	}
	sorted := offline.Sort(content)
	facts := assumed.Facts(sorted)
	if facts == nil {
		facts = platform.Defaults(assumed.Settings)
	}
	facts, err := assumed.Apply(facts)
	if err != nil {
		return nil, nil, err
	}
	evaluator, err := a.evaluators.get(key(files, q.KubeVirtVersion, content, p), func() (*offline.Evaluator, error) {
		return assumed.NewEvaluator(ctx, sorted, nil, facts, offline.DefaultNamespace)
	})
	return sorted, evaluator, err
}

// explain explains the virtual machines for one platform. One that cannot be evaluated leaves the others.
func (a *Answerer) explain(ctx context.Context, q *Question, content, before *manifests.Content, e *Explained) error {
	files, evaluator, err := a.evaluator(ctx, q, q.Files, content, e.Platform)
	if err != nil {
		return err
	}
	var running *running
	if len(q.Before) > 0 {
		if running, err = a.running(ctx, q, before, e.Platform); err != nil {
			return fmt.Errorf("the version that runs: %w", err)
		}
	}
	own := *evaluator // the kept one has no values
	own.Values = q.Values
	s := subjects.New(ctx, files, nil, &own)
	e.Notes, e.Warnings = append(e.Notes, s.Notes...), append(e.Warnings, s.Warnings...)
	if more := len(s.Documents) - MaxSubjects; more > 0 {
		e.Warnings = append(e.Warnings, fmt.Sprintf("at most %d virtual machines are explained here: %d more are not", MaxSubjects, more))
		s.Documents = s.Documents[:MaxSubjects]
	}
	for _, d := range s.Documents {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m, err := machineOf(ctx, s, d)
		if err != nil {
			s.Failed(d, err)
			continue
		}
		if q.Trace {
			m.Traces = traces(ctx, &own, d)
		}
		if running != nil {
			m.Plan = running.plan(ctx, &own, d)
		}
		e.Machines = append(e.Machines, *m)
	}
	e.Unreadable = append(e.Unreadable, explanation.Unreadables(s.Unreadable)...)
	return nil
}

func machineOf(ctx context.Context, s *subjects.Subjects, d manifests.Document) (*Machine, error) {
	explained, err := s.Explain(ctx, d)
	if err != nil {
		return nil, err
	}
	lines, err := explained.Listing()
	if err != nil {
		return nil, err
	}
	return &Machine{File: d.Source, Explanation: explained, Lines: lines}, nil
}

// traces returns what the policies do with an object. One that does not match it, or that cannot be evaluated, is not evaluated.
func traces(ctx context.Context, e *offline.Evaluator, d manifests.Document) (all []policytest.Trace) {
	for _, p := range e.Policies().Policies() {
		t := policytest.Trace{Policy: p.Name()}
		if ctx.Err() != nil || e.Observe(ctx, d, p, func(documents *cel.Documents) { t = policytest.TraceOf(p, documents) }) != nil {
			t = policytest.Trace{Policy: p.Name()}
		}
		all = append(all, t)
	}
	return all
}

// test lints the policies and runs the suites.
func (a *Answerer) test(ctx context.Context, q *Question, answer *Answer) error {
	runner, err := a.runner()
	if err != nil {
		return err
	}
	problems := a.problems.get(q.Files, "", func(files fs.FS) func() ([]policytest.Problem, bool) {
		loaded := policytest.LoadPolicies(files, root)
		return func() ([]policytest.Problem, bool) { return runner.Lint(loaded), true }
	})
	answer.Problems = append([]policytest.Problem{}, problems...)
	if q.Lesson != "" { // advice such as that a description is missing distracts from the task
		answer.Problems = slices.DeleteFunc(answer.Problems, func(p policytest.Problem) bool { return p.Warning })
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	answer.Tests = a.tests.get(q.Files, fmt.Sprint("trace ", q.Trace), func(files fs.FS) func() (*Tests, bool) {
		all, problems := policytest.Load(files, root)
		return func() (*Tests, bool) {
			if len(all) == 0 && len(problems) == 1 && problems[0].File == root { // there is no suite
				return nil, true
			}
			report := runner.Run(ctx, all, policytest.Options{Coverage: true, Trace: q.Trace})
			report.Unreadable = problems
			return &Tests{Report: report, Counts: report.Counts()}, ctx.Err() == nil
		}
	})
	return nil
}
