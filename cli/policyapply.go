package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/comparison"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
)

// fieldManager is the one that policies are applied by.
const fieldManager = "kubectl-virtward"

// policyApplyOptions are the flags of policy apply, and of everything else that applies policies.
type policyApplyOptions struct {
	auditOptions
	dryRun bool
	force  bool
}

func newPolicyApplyOptions(streams genericiooptions.IOStreams) *policyApplyOptions {
	o := &policyApplyOptions{}
	o.streams, o.config, o.output, o.told = streams, genericclioptions.NewConfigFlags(true), outputTable, defaultTold
	return o
}

func policyApplyCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	o := newPolicyApplyOptions(streams)
	cmd := &cobra.Command{
		Use:   "apply -f FILE ...",
		Short: "Apply policies to the cluster, or show what they would find there",
		Long: `Apply policies to the cluster, or show what they would find there.

Every VirtualMachinePolicy of the files is compiled first: if one is broken, none is applied, and what is wrong is
told with line and column. They are applied as kubectl apply --server-side does, by a field manager of their own.

With --dry-run nothing is changed. The API server is asked whether it would take the policies, and all virtual
machines of the cluster are evaluated by them: this shows whom they would hit. Virtual machines that exist are never
rejected for it later, as long as no update of them makes it worse; but a stopped one that violates a policy that
denies does not start again.

It exits with 1 if a policy cannot be applied. With --dry-run also if something would be rejected that is not rejected
now.`,
		Example: example(name, `  # Whom would these policies hit?
  PROGRAM policy apply --dry-run -f policies

  # Apply them
  PROGRAM policy apply -f policies`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown argument %q: files are named with -f: see %s --help", args[0], cmd.CommandPath())
			}
			if len(o.filenames) == 0 {
				return usage("name a file with -f: see %s --help", cmd.CommandPath())
			}
			return o.validateApply(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.runApply(cmd.Context()) },
	}
	o.addApplyFlags(cmd)
	cmd.Flags().StringSliceVarP(&o.filenames, "filename", "f", nil, "Files and directories with the policies; - is standard input")
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "Read the subdirectories of directories too")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// addApplyFlags adds those of everything that applies policies.
func (o *policyApplyOptions) addApplyFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	clusterFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.config.AddFlags(clusterFlags)
	flags.AddFlagSet(clusterFlags)
	flags.Lookup("namespace").Usage = "With --dry-run, evaluate only the virtual machines of this namespace"
	showApart(cmd, clusterFlags, "namespace")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Change nothing: ask the API server, and show what the policies find in the cluster")
	flags.BoolVar(&o.force, "force-conflicts", false, "Take over fields that another field manager has set")
	flags.IntVar(&o.told, "max", o.told, "With --dry-run, show so many findings of each policy; 0 for all")
	flags.StringVarP(&o.output, "output", "o", o.output, "With --dry-run, what to print: "+strings.Join(auditOutputs(), ", "))
	completeFlags(cmd, map[string][]string{"output": auditOutputs()})
}

func (o *policyApplyOptions) validateApply(cmd *cobra.Command) error {
	switch {
	case !slices.Contains(auditOutputs(), o.output):
		return usage("unknown output %q: the known ones are %s", o.output, strings.Join(auditOutputs(), ", "))
	case !o.dryRun && (cmd.Flags().Changed("output") || cmd.Flags().Changed("max") || cmd.Flags().Changed("namespace")):
		return usage("-o, --max and -n are about what the policies find, which only --dry-run shows: see %s --help", cmd.CommandPath())
	case o.told < 0:
		return usage("--max %d: a number of findings is 0 or more", o.told)
	}
	return nil
}

// runApply applies the policies of the files.
func (o *policyApplyOptions) runApply(ctx context.Context) error {
	all, err := manifests.ReadAll(ctx, o.filenames, o.recursive, onlyOnce(o.streams.In))
	if err != nil {
		return err
	}
	files, err := offline.Sort(all)
	if err != nil {
		return err
	}
	var found []manifests.Document
	for _, d := range all {
		if offline.IsConfiguration(d.Object.GroupVersionKind()) && d.Object.GetKind() == offline.KindPolicy {
			found = append(found, d)
			continue
		}
		fmt.Fprintln(o.streams.ErrOut, texts.OneLine(fmt.Sprintf("note: %s: passed over %s %s, which is no policy", d.Location(), d.Object.GetKind(), d.Object.GetName())))
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: no %s to apply", o.named(), offline.KindPolicy)
	}
	files.Configuration = found
	return o.apply(ctx, files, "-f "+strings.Join(o.filenames, ", -f "))
}

// apply compiles the policies, hands them to the API server, and shows what they find if that is all that is wanted.
// The words are those of the command line that they come from.
func (o *policyApplyOptions) apply(ctx context.Context, with *offline.Files, words string) error {
	a := &audit{ofFiles: false, assumed: []string{words}, progress: o.streams.ErrOut, counter: comparison.Counter{Told: o.told, Unchanged: true}}
	var err error
	if a.cluster, err = connect(o.config); err != nil {
		return err
	}
	a.cluster.Objects = remember(a.cluster.Objects)
	if n := o.config.Namespace; n != nil {
		a.namespace = *n
	}
	only := &offline.Files{Configuration: with.Configuration} // the parameters are those of the cluster: nothing else is applied
	if err := o.surround(ctx, a, &offline.Files{}, only, nil); err != nil {
		return err
	}
	if broken := a.then.BrokenPolicies(); broken != nil {
		for _, note := range a.then.Notes {
			fmt.Fprintln(o.streams.ErrOut, "note: "+texts.OneLine(note))
		}
		return fmt.Errorf("%w: nothing was applied", broken)
	}
	rejected := o.hand(ctx, a.cluster, with.Configuration)
	if !o.dryRun {
		return rejected
	}
	for _, d := range with.Configuration {
		a.only = append(a.only, policies.RulePrefix+d.Object.GetName())
	}
	return together(rejected, o.show(ctx, a))
}

// hand hands policies to the API server.
func (o *policyApplyOptions) hand(ctx context.Context, c *offline.Cluster, all []manifests.Document) error {
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: o.force}
	how := ""
	if o.dryRun {
		options.DryRun, how = []string{metav1.DryRunAll}, " (server dry run)"
	}
	said := o.streams.Out
	if o.dryRun { // the output is about what they find
		said = o.streams.ErrOut
	}
	var failed []error
	for _, d := range all {
		name := d.Object.GetName()
		object := d.Object.DeepCopy()
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		delete(object.Object, "status")
		_, err := c.Client.Resource(offline.Resources[offline.KindPolicy]).Apply(ctx, name, object, options)
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return fmt.Errorf("the cluster has no %s: Virtward is not installed there", offline.KindPolicy)
		case apierrors.IsConflict(err):
			failed = append(failed, fmt.Errorf("%s: %s %s: %w: --force-conflicts takes the fields over", d.Location(), offline.KindPolicy, name, err))
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %s %s: %w", d.Location(), offline.KindPolicy, name, err))
		default:
			fmt.Fprintf(said, "virtualmachinepolicy.policy.virtward.io/%s applied%s\n", texts.OneLine(name), how)
		}
	}
	return together(failed...)
}
