package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/comparison"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// Options are the flags of an audit. Facts of the sources are assumptions: the audit compares them with the real ones.
type Options struct {
	options.Program
	options.Sources

	// With are files with objects to add, Without are names of policies to leave out.
	With    []string
	Without []string
	// Output is one of Outputs.
	Output string
	// Max is the number of findings to show of each rule and change, 0 for all.
	Max           int
	allNamespaces bool
	all           bool
}

// Outputs are the values of --output.
func Outputs() []string {
	return []string{options.OutputTable, options.OutputMarkdown, options.OutputJSON, options.OutputYAML, options.OutputJUnit, options.OutputSARIF}
}

// NewOptions returns the options of an audit without flags.
func NewOptions(program options.Program) *Options {
	return &Options{Program: program, Sources: options.NewSources(), Output: options.OutputTable, Max: 10}
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	o := NewOptions(program)
	cmd := &cobra.Command{
		Use:   "audit [-f FILE ...] [--with FILE ...] [--without POLICY ...]",
		Short: "Evaluate all virtual machines again, and show what would change under other policies",
		Long: `Evaluate all virtual machines again, and show what would change under other policies.

All virtual machines of the cluster, or those of the files given with -f, are evaluated twice: as things are, and as
they would be with the policies and other objects of --with, without those of --without, on another --hypervisor or
with another default --arch. A finding is new if it would come, gone if it would not be there any more, and stays
otherwise. Without any of these, every finding there is now is shown.

--with takes VirtualMachinePolicies and the ConfigMaps of their parameters, VirtualMachineDefaults, RuleSettings,
instancetypes, preferences, Namespaces and a KubeVirt object. One of the same name is replaced. So the answer to
"whom would this hit" is there before anything is applied.

The built-in checks are part of the comparison. Policies that read who asks for what cannot be asked about what
exists; they are named. With -f, nothing but files is read, unless --from-cluster says otherwise.

Nothing is changed in the cluster, and no more rights are needed than those to read what is evaluated: what may not be
listed is named, and the others are evaluated. Virtual machines are read in pages, so that a large cluster needs no more
memory than a small one. Instances that belong to a VirtualMachine are evaluated as that, and pools as the virtual
machine that they make.

It exits with 1 if something would be rejected that is not rejected now.`,
		Example: program.Examples(`  # Whom would this policy hit?
  PROGRAM audit --with memory-cap.yaml

  # What keeps the virtual machines of a namespace from Microsoft's hypervisor?
  PROGRAM audit -n shop --hypervisor mshv

  # What do the policies find now?
  PROGRAM audit

  # What does a change of a policy mean for a repository? As a comment on a pull request
  PROGRAM audit -R -f manifests --with policies/memory-cap.yaml -o markdown`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func (o *Options) addFlags(cmd *cobra.Command) {
	options.AddClusterFlags(cmd, o.Config, "", "Evaluate only the virtual machines of this namespace; with -f, the namespace of objects that name none")
	o.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Evaluate the virtual machines of all namespaces, as it does without -n")
	flags.StringSliceVarP(&o.Filenames, "filename", "f", nil, "Evaluate the virtual machines in these files and directories, not those of the cluster; - is standard input")
	flags.BoolVar(&o.FromCluster, "from-cluster", false, "With -f: ask the cluster for its configuration, its policies, and objects that the files do not hold")
	flags.StringSliceVar(&o.With, "with", nil, "Assume that the objects in these files and directories were applied")
	flags.StringSliceVar(&o.Without, "without", nil, "Assume that these VirtualMachinePolicies were deleted")
	flags.BoolVar(&o.all, "all", false, "Show findings that stay too")
	o.AddReportFlags(cmd, "Show so many findings of each rule and change; 0 for all", "What to print: ")
}

// AddReportFlags adds --max and --output, with their descriptions. The outputs follow the second one.
func (o *Options) AddReportFlags(cmd *cobra.Command, maxUsage, outputUsage string) {
	cmd.Flags().IntVar(&o.Max, "max", o.Max, maxUsage)
	cmd.Flags().StringVarP(&o.Output, "output", "o", o.Output, outputUsage+strings.Join(Outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": Outputs()})
}

// ValidateReport rejects values of --max and --output.
func (o *Options) ValidateReport() error {
	if o.Max < 0 {
		return options.Usagef("--max %d: a number of findings is 0 or more", o.Max)
	}
	return options.OneOf("output", o.Output, Outputs())
}

func (o *Options) validate(cmd *cobra.Command, args []string) error {
	help := ": see " + cmd.CommandPath() + " --help"
	switch {
	case len(args) > 0:
		return options.Usagef("unknown argument %q: files are named with -f, policies with --with%s", args[0], help)
	case o.allNamespaces && o.Config.Namespace != nil && *o.Config.Namespace != "":
		return options.Usagef("name a namespace or all of them, not both%s", help)
	case o.FromCluster && len(o.Filenames) == 0:
		return options.Usagef("--from-cluster is for files: without -f, the cluster is asked in any case%s", help)
	}
	if err := o.ValidateReport(); err != nil {
		return err
	}
	return o.ValidateFacts()
}

// assumed is what would hold, in the words of the command line; nothing if it is only about what is.
func (o *Options) assumed() (all []string) {
	for _, name := range o.With {
		all = append(all, "--with "+name)
	}
	for _, name := range o.Without {
		all = append(all, "--without "+name)
	}
	if o.Hypervisor != "" {
		all = append(all, "--hypervisor "+o.Hypervisor)
	}
	if o.Architecture != "" {
		all = append(all, "--arch "+o.Architecture)
	}
	return all
}

// run reads, evaluates and prints. What would be newly rejected is an error, after everything was printed.
func (o *Options) run(ctx context.Context) error {
	a, err := o.gather(ctx)
	if err != nil {
		return err
	}
	return o.Show(ctx, a)
}

// Show evaluates everything and prints the report. It returns an error if something would be newly rejected, or a
// policy is broken.
func (o *Options) Show(ctx context.Context, a *Audit) error {
	report, err := a.evaluateAll(ctx)
	if err != nil {
		return err
	}
	o.complain(a, report)
	if err := o.write(report); err != nil {
		return err
	}
	return options.JoinErrors(newlyRejected(report), a.last().BrokenPolicies())
}

func (o *Options) write(report *comparison.Report) error {
	switch o.Output {
	case options.OutputMarkdown:
		return report.WriteMarkdown(o.Streams.Out)
	case options.OutputJSON:
		return report.WriteJSON(o.Streams.Out)
	case options.OutputYAML:
		return report.WriteYAML(o.Streams.Out)
	case options.OutputJUnit:
		return report.WriteJUnit(o.Streams.Out)
	case options.OutputSARIF:
		return report.WriteSARIF(o.Streams.Out, o.Version)
	}
	return report.WriteTable(o.Streams.Out)
}

// complain tells on standard error what was passed over, and what the output does not say.
func (o *Options) complain(a *Audit, report *comparison.Report) {
	tell := func(kind string, lines []string) {
		for _, text := range lines {
			fmt.Fprintln(o.Streams.ErrOut, kind+": "+texts.OneLine(text))
		}
	}
	tell("note", a.passedOver)
	if o.Output == options.OutputTable || o.Output == options.OutputMarkdown {
		return
	}
	tell("warning", report.Warnings)
	tell("note", report.Notes)
}

// newlyRejected is the error that sums up what would be rejected and is not now; nil if there is nothing.
func newlyRejected(report *comparison.Report) error {
	first := report.First()
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d virtual machines would be rejected for something new, the first one %s by %s at %s", report.NewlyRejected, report.Evaluated, first.Object, first.Rule, first.Error.Field)
}
