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
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/subjects"
	"github.com/virtward/virtward/texts"
)

// command has the flags of explain.
type command struct {
	program options.Program
	sources options.Sources
	// parameters give values to VirtualMachineTemplates.
	parameters options.Parameters
	output     string
	// allNamespaces lists the objects of a type in all namespaces.
	allNamespaces bool
}

// outputs are the values of --output.
func outputs() []string {
	return []string{printers.YAML, printers.Table, printers.JSON, printers.JUnit, printers.SARIF, printers.GitHub, podOutput}
}

// podOutput is the output with the pod that KubeVirt makes of each virtual machine.
const podOutput = "pod"

// forPeople reports whether an output has all notes and warnings.
func forPeople(output string) bool {
	return output == printers.YAML || output == printers.Table || output == podOutput
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, sources: options.NewSources(), output: printers.YAML}
	cmd := &cobra.Command{
		Use:   "explain (TYPE/NAME ... | TYPE -l SELECTOR | -f FILE ... | -k DIR)",
		Short: "Show how virtual machines will run, the source of each field, and what is wrong",
		Long: `Show how virtual machines will run, the source of each field, and what is wrong.

explain expands the instancetype and the preference, completes the fields for the hypervisor and the architecture, and
validates the result as the webhooks do. By default, the output is YAML: a comment after a value names the layer that set
it. Values without a comment are those of the file, or of the object in the cluster.

With -f, explain reads only files. It assumes KubeVirt's defaults, unless --kubevirt or the files have a KubeVirt object.
Objects that virtual machines refer to must be in the files, or in those of --instancetype and --preference: instancetypes,
preferences, ControllerRevisions, DataSources, DataVolumes, PersistentVolumeClaims, VolumeSnapshots and presets. With
--from-cluster, explain reads what the files lack from the cluster. TYPE/NAME explains an object of the cluster. TYPE with -l
or -A explains all objects of a type with these labels, or of all namespaces.

-f also reads http and https, up to 16 MiB in 30 seconds. -k renders a kustomization as kubectl does. It can read remote
resources.

RuleSettings, VirtualMachineDefaults, VirtualMachinePolicies and their exceptions apply too, from the files and from the cluster
if it is read. For them, the files can have Namespaces, ConfigMaps with parameters, and Nodes. Policies that read the request are
skipped, and a note names them.

Of a VirtualMachineTemplate, explain shows the virtual machine that it makes with its defaults, or with the values of -p. What
depends on a required parameter without a value is not validated. Policies for VirtualMachines apply to that virtual machine,
and those for VirtualMachineTemplates to the template.

The outputs yaml, table and json show findings, warnings and notes with each virtual machine. The outputs junit, sarif and
github are for CI systems and have only the findings; warnings and notes are on standard error. The output pod shows the pod that
KubeVirt makes of the virtual machine: its requests, the memory that KubeVirt adds, and what it demands of a node. If the cluster is
read, so are the claims, the quotas, the labels and the networks of the namespace.

With --strict, the exit code is 1 if an object that a virtual machine refers to is unknown. Without a cluster, that is an object
which is not in the files.

The exit code is 1 if a virtual machine is rejected, or a document cannot be read. All others are explained then. Warnings do
not change it.`,
		Example: program.Examples(`  # Show how the virtual machines of a file will run
  PROGRAM explain -f vm.yaml

  # The same on Microsoft's hypervisor, on arm64
  PROGRAM explain -f vm.yaml --hypervisor mshv --arch arm64

  # Use the configuration and the instancetypes of a cluster, from files
  PROGRAM explain -f vm.yaml --kubevirt kubevirt.yaml --instancetype u1.yaml --preference fedora.yaml -o table

  # Show what the pod requests, and which nodes it demands
  PROGRAM explain -f vm.yaml -o pod

  # Show how this cluster will run a file before you apply it
  PROGRAM explain -f vm.yaml --from-cluster

  # Show a virtual machine of the cluster as JSON
  PROGRAM explain vm/db -n shop -o json

  # Show the virtual machines of the cluster with a label
  PROGRAM explain vm -l app=db -n shop -o table

  # Explain what a kustomization renders
  PROGRAM explain -k overlays/production

  # Show the virtual machine that a template makes
  PROGRAM explain -f template.yaml -p NAME=web

  # Annotate a pull request with the findings in all manifests
  PROGRAM explain -R -f manifests -o sarif > virtward.sarif`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	c.sources.AddFileFlags(cmd, "the objects to explain")
	c.sources.AddSelectionFlags(cmd)
	options.AddClusterFlags(cmd, c.sources.Config, ", for TYPE/NAME and --from-cluster", "Namespace of TYPE/NAME, and of objects in files that name none")
	c.sources.AddFactsFlags(cmd)
	c.parameters.AddFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&c.allNamespaces, "all-namespaces", "A", false, "Explain the objects of TYPE in all namespaces")
	flags.StringSliceVar(&c.sources.Instancetypes, "instancetype", nil, "Files with instancetypes, or other objects that virtual machines refer to")
	flags.StringSliceVar(&c.sources.Preferences, "preference", nil, "Files with preferences, or other objects that virtual machines refer to")
	flags.BoolVar(&c.sources.FromCluster, "from-cluster", false, "Read the configuration, and objects that the files lack, from the cluster")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return c.completeNames(cmd.Context(), args, word)
	}
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	if err := options.NamesOrFiles(cmd, args, c.sources.HasFiles()); err != nil {
		return err
	}
	if err := c.sources.ValidateFiles(cmd); err != nil {
		return err
	}
	if err := options.OneOf("output", c.output, outputs()); err != nil {
		return err
	}
	if err := c.sources.ValidateFacts(); err != nil {
		return err
	}
	if typed, err := c.listedType(args); err != nil || typed != nil {
		return err
	}
	if c.allNamespaces {
		return options.Usagef("--all-namespaces requires a TYPE without a name%s", help)
	}
	if c.sources.Selector != "" && len(args) > 0 {
		return options.Usagef("--selector requires a TYPE without a name, or -f%s", help)
	}
	if _, err := namedTargets(args); err != nil {
		return options.Usagef("%w%s", err, help)
	}
	return nil
}

