package explain

import (
	"context"
	"slices"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

func isTemplate(d manifests.Document) bool {
	return d.Object.GroupVersionKind().GroupKind() == evaluator.Template
}

// gather reads the files, and the cluster if the flags select it.
func (c *command) gather(ctx context.Context, args []string) (*inputs, error) {
	stdin := options.Once(c.program.Streams.In)
	values, err := c.parameters.Values()
	if err != nil {
		return nil, err
	}
	files, err := c.sources.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	in := &inputs{warnings: files.Warnings}
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
	if in.evaluator, err = c.sources.NewEvaluator(ctx, files, cluster, facts); err != nil {
		return nil, err
	}
	in.subjects, in.notes = slices.Concat(files.Subjects, named), files.Notes
	if c.output == podOutput {
		in.pods = &pods{cluster: cluster}
	}
	if in.evaluator.Values = values; len(values) > 0 && !slices.ContainsFunc(in.subjects, isTemplate) {
		return nil, options.Usagef("-p gives values to a VirtualMachineTemplate, and there is none")
	}
	in.unreadable = slices.Concat(files.Unreadable, in.evaluator.Unreadable)
	beside := files.Beside
	if len(in.subjects) > 0 { // valid ones are part of the explained virtual machines
		beside = in.evaluator.Wrong(ctx, beside)
	}
	in.subjects = append(in.subjects, beside...)
	facts.Notes = append(facts.Notes, in.evaluator.Notes...)
	in.notes = append(in.notes, in.evaluator.UnusedConfigMaps()...)
	return in, nil
}
