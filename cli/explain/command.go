package explain

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// command has the flags of explain.
type command struct {
	program options.Program
	sources options.Sources
	output  string
}

// outputs are the values of --output.
func outputs() []string {
	return []string{options.OutputYAML, options.OutputTable, options.OutputJSON, options.OutputJUnit, options.OutputSARIF}
}

// forPeople reports whether an output has all notes and warnings in itself.
func forPeople(output string) bool {
	return output == options.OutputYAML || output == options.OutputTable
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, sources: options.NewSources(), output: options.OutputYAML}
	cmd := &cobra.Command{
		Use:   "explain (TYPE/NAME ... | -f FILE ...)",
		Short: "Show how virtual machines will really run, who set which field, and what is wrong",
		Long: `Show how virtual machines will really run, who set which field, and what is wrong.

A VirtualMachine or VirtualMachineInstance says little of what will run. explain expands its instancetype and
preference, completes it for the hypervisor and the architecture, and shows the result. By default that is
YAML in which a comment behind each value names the layer it comes from; values without one stand in the object
as it is written in a file, or stored in the cluster.

With -f, nothing but files is read: KubeVirt's own defaults are assumed for the cluster unless --kubevirt or
a KubeVirt object among the files says otherwise, and instancetypes, preferences, ControllerRevisions, DataSources,
DataVolumes, PersistentVolumeClaims, VolumeSnapshots and presets are taken from the same files and from
--instancetype and --preference. With --from-cluster, the cluster is asked for what the files do not hold.
TYPE/NAME explains an object of the cluster: vm/NAME or vmi/NAME.

The result is checked by the rules that the webhooks in the cluster check it by. Findings, warnings and notes
stand above each virtual machine, and findings also at the fields that they are about; with -o json they are in
the document. -o junit and -o sarif write nothing but findings, for CI systems: a test for each virtual machine,
and annotations at the lines of the files. For whoever watches, all is told on standard error then.

RuleSettings among the files, or in the cluster if it is asked, set the severities of the rules,
VirtualMachineDefaults the defaults of the site, and VirtualMachinePolicies evaluate; so that those that select
namespaces can be applied, Namespaces among the files are read too, and ConfigMaps for the parameters of policies.
Policies that read who asks for what cannot be asked here; they are named.

It exits with 1 if a virtual machine is rejected. Warnings do not count.`,
		Example: program.Examples(`  # How will these virtual machines run?
  PROGRAM explain -f vm.yaml

  # The same on Microsoft's hypervisor, on arm64
  PROGRAM explain -f vm.yaml --hypervisor mshv --arch arm64

  # With a cluster's configuration and instancetypes, saved in files
  PROGRAM explain -f vm.yaml --kubevirt kubevirt.yaml --instancetype u1.yaml --preference fedora.yaml -o table

  # As this cluster would run a file that is not applied yet
  PROGRAM explain -f vm.yaml --from-cluster

  # A virtual machine of the cluster, for another program
  PROGRAM explain vm/db -n shop -o json

  # All virtual machines of a repository, as annotations of a pull request
  PROGRAM explain -R -f manifests -o sarif > virtward.sarif`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	options.AddClusterFlags(cmd, c.sources.Config, ", for TYPE/NAME and --from-cluster", "Namespace of TYPE/NAME, and of objects in files that name none")
	c.sources.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.sources.Filenames, "filename", "f", nil, "Files and directories with the objects to explain; - is standard input")
	flags.StringSliceVar(&c.sources.Instancetypes, "instancetype", nil, "Files with instancetypes, or other objects that virtual machines refer to")
	flags.StringSliceVar(&c.sources.Preferences, "preference", nil, "Files with preferences, or other objects that virtual machines refer to")
	flags.BoolVar(&c.sources.FromCluster, "from-cluster", false, "Ask the cluster for its configuration and for objects that the files do not hold")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return c.completeNames(cmd.Context(), args, word)
	}
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	help := ": see " + cmd.CommandPath() + " --help"
	switch {
	case len(args) == 0 && len(c.sources.Filenames) == 0:
		return options.Usagef("name a virtual machine, or a file with -f%s", help)
	case len(args) > 0 && len(c.sources.Filenames) > 0:
		return options.Usagef("name virtual machines or files, not both%s", help)
	}
	if err := options.OneOf("output", c.output, outputs()); err != nil {
		return err
	}
	if err := c.sources.ValidateFacts(); err != nil {
		return err
	}
	if _, err := namedTargets(args); err != nil {
		return options.Usagef("%w%s", err, help)
	}
	return nil
}

// run reads, evaluates and prints. Rejections are an error, after everything was printed.
func (c *command) run(ctx context.Context, args []string) error {
	in, err := c.gather(ctx, args)
	if err != nil {
		return err
	}
	format := c.format()
	done, err := explainAll(ctx, in, format, options.NewProgress(c.program.Streams.ErrOut))
	if err != nil {
		return err
	}
	c.complain(in, done.explanations)
	if err := c.write(in, done, format); err != nil {
		return err
	}
	return rejectionsIn(done.explanations)
}

// format is that of an output in which each virtual machine has a text of its own; nil for others.
func (c *command) format() *explanation.Format {
	formats := map[string]func() explanation.Format{options.OutputYAML: explanation.YAML, options.OutputTable: explanation.Tables, options.OutputJSON: explanation.JSON}
	if of := formats[c.output]; of != nil {
		format := of()
		return &format
	}
	return nil
}

func (c *command) write(in *inputs, done *results, format *explanation.Format) error {
	out := bufio.NewWriter(c.program.Streams.Out)
	var err error
	switch c.output {
	case options.OutputJUnit:
		err = explanation.WriteJUnit(out, done.explanations)
	case options.OutputSARIF:
		err = explanation.WriteSARIF(out, done.explanations, in.evaluator.Rules(), c.program.Version)
	default:
		err = format.Write(out, done.texts)
	}
	return errors.Join(err, out.Flush())
}

// complain tells on standard error what no document says: what was passed over, and what is wrong with the
// objects referred to. Some outputs are for programs, so with them people are told here of everything, each thing
// once.
func (c *command) complain(in *inputs, explanations []*explanation.Explanation) {
	told := map[string]bool{}
	tell := func(kind, text string) {
		line := kind + ": " + texts.OneLine(text)
		if !told[line] {
			told[line] = true
			fmt.Fprintln(c.program.Streams.ErrOut, line)
		}
	}
	for _, n := range in.notes {
		tell("note", n)
	}
	for _, w := range in.warnings {
		tell("warning", w)
	}
	if forPeople(c.output) {
		return
	}
	for _, e := range explanations {
		for _, n := range e.Notes {
			tell("note", n)
		}
		for _, w := range e.FactsWarnings() {
			tell("warning", w)
		}
		about := e.Source + ": " + e.Object.String() + ": "
		for _, w := range e.OwnWarnings() {
			tell("warning", about+w)
		}
		for _, f := range e.Findings {
			tell(f.Kind(), about+f.String())
		}
	}
}

// rejectionsIn is the error that sums up rejections, which were told already; nil if there are none.
func rejectionsIn(explanations []*explanation.Explanation) error {
	var rejected []*explanation.Explanation
	for _, e := range explanations {
		if !e.Allowed {
			rejected = append(rejected, e)
		}
	}
	switch len(rejected) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %s", rejected[0].Source, rejected[0].Summary())
	}
	return fmt.Errorf("%d of %d virtual machines are rejected, the first one %s of %s", len(rejected), len(explanations), rejected[0].Object, rejected[0].Source)
}
