package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/texts"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	sources
	output string
	// version of the program, for SARIF.
	version string
}

// sources are the flags that say where everything is read, and what is assumed.
type sources struct {
	filenames     []string
	recursive     bool
	kubevirt      string
	instancetypes []string
	preferences   []string
	hypervisor    string
	architecture  string
	fromCluster   bool
	settings      platform.Settings
	config        *genericclioptions.ConfigFlags
	streams       genericiooptions.IOStreams
}

// The outputs of explain.
const (
	outputYAML  = "yaml"
	outputTable = "table"
	outputJSON  = "json"
	outputJUnit = "junit"
	outputSARIF = "sarif"
)

func outputs() []string {
	return []string{outputYAML, outputTable, outputJSON, outputJUnit, outputSARIF}
}

// forPeople reports whether an output says of itself all that its reader should know.
func forPeople(output string) bool { return output == outputYAML || output == outputTable }

func architectures() []string { return []string{platform.AMD64, platform.ARM64, platform.S390X} }

func rolloutStrategies() []string {
	return []string{string(v1.VMRolloutStrategyLiveUpdate), string(v1.VMRolloutStrategyStage)}
}

func explainCommand(name, version string, streams genericiooptions.IOStreams) *cobra.Command {
	o := &explainOptions{version: version, sources: sources{streams: streams, config: genericclioptions.NewConfigFlags(true)}, output: outputYAML}
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
		Example: example(name, `  # How will these virtual machines run?
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
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	clusterFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.config.AddFlags(clusterFlags)
	flags.AddFlagSet(clusterFlags)
	flags.Lookup("namespace").Usage = "Namespace of TYPE/NAME, and of objects in files that name none"
	showApart(cmd, clusterFlags, "namespace")
	flags.StringSliceVarP(&o.filenames, "filename", "f", nil, "Files and directories with the objects to explain; - is standard input")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "Read the subdirectories of directories too")
	flags.StringVar(&o.kubevirt, "kubevirt", "", "File with the cluster's KubeVirt object, or with its spec.configuration alone")
	flags.StringSliceVar(&o.instancetypes, "instancetype", nil, "Files with instancetypes, or other objects that virtual machines refer to")
	flags.StringSliceVar(&o.preferences, "preference", nil, "Files with preferences, or other objects that virtual machines refer to")
	flags.StringVar(&o.hypervisor, "hypervisor", "", "Assume this hypervisor: "+strings.Join(platform.HypervisorNames(), ", "))
	flags.StringVar(&o.architecture, "arch", "", "Assume this default architecture of the cluster: "+strings.Join(architectures(), ", "))
	flags.BoolVar(&o.fromCluster, "from-cluster", false, "Ask the cluster for its configuration and for objects that the files do not hold")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(outputs(), ", "))
	flags.StringVar((*string)(&o.settings.RolloutStrategy), "rollout-strategy", "", "Assume this where the KubeVirt object names no vmRolloutStrategy: "+strings.Join(rolloutStrategies(), ", ")+" (LiveUpdate if empty)")
	flags.StringVar(&o.settings.MSHVCPUModel, "mshv-cpu-model", "", "CPU model of amd64 guests on mshv, as Virtward is installed: auto, none or a model")
	o.addCompletion(cmd)
	return cmd
}

// addCompletion offers the values of flags and the names of virtual machines.
func (o *explainOptions) addCompletion(cmd *cobra.Command) {
	completeFlags(cmd, map[string][]string{
		"hypervisor":       platform.HypervisorNames(),
		"arch":             architectures(),
		"output":           outputs(),
		"rollout-strategy": rolloutStrategies(),
		"mshv-cpu-model":   {"auto", "none"},
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return o.completeNames(cmd.Context(), args, word)
	}
}

func (o *explainOptions) validate(cmd *cobra.Command, args []string) error {
	help := ": see " + cmd.CommandPath() + " --help"
	switch {
	case len(args) == 0 && len(o.filenames) == 0:
		return usage("name a virtual machine, or a file with -f%s", help)
	case len(args) > 0 && len(o.filenames) > 0:
		return usage("name virtual machines or files, not both%s", help)
	case !slices.Contains(outputs(), o.output):
		return usage("unknown output %q: the known ones are %s", o.output, strings.Join(outputs(), ", "))
	}
	if err := o.checkAssumed(); err != nil {
		return err
	}
	if _, err := namedTargets(args); err != nil {
		return usage("%w%s", err, help)
	}
	return nil
}

// checkAssumed rejects what could not hold of any cluster.
func (o *sources) checkAssumed() error {
	switch {
	case o.architecture != "" && !slices.Contains(architectures(), o.architecture):
		return usage("unknown architecture %q: the known ones are %s", o.architecture, strings.Join(architectures(), ", "))
	case o.settings.RolloutStrategy != "" && !slices.Contains(rolloutStrategies(), string(o.settings.RolloutStrategy)):
		return usage("unknown rollout strategy %q: the known ones are %s", o.settings.RolloutStrategy, strings.Join(rolloutStrategies(), ", "))
	}
	if o.hypervisor != "" {
		if _, err := platform.HypervisorByName(o.hypervisor); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// run reads, evaluates and prints. Rejections are an error, after everything was printed.
func (o *explainOptions) run(ctx context.Context, args []string) error {
	in, err := o.gather(ctx, args)
	if err != nil {
		return err
	}
	format := o.format()
	done, err := explainAll(ctx, in, format, newProgress(o.streams.ErrOut))
	if err != nil {
		return err
	}
	o.complain(in, done.explanations)
	if err := o.write(in, done, format); err != nil {
		return err
	}
	return rejectionsIn(done.explanations)
}

// format is that of an output in which each virtual machine has a text of its own; nil for others.
func (o *explainOptions) format() *explanation.Format {
	formats := map[string]func() explanation.Format{outputYAML: explanation.YAML, outputTable: explanation.Tables, outputJSON: explanation.JSON}
	if of := formats[o.output]; of != nil {
		format := of()
		return &format
	}
	return nil
}

func (o *explainOptions) write(in *inputs, done *results, format *explanation.Format) error {
	out := bufio.NewWriter(o.streams.Out)
	var err error
	switch o.output {
	case outputJUnit:
		err = explanation.WriteJUnit(out, done.explanations)
	case outputSARIF:
		err = explanation.WriteSARIF(out, done.explanations, in.world.Rules(), o.version)
	default:
		err = format.Write(out, done.texts)
	}
	return errors.Join(err, out.Flush())
}

// complain tells on standard error what no document says: what was passed over, and what is wrong with the
// objects referred to. Some outputs are for programs, so with them people are told here of everything, each thing
// once.
func (o *explainOptions) complain(in *inputs, explanations []*explanation.Explanation) {
	told := map[string]bool{}
	tell := func(kind, text string) {
		line := kind + ": " + texts.OneLine(text)
		if !told[line] {
			told[line] = true
			fmt.Fprintln(o.streams.ErrOut, line)
		}
	}
	for _, n := range in.notes {
		tell("note", n)
	}
	for _, w := range in.warnings {
		tell("warning", w)
	}
	if forPeople(o.output) {
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
		for i := range e.Findings {
			tell(e.Findings[i].Kind(), about+e.Findings[i].String())
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
