package audit

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/comparison"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
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
	return []string{printers.Table, printers.Markdown, printers.JSON, printers.YAML, printers.JUnit, printers.SARIF, printers.GitHub}
}

// NewOptions returns the options of an audit without flags.
func NewOptions(program options.Program) *Options {
	return &Options{Program: program, Sources: options.NewSources(), Output: printers.Table, Max: 10}
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	o := NewOptions(program)
	cmd := &cobra.Command{
		Use:   "audit [-f FILE ... | -k DIR] [--with FILE ...] [--without POLICY ...]",
		Short: "Evaluate all virtual machines, and show what would change under other policies",
		Long: `Evaluate all virtual machines, and show what would change under other policies.

audit evaluates all virtual machines of the cluster, or those of the files of -f, by the built-in rules and the policies. It
evaluates them twice if you use --with, --without, --hypervisor or --arch: as they are now, and under these assumptions. A
finding is new, gone, or stays. Without an assumption, audit shows all findings.

--with assumes that the objects in its files are applied: VirtualMachinePolicies and the ConfigMaps of their parameters,
VirtualMachineDefaults, RuleSettings, instancetypes, preferences, Namespaces and a KubeVirt object. They replace objects of
the same name. With -f, audit reads only files, unless you use --from-cluster.

Policies that read the request cannot be evaluated for existing objects; they are skipped, and a note names them. Instances
of a VirtualMachine are evaluated as the VirtualMachine, and pools as the virtual machine that they create.

audit changes nothing in the cluster, and requires only read permissions. It skips what you may not list, and a warning
names it. It reads virtual machines in pages, so that its memory does not depend on the size of the cluster.

The exit code is 1 if an object would be rejected that is not rejected now, if an object of a file does not satisfy its schema,
if a document cannot be read, or, with --strict, if an object that a file refers to is unknown.`,
		Example: program.Examples(`  # Show the virtual machines that this policy would reject
  PROGRAM audit --with memory-cap.yaml

  # Show why the virtual machines of a namespace cannot run on Microsoft's hypervisor
  PROGRAM audit -n shop --hypervisor mshv

  # Show all findings
  PROGRAM audit

  # Write a comment on a pull request that shows the effect of a policy on a repository
  PROGRAM audit -R -f manifests --with policies/memory-cap.yaml -o markdown`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *Options) addFlags(cmd *cobra.Command) {
	options.AddClusterFlags(cmd, o.Config, "", "Evaluate only the virtual machines of this namespace; with -f, the namespace of objects that name none")
	o.AddFileFlags(cmd, "the virtual machines to evaluate, not those of the cluster")
	o.AddSelectionFlags(cmd)
	o.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Evaluate the virtual machines of all namespaces, which is the default")
	flags.BoolVar(&o.FromCluster, "from-cluster", false, "With -f, read the configuration, the policies, and objects that the files lack from the cluster")
	flags.StringSliceVar(&o.With, "with", nil, "Assume that the objects in these files and directories are applied")
	flags.StringSliceVar(&o.Without, "without", nil, "Assume that these VirtualMachinePolicies are deleted")
	flags.BoolVar(&o.all, "all", false, "Show findings that stay, too")
	o.AddReportFlags(cmd, "Maximum number of findings to show for each rule and change; 0 for all", "What to print: ")
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
		return options.Usagef("--max %d: must be 0 or more", o.Max)
	}
	return options.OneOf("output", o.Output, Outputs())
}

func (o *Options) validate(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	switch {
	case len(args) > 0:
		return options.Usagef("unknown argument %q: use -f for files, and --with for policies%s", args[0], help)
	case o.allNamespaces && o.Config.Namespace != nil && *o.Config.Namespace != "":
		return options.Usagef("--namespace and --all-namespaces exclude each other%s", help)
	case o.FromCluster && !o.HasFiles():
		return options.Usagef("--from-cluster requires -f: without -f, the cluster is always read%s", help)
	}
	if err := o.ValidateFiles(cmd); err != nil {
		return err
	}
	if err := o.ValidateReport(); err != nil {
		return err
	}
	return o.ValidateFacts()
}

// assumed returns the assumptions, as they are on the command line.
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

// run reads, evaluates and prints. It returns an error if an object would be newly rejected, after it has printed
// everything.
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
	o.warn(a, report)
	if err := o.write(report); err != nil {
		return err
	}
	return options.JoinErrors(newlyRejected(report), a.last().BrokenPolicies(), a.invalidError(), o.UnknownError(a.unknown), explanation.UnreadableError(report.Unreadable))
}

func (o *Options) write(report *comparison.Report) error {
	switch o.Output {
	case printers.Markdown:
		return report.WriteMarkdown(o.Streams.Out)
	case printers.JSON:
		return report.WriteJSON(o.Streams.Out)
	case printers.YAML:
		return report.WriteYAML(o.Streams.Out)
	case printers.JUnit:
		return report.WriteJUnit(o.Streams.Out)
	case printers.GitHub:
		return report.WriteGitHub(o.Streams.Out)
	case printers.SARIF:
		return report.WriteSARIF(o.Streams.Out, o.Version)
	}
	return report.WriteTable(o.Streams.Out)
}

// warn writes notes about skipped documents to standard error, and what the output lacks.
func (o *Options) warn(a *Audit, report *comparison.Report) {
	write := func(kind string, lines []string) {
		for _, text := range lines {
			fmt.Fprintln(o.Streams.ErrOut, kind+": "+texts.OneLine(text))
		}
	}
	write("note", a.skipped)
	if o.Output == printers.Table || o.Output == printers.Markdown {
		return
	}
	write("unreadable", explanation.Messages(report.Unreadable))
	write("warning", report.Warnings)
	write("note", report.Notes)
}

// newlyRejected returns an error that summarizes the new rejections, or nil.
func newlyRejected(report *comparison.Report) error {
	first := report.First()
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d virtual machines would be newly rejected, the first one %s by %s at %s", report.NewlyRejected, report.Evaluated, first.Object, first.Rule, first.Error.Field)
}
