package analysis

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/lsp/workspace"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/validators"
)

// Bounds of the analysis of a file.
const (
	// MaxProblems is the number of problems of a file.
	MaxProblems = 500
	// MaxSubjects is the number of virtual machines of a file that are evaluated.
	MaxSubjects = 100
	// MaxFilled is the number of filled fields of a virtual machine that are kept.
	MaxFilled = 300
	// maxAge bounds how long an evaluator is used: the time decides which exceptions are active.
	maxAge = 10 * time.Minute
)

// Unreadable is the rule of a problem of what cannot be read.
const Unreadable = "unreadable"

// Problem is what is wrong at a position.
type Problem struct {
	manifests.Position

	Severity validators.Severity
	// Rule is the id of the rule.
	Rule string
	// Message names the field and says what is wrong there, and Remedy what to do about it.
	Message, Remedy string
}

// Result is the result of a file.
type Result struct {
	Problems []Problem
	// Machines are the virtual machines that were evaluated.
	Machines []Machine
	// Fixes are the corrections of problems that have one.
	Fixes []Fix
	// Objects are the objects of the folder that others name, each once, the nearest one first.
	Objects []manifests.Document
	// Minor is the minor version of KubeVirt whose fields the file has.
	Minor string
}

// Machine is a virtual machine that was evaluated.
type Machine struct {
	*explanation.Explanation
	// Kind is where its kind is written.
	Kind manifests.Position
	// Filled are the fields that layers filled, at most MaxFilled.
	Filled []explanation.Filled
}

// Analyzer analyzes files. It keeps the evaluator of the last configuration. It is safe for concurrent use.
type Analyzer struct {
	newEvaluator func(context.Context, *offline.Files) (*offline.Evaluator, error)
	now          func() time.Time
	runner       func() (*policytest.Runner, error)

	mutex sync.Mutex
	kept  evaluation
}

// evaluation is an evaluator and what it was made from.
type evaluation struct {
	key       uint64
	made      time.Time
	files     *offline.Files
	evaluator *offline.Evaluator
}

// New returns an analyzer. newEvaluator makes an evaluator of the objects of files.
func New(newEvaluator func(context.Context, *offline.Files) (*offline.Evaluator, error), now func() time.Time) *Analyzer {
	return &Analyzer{newEvaluator: newEvaluator, now: now, runner: sync.OnceValues(policytest.NewRunner)}
}

// Analyze analyzes a file. It returns the error of the context if that is done first.
func (a *Analyzer) Analyze(ctx context.Context, s *workspace.Snapshot, name string) (*Result, error) {
	file := s.File(name)
	if file == nil || !file.Relevant {
		return &Result{}, nil
	}
	r := &Result{}
	for i := range file.Unreadable {
		r.unreadable(&file.Unreadable[i])
	}
	if err := a.explain(ctx, s, file, r); err != nil {
		return nil, err
	}
	if err := a.lint(s, file, r); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.Problems, func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column), strings.Compare(x.Rule, y.Rule))
	})
	r.Problems = slices.Compact(r.Problems)
	if more := len(r.Problems) - MaxProblems; more > 0 {
		last := r.Problems[MaxProblems-1]
		r.Problems = append(r.Problems[:MaxProblems-1], Problem{Position: last.Position, Severity: validators.Warn, Rule: last.Rule, Message: fmt.Sprintf("the file has %d more problems", more+1)})
	}
	return r, ctx.Err()
}

// explain evaluates the virtual machines of a file, and validates its other objects.
func (a *Analyzer) explain(ctx context.Context, s *workspace.Snapshot, file *workspace.File, r *Result) error {
	key, objects := around(s, file)
	subjects := slices.DeleteFunc(slices.Clone(file.Documents), func(d manifests.Document) bool { return !offline.IsSubject(d.Object.GroupVersionKind()) })
	e, err := a.evaluatorOf(ctx, key, objects)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	r.Objects = append(slices.Clip(objects), templates(s, file)...)
	if r.Minor, _ = schemas.MinorOf(e.evaluator.Facts().KubeVirtVersion); r.Minor == "" {
		r.Minor = schemas.Newest()
	}
	for _, all := range [][]manifests.Unreadable{e.files.Unreadable, e.evaluator.Unreadable} {
		for i := range all {
			if u := &all[i]; u.Source == file.Name && (!linted(u.Document) || len(u.Repeated) > 0) {
				r.unreadable(u)
			}
		}
	}
	beside := slices.DeleteFunc(slices.Clone(e.files.Beside), func(d manifests.Document) bool { return d.Source != file.Name })
	subjects = append(subjects, e.evaluator.Wrong(ctx, beside)...)
	if len(subjects) > MaxSubjects {
		at, _ := subjects[MaxSubjects].Find("kind")
		r.add(Problem{Position: at, Severity: validators.Warn, Rule: Unreadable, Message: fmt.Sprintf("at most %d virtual machines of a file are evaluated: this one and those below are not", MaxSubjects)})
		subjects = subjects[:MaxSubjects]
	}
	for _, d := range subjects {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.explain(ctx, e.evaluator, d)
	}
	return ctx.Err()
}

