package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/options"
)

// newPauseCommand pauses rollouts.
func newPauseCommand(program options.Program) *cobra.Command {
	return newSpecCommand(program, &cobra.Command{
		Use:   "pause ROLLOUT ...",
		Short: "Pause VirtualMachineRollouts",
		Long: `Pause VirtualMachineRollouts: they begin with no further virtual machine. What has begun is completed.

Every user who may update VirtualMachineRollouts can pause one. A rollout that has ended cannot be paused.`,
		Example: program.Examples(`  # Pause a rollout
  PROGRAM rollout pause larger -n shop`),
	}, paused)
}

// newResumeCommand resumes rollouts.
func newResumeCommand(program options.Program) *cobra.Command {
	return newSpecCommand(program, &cobra.Command{
		Use:   "resume ROLLOUT ...",
		Short: "Resume VirtualMachineRollouts",
		Long: `Resume VirtualMachineRollouts that a user has paused, or that wait after a canary or after failures. Virtual machines that
failed are tried again. A rollout that is complete cannot be resumed.

You become the requester of the rollout: you need the permissions for what it does.`,
		Example: program.Examples(`  # Continue after a canary
  PROGRAM rollout resume larger -n shop`),
	}, resumed)
}

// specChange is a change of the spec of a rollout, as a merge patch, and what is printed. The error says why the rollout cannot
// be changed.
type specChange func(*v1alpha1.VirtualMachineRollout) (patch map[string]any, done string, err error)

// newSpecCommand completes a command that changes the specs of rollouts.
func newSpecCommand(program options.Program, cmd *cobra.Command, change specChange) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return options.Usagef("name a VirtualMachineRollout%s", options.SeeHelp(cmd))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cluster, err := options.Connect(config)
		if err != nil {
			return err
		}
		resource := cluster.Client.Resource(apikinds.Rollouts.GroupVersionResource()).Namespace(cluster.Namespace)
		var failed error
		for _, name := range args {
			done, err := changeSpec(cmd.Context(), resource, name, change)
			if err != nil {
				failed = joined(failed, fmt.Errorf("VirtualMachineRollout %s/%s: %w", cluster.Namespace, name, err))
				continue
			}
			if _, err := fmt.Fprintf(program.Streams.Out, "VirtualMachineRollout %s/%s %s\n", cluster.Namespace, name, done); err != nil {
				return err
			}
		}
		return failed
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return options.CompleteNames(cmd, config, apikinds.Rollouts.GroupVersionResource())
	}
	options.AddClusterFlags(cmd, config, "", "Namespace of the rollouts")
	return cmd
}

// changeSpec changes the spec of a rollout, unless it changes at the same time.
func changeSpec(ctx context.Context, resource dynamic.ResourceInterface, name string, change specChange) (done string, err error) {
	object, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	rollout := &v1alpha1.VirtualMachineRollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, rollout); err != nil {
		return "", fmt.Errorf("reading it: %w", err)
	}
	spec, done, err := change(rollout)
	if spec == nil || err != nil {
		return done, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": rollout.ResourceVersion}, "spec": spec})
	if err != nil {
		return "", err
	}
	_, err = resource.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return done, err
}

// ended reports whether a rollout does nothing more, as it is written.
func ended(rollout *v1alpha1.VirtualMachineRollout) bool {
	return rollout.Status.Finished != nil && rollout.Status.ObservedGeneration == rollout.Generation
}

// endedError is the error for a rollout that has ended.
func endedError(rollout *v1alpha1.VirtualMachineRollout, what string) error {
	return fmt.Errorf("it ended at %s, and its phase is %s: there is nothing to %s", rollout.Status.Finished.UTC().Format(time.RFC3339), rollout.Status.Phase, what)
}

func paused(rollout *v1alpha1.VirtualMachineRollout) (map[string]any, string, error) {
	switch {
	case ended(rollout):
		return nil, "", endedError(rollout, "pause")
	case rollout.Spec.Paused:
		return nil, "is paused already", nil
	}
	return map[string]any{"paused": true}, "paused", nil
}

// resumed ends the pause of a user. Otherwise it increases spec.resume, if the rollout waits for that.
func resumed(rollout *v1alpha1.VirtualMachineRollout) (map[string]any, string, error) {
	switch {
	case ended(rollout) && rollout.Status.Phase != v1alpha1.PhaseFailed:
		return nil, "", endedError(rollout, "resume")
	case rollout.Spec.Paused:
		return map[string]any{"paused": false}, "resumed", nil
	}
	if c := meta.FindStatusCondition(rollout.Status.Conditions, v1alpha1.ConditionPaused); c != nil && c.Status == metav1.ConditionTrue {
		switch c.Reason {
		case v1alpha1.ReasonPausedByCanary, v1alpha1.ReasonPausedByFailures:
			return map[string]any{"resume": rollout.Spec.Resume + 1}, "resumed", nil
		}
		return nil, "cannot be resumed: " + c.Message, nil
	}
	if rollout.Status.Phase == v1alpha1.PhaseFailed {
		return map[string]any{"resume": rollout.Spec.Resume + 1}, "resumed: the failed virtual machines are tried again", nil
	}
	return nil, fmt.Sprintf("is not paused: its phase is %s", rollout.Status.Phase), nil
}
