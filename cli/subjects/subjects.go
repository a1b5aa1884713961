package subjects

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/manifests"
)

// Subjects is all that is evaluated.
type Subjects struct {
	// Documents are the virtual machines, and the objects that are validated like them.
	Documents []manifests.Document
	Evaluator *offline.Evaluator
	// Unreadable are the documents that cannot be read.
	Unreadable []manifests.Unreadable
	// Notes name skipped documents, and Warnings unknown fields of references.
	Notes, Warnings []string
	// Pod renders the pod of a virtual machine, and names what it could not read; nil if pods are not explained.
	Pod func(context.Context, *offline.Evaluator, *evaluator.Result) (pod *launcher.Result, unread []string, err error)
}

// New returns the subjects of files, and named ones beside them, for an evaluator of the same files.
func New(ctx context.Context, files *offline.Files, named []manifests.Document, e *offline.Evaluator) *Subjects {
	s := &Subjects{
		Documents: slices.Concat(files.Subjects, named), Evaluator: e, Unreadable: slices.Concat(files.Unreadable, e.Unreadable),
		Notes: slices.Concat(files.Notes, e.UnusedConfigMaps()), Warnings: files.Warnings,
	}
	beside := files.Beside
	if len(s.Documents) > 0 { // valid ones are part of the explained virtual machines
		beside = e.Wrong(ctx, beside)
	}
	s.Documents = append(s.Documents, beside...)
	return s
}

// Explain evaluates a subject.
func (s *Subjects) Explain(ctx context.Context, d manifests.Document) (*explanation.Explanation, error) {
	result, err := s.Evaluator.EvaluateMade(ctx, d)
	if err != nil {
		return nil, err
	}
	e, err := explanation.New(d, s.Evaluator.Facts(), result)
	if err != nil {
		return nil, err
	}
	e.Notes = append(e.Notes, s.Evaluator.Notes...)
	e.Unknown = s.Evaluator.Unknown(ctx, result)
	if s.Pod != nil && result.Verdict != nil {
		e.AddPod(s.Pod(ctx, s.Evaluator, result))
	}
	return e, nil
}

// Failed adds a subject that cannot be evaluated to the unreadable documents.
func (s *Subjects) Failed(d manifests.Document, err error) {
	s.Unreadable = append(s.Unreadable, d.Unreadable(fmt.Errorf("%s %s: %w", d.Object.GetKind(), d.Object.GetName(), err)))
}
