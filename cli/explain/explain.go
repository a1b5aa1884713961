package explain

import (
	"context"
	"fmt"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/limits/parallel"
	"github.com/virtward/virtward/manifests"
)

// inputs is all that explain evaluates.
type inputs struct {
	// subjects are the virtual machines.
	subjects  []manifests.Document
	evaluator *offline.Evaluator
	// unreadable are the documents that cannot be read.
	unreadable []manifests.Unreadable
	// notes name skipped documents, and warnings unknown fields of references.
	notes, warnings []string
	// pods render the pods of the virtual machines; nil if they are not shown.
	pods *pods
}

// results are the explanations, in the order of their subjects, and what cannot be read or evaluated. The texts have what
// the explanations forget.
type results struct {
	explanations []*explanation.Explanation
	unreadable   []explanation.Unreadable
	// texts are the texts of the format; nil without one.
	texts [][]byte
}

// explainAll evaluates the subjects in parallel, and writes each in the format. It frees the memory of each subject
// then. A subject that cannot be evaluated leaves the others.
func explainAll(ctx context.Context, in *inputs, format *explanation.Format, progress *options.Progress) (*results, error) {
	count := len(in.subjects)
	all, texts, failed := make([]*explanation.Explanation, count), make([][]byte, count), make([]error, count)
	only := count+len(in.unreadable) == 1
	one := func(i int, first bool) error {
		s := in.subjects[i]
		defer progress.Step("explained", count)
		all[i], failed[i] = explain(ctx, in, s)
		if failed[i] == nil && format != nil {
			texts[i], failed[i] = format.Text(all[i], first, only)
		}
		if failed[i] != nil {
			all[i], texts[i] = nil, nil
			return ctx.Err()
		}
		all[i].Forget()
		in.subjects[i] = manifests.Document{}
		return nil
	}
	begin := 0
	for ; begin < count && (begin == 0 || all[begin-1] == nil); begin++ { // the first one has the warnings about the cluster
		if err := one(begin, true); err != nil {
			return nil, err
		}
	}
	err := parallel.Each(ctx, count-begin, func(i int) error { return one(begin+i, false) })
	progress.End()
	if err != nil {
		return nil, err
	}
	done, unreadable := &results{}, in.unreadable
	for i := range all {
		if all[i] != nil {
			done.explanations, done.texts = append(done.explanations, all[i]), append(done.texts, texts[i])
			continue
		}
		s := in.subjects[i]
		err := fmt.Errorf("%s %s: %w", s.Object.GetKind(), s.Object.GetName(), failed[i])
		unreadable = append(unreadable, s.Unreadable(err))
	}
	done.unreadable = explanation.Unreadables(unreadable)
	return done, done.add(format, only)
}

// add adds the texts of what cannot be read.
func (r *results) add(format *explanation.Format, only bool) error {
	if format == nil {
		return nil
	}
	for _, u := range r.unreadable {
		text, err := format.Unreadable(u, only)
		if err != nil {
			return err
		}
		r.texts = append(r.texts, text)
	}
	return nil
}

func explain(ctx context.Context, in *inputs, s manifests.Document) (*explanation.Explanation, error) {
	w := in.evaluator
	result, err := w.EvaluateMade(ctx, s)
	if err != nil {
		return nil, err
	}
	e, err := explanation.New(s, w.Facts(), result)
	if err != nil {
		return nil, err
	}
	e.Unknown = w.Unknown(ctx, result)
	if in.pods != nil && result.Verdict != nil {
		e.AddPod(in.pods.render(ctx, w, result))
	}
	return e, nil
}
