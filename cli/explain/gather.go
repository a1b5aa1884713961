package explain

import (
	"context"
	"slices"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/subjects"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

func isTemplate(d manifests.Document) bool {
	return d.Object.GroupVersionKind().GroupKind() == evaluator.Template
}

// gather reads the files, and the cluster if the flags select it.
func (c *command) gather(ctx context.Context, args []string) (*subjects.Subjects, error) {
	stdin := options.Once(c.program.Streams.In)
	values, err := c.parameters.Values()
	if err != nil {
		return nil, err
	}
	files, err := c.sources.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	var named []manifests.Document
	var cluster *offline.Cluster
	if c.sources.FromCluster || len(args) > 0 {
		if cluster, err = options.Connect(c.sources.Config); err != nil {
			return nil, err
		}
		if named, err = c.readTargets(ctx, cluster, args); err != nil {
			return nil, err
		}
	}
	if len(files.Subjects)+len(named)+len(files.Beside)+len(files.Unreadable) == 0 {
		note, err := c.sources.NoObjects("explain")
		if err != nil {
			return nil, err
		}
		files.Notes = append(files.Notes, note)
	}
	facts, err := c.sources.ReadFacts(ctx, files, cluster, stdin)
	if err != nil {
		return nil, err
	}
	if facts, err = c.sources.Assume(facts); err != nil {
		return nil, err
	}
	e, err := c.sources.NewEvaluator(ctx, files, cluster, facts)
	if err != nil {
		return nil, err
	}
	e.Values = values
	in := subjects.New(ctx, files, named, e)
	if c.output == podOutput {
		in.Pod = (&pods{cluster: cluster}).render
	}
	if len(values) > 0 && !slices.ContainsFunc(in.Documents, isTemplate) {
		return nil, options.Usagef("-p gives values to a VirtualMachineTemplate, and there is none")
	}
	return in, nil
}
