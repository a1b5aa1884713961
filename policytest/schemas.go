package policytest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// schemaSets has the schemas of each minor version of KubeVirt that a suite uses. It is safe for concurrent use.
type schemaSets struct {
	mutex sync.Mutex
	known map[string]*offline.Schemas
}

// of returns the schemas for a version. The notes say that those of another version are used.
func (s *schemaSets) of(version string) (found *offline.Schemas, notes []string) {
	minor, known := schemas.MinorOf(version)
	if !known {
		minor = schemas.Newest()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.known[minor] == nil {
		if s.known == nil {
			s.known = map[string]*offline.Schemas{}
		}
		s.known[minor], _ = offline.NewSchemas(minor)
	}
	if version != "" && !known {
		notes = append(notes, fmt.Sprintf("the schemas of KubeVirt %s are used: those of %.40s are not known", minor, version))
	}
	return s.known[minor], notes
}

// validate returns what the schemas of the kinds find wrong in the objects of a situation, and with Options.Strict, the
// objects that are unknown. A wrong field is not what a case is about: a cluster never evaluates such an object.
func (r *runner) validate(ctx context.Context, s *Situation, checks bool, result *evaluator.Result) (problems []Problem, notes []string, err error) {
	known, notes := r.schemas.of(s.Facts.KubeVirtVersion)
	for _, d := range s.around {
		found, err := r.validateAround(ctx, known, d)
		if err != nil {
			return nil, nil, err
		}
		problems = append(problems, found...)
	}
	if s.Operation != remove && !s.unchanged() {
		found, err := r.validateSubject(ctx, known, s, checks, result)
		if err != nil {
			return nil, nil, err
		}
		problems = append(problems, found...)
	}
	if r.options.Strict {
		unknown, err := s.unknown(ctx, result)
		if err != nil {
			return nil, nil, err
		}
		problems = append(problems, unknown...)
	}
	return problems, notes, nil
}

// validateSubject validates the object of a request, and the fields of the old one.
func (r *runner) validateSubject(ctx context.Context, known *offline.Schemas, s *Situation, checks bool, result *evaluator.Result) ([]Problem, error) {
	own := &evaluator.Result{Verdict: result.Verdict, Findings: slices.Clone(result.Findings)}
	if !checks { // a misspelt field in the virtual machine of a template fails the case
		own.Findings = slices.DeleteFunc(own.Findings, func(f validators.Finding) bool { return f.Rule == templates.RuleUnknownField })
	}
	written := offline.Written{Object: s.Object.Object, Namespace: s.Namespace.Name, UnknownFields: r.options.UnknownFields}
	if s.Old == nil {
		err := known.Validate(ctx, written, own)
		return invalidFields(s.document, own.Findings), err
	}
	written.Old = s.Old.Object
	if err := known.Validate(ctx, written, own); err != nil {
		return nil, err
	}
	problems := invalidFields(s.document, own.Findings)
	before := &evaluator.Result{}
	err := known.Validate(ctx, offline.Written{Object: s.Old.Object, Namespace: s.Namespace.Name, UnknownFields: r.options.UnknownFields}, before)
	for _, p := range invalidFields(s.oldDocument, onlyUnknownFields(before.Findings)) { // its values are stored
		if !slices.Contains(problems, p) {
			problems = append(problems, p)
		}
	}
	return problems, err
}

// validateAround validates an object of the cluster, each once.
func (r *runner) validateAround(ctx context.Context, known *offline.Schemas, d manifests.Document) ([]Problem, error) {
	data, err := json.Marshal(d.Object.Object)
	if err != nil {
		return nil, err
	}
	key := validated{known, sha256.Sum256(data)}
	findings, done := r.validated[key]
	if !done {
		result := &evaluator.Result{}
		if err := known.Validate(ctx, offline.Written{Object: d.Object.Object, Namespace: defaultNamespace, UnknownFields: r.options.UnknownFields}, result); err != nil {
			return nil, err
		}
		if findings = result.Findings; d.Object.GetKind() == apikinds.VirtualMachineInstance { // suites write only a part of one that runs
			findings = onlyUnknownFields(findings)
		}
		r.validated[key] = findings
	}
	problems := invalidFields(d, findings)
	if typed := typeOf(d.Object.GroupVersionKind().GroupKind()); typed != nil && len(findings) == 0 { // for kinds without a schema
		unknown, _ := decodeKnown(d, typed) // reading the situation reports the error
		for _, p := range unknown {
			p.Warning = r.options.UnknownFields == validators.Warn
			problems = append(problems, p)
		}
	}
	return problems, nil
}

// validated is an object that was validated with the schemas of a version.
type validated struct {
	schemas *offline.Schemas
	object  [sha256.Size]byte
}

func onlyUnknownFields(findings []validators.Finding) []validators.Finding {
	return slices.DeleteFunc(findings, func(f validators.Finding) bool { return f.Rule != validators.RuleUnknownField })
}

// invalidFields returns the findings of schemas as problems of a document.
func invalidFields(d manifests.Document, findings []validators.Finding) (problems []Problem) {
	for i := range findings {
		f := &findings[i]
		if f.Rule != validators.RuleSchema && f.Rule != validators.RuleUnknownField {
			continue
		}
		p := at(d, f.Error.Field, fmt.Sprintf("%s [virtward/%s]", f.Text(), f.Rule))
		p.Warning = f.Severity != validators.Deny
		problems = append(problems, p)
	}
	return problems
}

// unknown returns the objects that the virtual machine of a request refers to and that the suite does not have.
func (s *Situation) unknown(ctx context.Context, result *evaluator.Result) (problems []Problem, err error) {
	objects, err := s.references()
	if err != nil {
		return nil, err
	}
	for _, text := range offline.Unknown(ctx, references.Given{Memory: objects}, result) {
		field, what, _ := strings.Cut(text, ": ")
		problems = append(problems, at(s.document, field, what+" is not among the objects"))
	}
	return problems, nil
}
