package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/comparison"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/texts"
)

// auditOptions are the flags of audit. Of the sources, the hypervisor and the architecture are what is assumed.
type auditOptions struct {
	// version of the program, for SARIF.
	version string
	sources
	with          []string
	without       []string
	allNamespaces bool
	all           bool
	told          int
	output        string
}

func auditOutputs() []string {
	return []string{outputTable, outputMarkdown, outputJSON, outputYAML, outputJUnit, outputSARIF}
}

// defaultTold is how many findings of a rule a person wants to see at first.
const defaultTold = 10

func auditCommand(name, version string, streams genericiooptions.IOStreams) *cobra.Command {
	o := &auditOptions{version: version, sources: sources{streams: streams, config: genericclioptions.NewConfigFlags(true)}, output: outputTable, told: defaultTold}
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
		Example: example(name, `  # Whom would this policy hit?
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
	completeFlags(cmd, map[string][]string{
		"hypervisor":       platform.HypervisorNames(),
		"arch":             architectures(),
		"output":           auditOutputs(),
		"rollout-strategy": rolloutStrategies(),
		"mshv-cpu-model":   {"auto", "none"},
	})
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func (o *auditOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	clusterFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.config.AddFlags(clusterFlags)
	flags.AddFlagSet(clusterFlags)
	flags.Lookup("namespace").Usage = "Evaluate only the virtual machines of this namespace; with -f, the namespace of objects that name none"
	showApart(cmd, clusterFlags, "namespace")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Evaluate the virtual machines of all namespaces, as it does without -n")
	flags.StringSliceVarP(&o.filenames, "filename", "f", nil, "Evaluate the virtual machines in these files and directories, not those of the cluster; - is standard input")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "Read the subdirectories of directories too")
	flags.StringVar(&o.kubevirt, "kubevirt", "", "File with the cluster's KubeVirt object, or with its spec.configuration alone")
	flags.BoolVar(&o.fromCluster, "from-cluster", false, "With -f: ask the cluster for its configuration, its policies, and objects that the files do not hold")
	flags.StringSliceVar(&o.with, "with", nil, "Assume that the objects in these files and directories were applied")
	flags.StringSliceVar(&o.without, "without", nil, "Assume that these VirtualMachinePolicies were deleted")
	flags.StringVar(&o.hypervisor, "hypervisor", "", "Assume this hypervisor: "+strings.Join(platform.HypervisorNames(), ", "))
	flags.StringVar(&o.architecture, "arch", "", "Assume this default architecture of the cluster: "+strings.Join(architectures(), ", "))
	flags.BoolVar(&o.all, "all", false, "Show findings that stay too")
	flags.IntVar(&o.told, "max", o.told, "Show so many findings of each rule and change; 0 for all")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(auditOutputs(), ", "))
	flags.StringVar((*string)(&o.settings.RolloutStrategy), "rollout-strategy", "", "Assume this where the KubeVirt object names no vmRolloutStrategy: "+strings.Join(rolloutStrategies(), ", ")+" (LiveUpdate if empty)")
	flags.StringVar(&o.settings.MSHVCPUModel, "mshv-cpu-model", "", "CPU model of amd64 guests on mshv, as Virtward is installed: auto, none or a model")
}

func (o *auditOptions) validate(cmd *cobra.Command, args []string) error {
	help := ": see " + cmd.CommandPath() + " --help"
	switch {
	case len(args) > 0:
		return usage("unknown argument %q: files are named with -f, policies with --with%s", args[0], help)
	case !slices.Contains(auditOutputs(), o.output):
		return usage("unknown output %q: the known ones are %s", o.output, strings.Join(auditOutputs(), ", "))
	case o.allNamespaces && o.config.Namespace != nil && *o.config.Namespace != "":
		return usage("name a namespace or all of them, not both%s", help)
	case o.told < 0:
		return usage("--max %d: a number of findings is 0 or more", o.told)
	case o.fromCluster && len(o.filenames) == 0:
		return usage("--from-cluster is for files: without -f, the cluster is asked in any case%s", help)
	}
	return o.checkAssumed()
}

// assumed is what would hold, in the words of the command line; nothing if it is only about what is.
func (o *auditOptions) assumed() (all []string) {
	for _, name := range o.with {
		all = append(all, "--with "+name)
	}
	for _, name := range o.without {
		all = append(all, "--without "+name)
	}
	if o.hypervisor != "" {
		all = append(all, "--hypervisor "+o.hypervisor)
	}
	if o.architecture != "" {
		all = append(all, "--arch "+o.architecture)
	}
	return all
}

// run reads, evaluates and prints. What would be newly rejected is an error, after everything was printed.
func (o *auditOptions) run(ctx context.Context) error {
	a, err := o.gather(ctx)
	if err != nil {
		return err
	}
	return o.show(ctx, a)
}

// show evaluates everything and prints what comes of it.
func (o *auditOptions) show(ctx context.Context, a *audit) error {
	report, err := a.evaluateAll(ctx)
	if err != nil {
		return err
	}
	o.complain(a, report)
	if err := o.write(report); err != nil {
		return err
	}
	return together(newlyRejected(report), a.last().BrokenPolicies())
}

func (o *auditOptions) write(report *comparison.Report) error {
	switch o.output {
	case outputMarkdown:
		return report.WriteMarkdown(o.streams.Out)
	case outputJSON:
		return report.WriteJSON(o.streams.Out)
	case outputYAML:
		return report.WriteYAML(o.streams.Out)
	case outputJUnit:
		return report.WriteJUnit(o.streams.Out)
	case outputSARIF:
		return report.WriteSARIF(o.streams.Out, o.version)
	}
	return report.WriteTable(o.streams.Out)
}

// complain tells on standard error what was passed over, and what the output does not say.
func (o *auditOptions) complain(a *audit, report *comparison.Report) {
	tell := func(kind string, lines []string) {
		for _, text := range lines {
			fmt.Fprintln(o.streams.ErrOut, kind+": "+texts.OneLine(text))
		}
	}
	tell("note", a.passedOver)
	if o.output == outputTable || o.output == outputMarkdown {
		return
	}
	tell("warning", report.Warnings)
	tell("note", report.Notes)
}

// together are errors in one; nil if there is none.
func together(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// newlyRejected is the error that sums up what would be rejected and is not now; nil if there is nothing.
func newlyRejected(report *comparison.Report) error {
	first := report.First()
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d virtual machines would be rejected for something new, the first one %s by %s at %s", report.NewlyRejected, report.Evaluated, first.Object, first.Rule, first.Field)
}
