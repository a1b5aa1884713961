package rollout

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// diffCommand has the flags of diff.
type diffCommand struct {
	program options.Program
	sources options.Sources
}

func newDiffCommand(program options.Program) *cobra.Command {
	c := &diffCommand{program: program, sources: options.NewSources()}
	cmd := &cobra.Command{
		Use:   "diff VM ...",
		Short: "Show how a running virtual machine differs from what is written",
		Long: `Show how a running virtual machine differs from what is written.

Lines with - are what runs, lines with + are what is written. A change that is in progress, and a field at which KubeVirt fails,
are differences too. Each field has a line with when it takes effect. Values of
cloud-init and passwords are shown by their length, and long values are shortened. The exit code is 1 if there is a
difference, as that of kubectl diff.`,
		Example: program.Examples(`  PROGRAM rollout diff vm/db -n shop`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return options.Usagef("name a virtual machine%s", options.SeeHelp(cmd))
			}
			if _, err := names(args); err != nil {
				return options.Usagef("%w%s", err, options.SeeHelp(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return options.CompleteNames(cmd, c.sources.Config, apikinds.VirtualMachines.GroupVersionResource())
		},
	}
	options.AddClusterFlags(cmd, c.sources.Config, "", "Namespace of the virtual machine")
	return cmd
}

func (c *diffCommand) run(ctx context.Context, args []string) error {
	p, err := newPlanner(ctx, c.program, &c.sources)
	if err != nil {
		return err
	}
	all, err := p.named(ctx, args, nil)
	if err != nil {
		return err
	}
	plans := all.plans
	out := bufio.NewWriter(c.program.Streams.Out)
	changes := 0
	for i := range plans {
		for _, note := range plans[i].Notes {
			fmt.Fprintf(c.program.Streams.ErrOut, "note: %s/%s: %s\n", plans[i].Namespace, plans[i].Name, texts.OneLine(note))
		}
		changes += len(plans[i].Changes) + plans[i].Omitted
		plans[i].writeDiff(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	var differs error
	if changes > 0 {
		differs = errors.New("what runs differs from what is written")
	}
	return joined(all.failure(c.program), differs)
}

// writeDiff writes the changes of a plan in the form of a unified diff. A plan without changes has none.
func (p *plan) writeDiff(w io.Writer) {
	if len(p.Changes) == 0 {
		return
	}
	fmt.Fprintf(w, "--- %s/%s (runs)\n+++ %s/%s (written)\n", p.Namespace, p.Name, p.Namespace, p.Name)
	for i := range p.Changes {
		change := &p.Changes[i]
		fmt.Fprintf(w, "@@ %s%s: %s @@\n", change.Field, layer(change), change.Takes)
		if change.Old == change.New { // the value is not at fault
			writeValue(w, " ", change.New)
			continue
		}
		writeValue(w, "-", change.Old)
		writeValue(w, "+", change.New)
	}
	if p.Omitted > 0 {
		fmt.Fprintf(w, "… and %d more\n", p.Omitted)
	}
}

// writeValue writes a value with a sign before each line. Objects and lists are YAML. An absent value has no line.
func writeValue(w io.Writer, sign, value string) {
	if value == "" {
		return
	}
	text := value
	if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		var decoded any
		if json.Unmarshal([]byte(value), &decoded) == nil { // a value that is shortened is no JSON
			if data, err := yaml.Marshal(decoded); err == nil {
				text = string(data)
			}
		}
	}
	for line := range strings.Lines(text) {
		words := strings.TrimLeft(line, " ")
		fmt.Fprintln(w, sign+line[:len(line)-len(words)]+texts.OneLine(words))
	}
}