// explain evaluates a virtual machine.
func (r *Result) explain(ctx context.Context, e *offline.Evaluator, d manifests.Document) {
	result, err := e.EvaluateMade(ctx, d)
	if err == nil {
		var machine *explanation.Explanation
		if machine, err = explanation.New(d, e.Facts(), result); err == nil {
			kind, _ := d.Find("kind")
			filled, failed := machine.Filled()
			if failed != nil {
				u := d.Unreadable(failed)
				r.unreadable(&u)
			}
			r.Machines = append(r.Machines, Machine{Explanation: machine, Kind: kind, Filled: slices.Clip(filled[:min(len(filled), MaxFilled)])})
			for _, f := range machine.Findings {
				r.add(Problem{Position: f.Position, Severity: f.Severity, Rule: f.Rule, Message: fieldText(f.Error, f.Text()), Remedy: f.Remedy})
				if fix, ok := fixOf(&f); ok && len(r.Fixes) < MaxProblems {
					r.Fixes = append(r.Fixes, fix)
				}
			}
			machine.Forget()
			return
		}
	}
	u := d.Unreadable(err)
	r.unreadable(&u)
}

// fieldText returns a text behind the field that it is about.
func fieldText(err *field.Error, text string) string {
	if err.Field == "" {
		return text
	}
	return err.Field + ": " + text
}

func (r *Result) add(p Problem) { r.Problems = append(r.Problems, p) }

func (r *Result) unreadable(u *manifests.Unreadable) {
	r.add(Problem{Position: u.Position, Severity: validators.Deny, Rule: Unreadable, Message: u.Err.Error()})
}

// evaluatorOf returns the evaluator of documents: those of a file, and those of others. It keeps the last one, because making
// one compiles all policies. The key has the whole texts of the files, because the problems of an evaluator have positions.
func (a *Analyzer) evaluatorOf(ctx context.Context, key uint64, all []manifests.Document) (*evaluation, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.kept.evaluator != nil && a.kept.key == key && a.now().Sub(a.kept.made) < maxAge {
		kept := a.kept
		return &kept, nil
	}
	files := offline.Sort(&manifests.Content{Documents: all})
	e, err := a.newEvaluator(ctx, files)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	made := evaluation{key: key, made: a.now(), files: files, evaluator: e}
	if ctx.Err() == nil { // one that was made by a cancelled context can lack objects
		a.kept = made
	}
	return &made, nil
}

// around returns the objects of a file that are no virtual machines, and those of the other files: each once, the nearest one.
// The key identifies them and the texts of their files.
func around(s *workspace.Snapshot, file *workspace.File) (key uint64, objects []manifests.Document) {
	hash := fnv.New64a()
	seen := map[string]bool{}
	for _, f := range s.Near(file.Name) {
		before := len(objects)
		for _, d := range f.Documents {
			id := identity(d)
			if offline.IsSubject(d.Object.GroupVersionKind()) || f != file && (seen[id] || !matters(d)) {
				continue
			}
			seen[id] = true
			objects = append(objects, d)
		}
		if len(objects) > before {
			fmt.Fprintf(hash, "%q %x\n", f.Name, f.Hash)
		}
	}
	return hash.Sum64(), objects
}

// matters reports whether an object of another file has an effect on virtual machines.
func matters(d manifests.Document) bool {
	kind := d.Object.GroupVersionKind()
	return len(d.Repeated) == 0 && (offline.IsConfiguration(kind) || offline.IsReference(kind) || kind.Kind == apikinds.KubeVirt || kind.Group == "" && kind.Kind == apikinds.Namespace)
}

// templates returns the templates of the folder, which exports name.
func templates(s *workspace.Snapshot, file *workspace.File) (found []manifests.Document) {
	for _, f := range s.Near(file.Name) {
		for _, d := range f.Documents {
			if d.Object.GetKind() == apikinds.VirtualMachineTemplate && len(d.Repeated) == 0 {
				found = append(found, d)
			}
		}
	}
	return found
}

// identity is what makes two objects the same one. There is one KubeVirt of a cluster.
func identity(d manifests.Document) string {
	kind := d.Object.GroupVersionKind().GroupKind().String()
	if d.Object.GetKind() == apikinds.KubeVirt {
		return kind
	}
	return kind + "\x00" + d.Object.GetNamespace() + "\x00" + d.Object.GetName()
}

// linted reports whether lint has the problems of a document.
func linted(d manifests.Document) bool {
	return d.Object != nil && (offline.IsConfiguration(d.Object.GroupVersionKind()) || isSuite(d))
}

func isSuite(d manifests.Document) bool {
	return d.Object.GetKind() == policytest.Kind && d.Object.GroupVersionKind().Group == policyv1alpha1.GroupVersion.Group
}

// lint adds the problems of policies, suites and configuration.
func (a *Analyzer) lint(s *workspace.Snapshot, file *workspace.File, r *Result) error {
	if !slices.ContainsFunc(file.Documents, linted) {
		return nil
	}
	runner, err := a.runner()
	if err != nil {
		return err
	}
	names := []string{file.Name}
	for _, f := range s.Near(file.Name) {
		if f != file && slices.ContainsFunc(f.Documents, isSuite) { // they test the policies
			names = append(names, f.Name)
		}
	}
	for _, p := range runner.Lint(policytest.LoadPolicies(s, names...)) {
		if p.File != file.Name || p.Rule == policytest.LintReadable && p.Field == "" && len(file.Unreadable) > 0 {
			continue
		}
		found := Problem{Position: manifests.Position{Line: p.Line, Column: p.Column}, Severity: validators.Deny, Rule: p.Rule, Message: p.Text()}
		if p.Warning {
			found.Severity = validators.Warn
		}
		if i := slices.IndexFunc(policytest.LintRules(), func(rule policytest.LintRule) bool { return rule.ID == p.Rule }); i >= 0 {
			found.Remedy = policytest.LintRules()[i].Remedy
		}
		r.add(found)
		if fix, ok := misspelt(&p); ok && len(r.Fixes) < MaxProblems {
			r.Fixes = append(r.Fixes, fix)
		}
	}
	return nil
}
