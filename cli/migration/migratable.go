package migration

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/texts"
)

// migratableCommand has the flags of migratable.
type migratableCommand struct {
	program options.Program
	sources options.Sources
	all     bool
	output  string
}

// NewMigratableCommand returns the command migratable.
func NewMigratableCommand(program options.Program) *cobra.Command {
	c := &migratableCommand{program: program, sources: options.NewSources(), output: printers.Table}
	formats := c.printer().Formats()
	cmd := &cobra.Command{
		Use:   "migratable",
		Short: "Show which running virtual machines can migrate live, and where to",
		Long: `Show which running virtual machines can migrate live, and where to.

A virtual machine can migrate if nothing about it forbids that, and another node can take it now. What forbids it: KubeVirt's condition
LiveMigratable, claims that are not ReadWriteMany, files of the node, bindings of the pod network, host devices, memory encryption, SCSI
reservations, a time stamp counter without a fixed frequency, the CPU of the host, and a migration that runs. The other nodes are checked as why does it, for the pod that runs: CPU model and features,
labels, taints, resources, volumes and affinities. A guest with the CPU model of its host moves only to nodes that support that model.

You need permission to list nodes, virtual machine instances and their pods. Notes on standard error name what else you may not read.`,
		Example: program.Examples(`  # Show all running virtual machines
  PROGRAM migratable -A

  # Show the nodes that can take each
  PROGRAM migratable -n shop -o wide`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := options.NoArguments(cmd, args); err != nil {
				return err
			}
			return options.OneOf("output", c.output, formats)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	options.AddClusterFlags(cmd, c.sources.Config, "", "Namespace of the virtual machines")
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "Show the virtual machines of all namespaces")
	cmd.Flags().StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(formats, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": formats})
	return cmd
}

func (c *migratableCommand) printer() *printers.Printer[*migrations.Result] {
	return &printers.Printer[*migrations.Result]{
		Columns: []string{"NAMESPACE", "NAME", "NODE", "MIGRATABLE", "TARGETS", "WHY NOT", "NODES"}, Wide: 1, Namespaced: true, AllNamespaces: c.all, Spacing: printers.Narrow,
		Row: func(r **migrations.Result) []string {
			m := *r
			return cells(m.Namespace, m.Name, m.Node, yesNo(m.Migratable()), strconv.Itoa(m.TargetCount), reason(m), texts.First(m.Targets, shownNodes))
		},
		Document: printers.List[*migrations.Result]("machines"),
	}
}

// shownNodes bounds the nodes of a row.
const shownNodes = 5

func cells(words ...string) []string {
	for i := range words {
		words[i] = texts.OneLine(words[i])
	}
	return words
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (c *migratableCommand) run(ctx context.Context) error {
	s, err := read(ctx, &c.sources, func(current string) string {
		if c.all {
			return ""
		}
		return current
	})
	if err != nil {
		return err
	}
	snapshot, err := placement.NewSnapshot(&s.found.Cluster)
	if err != nil {
		return err
	}
	results := make([]*migrations.Result, 0, len(s.machines))
	for i := range s.machines {
		results = append(results, migrations.Check(&s.machines[i], snapshot, s.facts))
	}
	s.note(c.program.Streams.ErrOut)
	return c.printer().Print(c.program.Streams.Out, c.output, results)
}

// note writes what was not read.
func (s *state) note(w io.Writer) {
	for _, text := range append(s.facts.Warnings, s.found.Unread...) {
		fmt.Fprintln(w, "note: "+texts.OneLine(text))
	}
}
