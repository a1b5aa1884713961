package explain

import (
	"context"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/subjects"
	"github.com/virtward/virtward/limits/parallel"
	"github.com/virtward/virtward/manifests"
)

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
func explainAll(ctx context.Context, in *subjects.Subjects, format *explanation.Format, progress *options.Progress) (*results, error) {
	count := len(in.Documents)
	all, texts, failed := make([]*explanation.Explanation, count), make([][]byte, count), make([]error, count)
	only := count+len(in.Unreadable) == 1
	one := func(i int, first bool) error {
		d := in.Documents[i]
		defer progress.Step("explained", count)
		all[i], failed[i] = in.Explain(ctx, d)
		if failed[i] == nil && format != nil {
			texts[i], failed[i] = format.Text(all[i], first, only)
		}
		if failed[i] != nil {
			all[i], texts[i] = nil, nil
			return ctx.Err()
		}
		all[i].Forget()
		in.Documents[i] = manifests.Document{}
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
	done := &results{}
	for i := range all {
		if all[i] != nil {
			done.explanations, done.texts = append(done.explanations, all[i]), append(done.texts, texts[i])
			continue
		}
		in.Failed(in.Documents[i], failed[i])
	}
	done.unreadable = explanation.Unreadables(in.Unreadable)
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