// run reads, evaluates and prints. It returns an error if an object is rejected, after it has printed everything.
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
	c.warn(in, done)
	if err := c.write(in, done, format); err != nil {
		return err
	}
	var unknown []string
	for _, e := range done.explanations {
		if e == nil {
			continue
		}
		for _, u := range e.Unknown {
			unknown = append(unknown, e.Source+": "+e.Object.String()+": "+u)
		}
	}
	return options.JoinErrors(rejectionsIn(done.explanations), c.sources.UnknownError(unknown), explanation.UnreadableError(done.unreadable))
}

// format returns the format of an output with one text for each virtual machine; nil for other outputs.
func (c *command) format() *explanation.Format {
	formats := map[string]func() explanation.Format{printers.YAML: explanation.YAML, printers.Table: explanation.Tables, printers.JSON: explanation.JSON, podOutput: explanation.Pods}
	if of := formats[c.output]; of != nil {
		format := of()
		return &format
	}
	return nil
}

func (c *command) write(in *subjects.Subjects, done *results, format *explanation.Format) error {
	out := bufio.NewWriter(c.program.Streams.Out)
	var err error
	switch c.output {
	case printers.JUnit:
		err = explanation.WriteJUnit(out, done.explanations, done.unreadable)
	case printers.SARIF:
		err = explanation.WriteSARIF(out, done.explanations, done.unreadable, in.Evaluator.Rules(), c.program.Version)
	case printers.GitHub:
		err = explanation.WriteGitHub(out, done.explanations, done.unreadable)
	default:
		err = format.Write(out, done.texts)
	}
	return errors.Join(err, out.Flush())
}

// warn writes to standard error what the output lacks: notes about skipped documents, and warnings about references.
// For outputs of programs, it writes all notes, warnings and findings too, each once.
func (c *command) warn(in *subjects.Subjects, done *results) {
	written := map[string]bool{}
	write := func(kind, text string) {
		line := kind + ": " + texts.OneLine(text)
		if !written[line] {
			written[line] = true
			fmt.Fprintln(c.program.Streams.ErrOut, line)
		}
	}
	for _, n := range in.Notes {
		write("note", n)
	}
	for _, w := range in.Warnings {
		write("warning", w)
	}
	if forPeople(c.output) {
		return
	}
	if len(done.unreadable) > 1 || len(done.explanations) > 0 { // else the error names it
		for _, u := range done.unreadable {
			write("unreadable", u.String())
		}
	}
	for _, e := range done.explanations {
		for _, n := range e.Notes {
			write("note", n)
		}
		for _, w := range e.FactsWarnings() {
			write("warning", w)
		}
		about := e.Source + ": " + e.Object.String() + ": "
		for _, w := range e.OwnWarnings() {
			write("warning", about+w)
		}
		for _, f := range e.Findings {
			write(f.Kind(), about+f.String())
		}
	}
}

// rejectionsIn returns an error that summarizes the rejections, or nil.
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
