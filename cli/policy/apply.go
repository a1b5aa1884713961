package policy

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/audit"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
)

// fieldManager is the field manager of applied policies.
const fieldManager = "kubectl-virtward"

// applyOptions are the flags of policy apply, and of everything else that applies policies.
type applyOptions struct {
	*audit.Options

	dryRun bool
	force  bool
}

func applyCommand(program options.Program) *cobra.Command {
	o := &applyOptions{Options: audit.NewOptions(program)}
	cmd := &cobra.Command{
		Use:   "apply -f FILE ...",
		Short: "Apply policies to the cluster, or show what they would find",
		Long: `Apply policies to the cluster, or show what they would find.

apply compiles all VirtualMachinePolicies of the files first. If one has errors, apply prints them with line and column,
and applies none. It uses server-side apply, with a field manager of its own.

With --dry-run, apply changes nothing. It sends the policies to the API server as a dry run, and evaluates all virtual
machines of the cluster. The webhooks tolerate pre-existing violations on update. But a stopped virtual machine that
violates a policy with enforcement Deny cannot start.

The exit code is 1 if a policy cannot be applied. With --dry-run, it is also 1 if an object would be rejected that is not
rejected now.`,
		Example: program.Examples(`  # Show what these policies would find
  PROGRAM policy apply --dry-run -f policies

  # Apply them, with those of subdirectories
  PROGRAM policy apply -R -f policies`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return options.Usagef("unknown argument %q: use -f for files: see %s --help", args[0], cmd.CommandPath())
			}
			if !o.HasFiles() {
				return options.Usagef("add a file with -f: see %s --help", cmd.CommandPath())
			}
			if err := o.ValidateFiles(cmd); err != nil {
				return err
			}
			return o.validateApply(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.runApply(cmd.Context()) },
	}
	o.addApplyFlags(cmd)
	o.AddFileFlags(cmd, "the policies")
	o.AddSelectorFlag(cmd, "Apply only policies with these labels")
	return cmd
}

// addApplyFlags adds the flags of apply and install.
func (o *applyOptions) addApplyFlags(cmd *cobra.Command) {
	options.AddClusterFlags(cmd, o.Config, "", "With --dry-run, evaluate only the virtual machines of this namespace")
	flags := cmd.Flags()
	flags.BoolVar(&o.dryRun, "dry-run", false, "Change nothing, and show what the policies would find in the cluster")
	flags.BoolVar(&o.force, "force-conflicts", false, "Take over fields that another field manager has set")
	o.AddReportFlags(cmd, "With --dry-run, maximum number of findings to show for each policy and change; 0 for all", "With --dry-run, what to print: ")
}

func (o *applyOptions) validateApply(cmd *cobra.Command) error {
	if err := o.ValidateReport(); err != nil {
		return err
	}
	if !o.dryRun && (cmd.Flags().Changed("output") || cmd.Flags().Changed("max") || cmd.Flags().Changed("namespace")) {
		return options.Usagef("--output, --max and --namespace require --dry-run: see %s --help", cmd.CommandPath())
	}
	return nil
}

// runApply applies the policies of the files.
func (o *applyOptions) runApply(ctx context.Context) error {
	all, err := o.Read(ctx, options.Once(o.Streams.In))
	if err != nil {
		return err
	}
	files := offline.Sort(all)
	served := offline.NewServed("") // the cluster is not read yet
	for _, d := range all.Documents {
		if err := served.Match(d.Object.GroupVersionKind()); err != nil {
			files.Unreadable = append(files.Unreadable, d.Unreadable(err))
		}
	}
	if err := o.complete(files.Unreadable); err != nil {
		return err
	}
	var found []manifests.Document
	for _, d := range all.Documents {
		if offline.IsConfiguration(d.Object.GroupVersionKind()) && d.Object.GetKind() == apikinds.VirtualMachinePolicy {
			found = append(found, d)
			continue
		}
		if d.Object.GetKind() == policytest.Kind && d.Object.GroupVersionKind().Group == policyv1alpha1.GroupVersion.Group {
			continue // the suite of a policy is beside it
		}
		why := cmp.Or(offline.ForeignPolicy(d.Object.GroupVersionKind()), "it is not a policy")
		fmt.Fprintln(o.Streams.ErrOut, texts.OneLine(fmt.Sprintf("note: %s: skipped %s %s: %s", d.Location(), d.Object.GetKind(), d.Object.GetName(), why)))
	}
	if found = o.Selected(found); len(found) == 0 {
		return fmt.Errorf("%s: no %s to apply%s", o.Names(), apikinds.VirtualMachinePolicy, o.WithLabels())
	}
	files.Configuration = found
	words := "-f " + strings.Join(o.Filenames, ", -f ")
	if o.Kustomize != "" {
		words = "-k " + o.Kustomize
	}
	return o.apply(ctx, files, words)
}

