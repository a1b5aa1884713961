package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/texts"
)

// drainCommand has the flags of drain-check.
type drainCommand struct {
	program options.Program
	sources options.Sources
	output  string
}

// drain is what drain-check prints.
type drain struct {
	Node string `json:"node"`
	// Machines are those of the node, in the order in which they move.
	Machines []migrations.Moved `json:"machines"`
	// Stranded is how many have no other node.
	Stranded int `json:"stranded"`
	// CommonCPUModels are those that all other nodes support, and HighestCPUModel is the newest of them.
	CommonCPUModels []string `json:"commonCPUModels"`
	HighestCPUModel string   `json:"highestCPUModel,omitempty"`
}

// NewDrainCommand returns the command drain-check.
func NewDrainCommand(program options.Program) *cobra.Command {
	c := &drainCommand{program: program, sources: options.NewSources(), output: printers.Table}
	c.sources.Config.Namespace = nil // a node has virtual machines of all namespaces
	outputs := []string{printers.Table, printers.JSON, printers.YAML}
	cmd := &cobra.Command{
		Use:   "drain-check node/NAME",
		Short: "Show which virtual machines a drain of a node would strand",
		Long: `Show which virtual machines a drain of a node would strand.

The virtual machines of the node are moved one after the other, by namespace and name, to the first node that can take each. So a node that
has room for one of two takes only the first. The columns:

  EVICTION  the eviction strategy: with None, KubeVirt shuts the guest down instead of moving it
  TO        the node that takes it; empty if none does
  WHY NOT   why it cannot move: see migratable. If the others took the room, it says so

The last line has the newest CPU model that all other nodes support. A guest with this model can move to each of them.

You need permission to list nodes, and virtual machine instances and pods of all namespaces. The exit code is 1 if a virtual machine would
be stranded.`,
		Example: program.Examples(`  # Show what a drain of a node would do
  PROGRAM drain-check node/worker-3`),
		Args: func(cmd *cobra.Command, args []string) error {
			if _, err := nodeOf(args); err != nil {
				return options.Usagef("%w%s", err, options.SeeHelp(cmd))
			}
			return options.OneOf("output", c.output, outputs)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	options.AddClusterFlags(cmd, c.sources.Config, "", "")
	cmd.Flags().StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

// nodeOf reads node/NAME, or NAME.
func nodeOf(args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("name one node, as node/NAME")
	}
	name := strings.TrimPrefix(strings.TrimPrefix(args[0], "nodes/"), "node/")
	if name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%q: name one node, as node/NAME", args[0])
	}
	return name, nil
}

func (c *drainCommand) run(ctx context.Context, args []string) error {
	name, err := nodeOf(args)
	if err != nil {
		return err
	}
	s, err := read(ctx, &c.sources, func(string) string { return "" })
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(s.found.Nodes, func(n *corev1.Node) bool { return n.Name == name }) {
		return fmt.Errorf("there is no node %s", name)
	}
	moved, err := migrations.Drain(name, s.machines, &s.found.Cluster, s.facts)
	if err != nil {
		return err
	}
	var labels []map[string]string
	for _, n := range s.found.Cluster.Without(name).Nodes {
		labels = append(labels, n.Labels)
	}
	d := &drain{Node: name, Machines: moved, Stranded: len(migrations.Stranded(moved)), CommonCPUModels: append([]string{}, migrations.CommonModels(labels)...)}
	d.HighestCPUModel = migrations.Highest(d.CommonCPUModels)
	s.note(c.program.Streams.ErrOut)
	if c.output == printers.Table {
		err = d.write(c.program.Streams.Out)
	} else {
		err = printers.Document(c.program.Streams.Out, c.output, d)
	}
	if err == nil && d.Stranded > 0 {
		err = fmt.Errorf("a drain of %s would strand %s", name, texts.Count(d.Stranded, "virtual machine", "virtual machines"))
	}
	return err
}

// write writes a row for each virtual machine.
func (d *drain) write(w io.Writer) error {
	rows := [][]string{{"NAMESPACE", "NAME", "EVICTION", "TO", "WHY NOT"}}
	for i := range d.Machines {
		m := &d.Machines[i]
		why := reason(&m.Result)
		if m.Displaced {
			why = texts.First(m.Targets, shownNodes) + ": no room after the virtual machines above"
		}
		rows = append(rows, cells(m.Namespace, m.Name, string(m.EvictionStrategy), m.To, why))
	}
	if err := printers.Rows(w, printers.Narrow, rows); err != nil {
		return err
	}
	model := d.HighestCPUModel
	if model == "" {
		model = "none"
	}
	_, err := fmt.Fprintf(w, "\nnewest CPU model of all other nodes: %s\n", texts.OneLine(model))
	return err
}
