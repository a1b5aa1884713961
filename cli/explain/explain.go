package explain

import (
	"context"
	"fmt"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/parallel"
)

// inputs is all that explain evaluates.
type inputs struct {
	// subjects are the virtual machines.
	subjects  []manifests.Document
	evaluator *offline.Evaluator
	// notes name skipped documents, and warnings unknown fields of references.
	notes, warnings []string
}

// results are the explanations, in the order of their subjects. The texts have what the explanations forget.
type results struct {
	explanations []*explanation.Explanation
	// texts are the texts of the format; nil without one.
	texts [][]byte
}

// explainAll evaluates the subjects in parallel, and writes each in the format. It frees the memory of each subject
// then. It returns the error of the first subject that fails.
func explainAll(ctx context.Context, in *inputs, format *explanation.Format, progress *options.Progress) (*results, error) {
	count := len(in.subjects)
	done := &results{explanations: make([]*explanation.Explanation, count), texts: make([][]byte, count)}
	err := parallel.Each(ctx, count, func(i int) (err error) {
		s := in.subjects[i]
		defer progress.Step("explained", count)
		if done.explanations[i], err = explain(ctx, in.evaluator, s); err == nil && format != nil {
			done.texts[i], err = format.Text(done.explanations[i], i == 0, count == 1)
		}
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", s.Location(), s.Object.GetKind(), s.Object.GetName(), err)
		}
		done.explanations[i].Forget()
		in.subjects[i] = manifests.Document{}
		return nil
	})
	progress.End()
	return done, err
}

func explain(ctx context.Context, w *offline.Evaluator, s manifests.Document) (*explanation.Explanation, error) {
	result, err := w.EvaluateMade(ctx, s)
	if err != nil {
		return nil, err
	}
	return explanation.New(s, w.Facts(), result)
}