// complete returns an error if a document cannot be read, after it has written each: policies belong together.
func (o *applyOptions) complete(unreadable []manifests.Unreadable) error {
	all := explanation.Unreadables(unreadable)
	if len(all) > 1 {
		for _, text := range explanation.Messages(all) {
			fmt.Fprintln(o.Streams.ErrOut, "unreadable: "+text)
		}
	}
	if err := explanation.UnreadableError(all); err != nil {
		return fmt.Errorf("%w: nothing was applied", err)
	}
	return nil
}

// apply compiles the policies, applies them, and shows what they find if it is a dry run. The words are those of the
// command line.
func (o *applyOptions) apply(ctx context.Context, with *offline.Files, words string) error {
	cluster, err := options.Connect(o.Config)
	if err != nil {
		return err
	}
	// Only policies are applied, so parameters are those of the cluster.
	a, err := o.WhatIf(ctx, cluster, with.Configuration, words)
	if err != nil {
		return err
	}
	if err := o.complete(a.Then().Unreadable); err != nil {
		return err
	}
	if broken := a.Then().BrokenPolicies(); broken != nil {
		for _, note := range a.Then().Notes {
			fmt.Fprintln(o.Streams.ErrOut, "note: "+texts.OneLine(note))
		}
		return fmt.Errorf("%w: nothing was applied", broken)
	}
	rejected := o.send(ctx, cluster, with.Configuration)
	if !o.dryRun {
		return rejected
	}
	var rules []string
	for _, d := range with.Configuration {
		rules = append(rules, policies.RulePrefix+d.Object.GetName())
	}
	a.ShowOnly(rules...)
	return options.JoinErrors(rejected, o.Show(ctx, a))
}

// send applies policies.
func (o *applyOptions) send(ctx context.Context, c *offline.Cluster, all []manifests.Document) error {
	apply := metav1.ApplyOptions{FieldManager: fieldManager, Force: o.force}
	how := ""
	if o.dryRun {
		apply.DryRun, how = []string{metav1.DryRunAll}, " (server dry run)"
	}
	messages := o.Streams.Out
	if o.dryRun { // the output is the report
		messages = o.Streams.ErrOut
	}
	var failed []error
	for _, d := range all {
		name := d.Object.GetName()
		object := d.Object.DeepCopy()
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		delete(object.Object, "status")
		_, err := c.Client.Resource(offline.Resources[apikinds.VirtualMachinePolicy]).Apply(ctx, name, object, apply)
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return fmt.Errorf("the cluster has no %s: Virtward is not installed there", apikinds.VirtualMachinePolicy)
		case apierrors.IsConflict(err):
			failed = append(failed, fmt.Errorf("%s: %s %s: %w: use --force-conflicts to take over the fields", d.Location(), apikinds.VirtualMachinePolicy, name, err))
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %s %s: %w", d.Location(), apikinds.VirtualMachinePolicy, name, err))
		default:
			fmt.Fprintf(messages, "virtualmachinepolicy.policy.virtward.io/%s applied%s\n", texts.OneLine(name), how)
		}
	}
	return options.JoinErrors(failed...)
}
