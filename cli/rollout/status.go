package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/limits/parallel"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// machinesPage is the number of virtual machines that are read together.
const machinesPage = 100

// statusCommand has the flags of status.
type statusCommand struct {
	program  options.Program
	sources  options.Sources
	selector string
	all      bool
	output   string
	failOn   []string
}

func newStatusCommand(program options.Program) *cobra.Command {
	c := &statusCommand{program: program, sources: options.NewSources(), output: printers.Table}
	outputs := append(c.printer().Formats(), printers.YAML, printers.JSON) // of the statuses, not of the lines
	cmd := &cobra.Command{
		Use:   "status [VM ...]",
		Short: "Show changes that are not applied to running virtual machines yet",
		Long: `Show changes that are not applied to running virtual machines yet: which fields, when they take effect, since when, and why.

Without names, status shows the virtual machines of the namespace that have a pending change; with -A, those of all namespaces.
KubeVirt's condition RestartRequired names no fields: the column TAKES names those that need a restart.

Where Virtward reports pending changes, the status comes from the annotation ` + v1alpha1.AnnotationPending + `. If that is
missing or behind, the virtual machine is compared with its instance, with your permissions. Then SINCE is unknown.

With --fail-on, the exit code is 1 if a pending change takes one of the given values.`,
		Example: program.Examples(`  # Show the virtual machines of all namespaces with a pending change
  PROGRAM rollout status -A

  # Show everything that is pending of one, and why
  PROGRAM rollout status vm/db -n shop -o wide

  # Fail if a virtual machine needs a restart
  PROGRAM rollout status -l app=shop --fail-on restart`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args, outputs) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return options.CompleteNames(cmd, c.sources.Config, apikinds.VirtualMachines.GroupVersionResource())
		},
	}
	options.AddClusterFlags(cmd, c.sources.Config, "", "Namespace of the virtual machines")
	flags := cmd.Flags()
	flags.BoolVarP(&c.all, "all-namespaces", "A", false, "Show the virtual machines of all namespaces")
	flags.StringVarP(&c.selector, "selector", "l", "", "Show the virtual machines with these labels, as kubectl")
	flags.StringSliceVar(&c.failOn, "fail-on", nil, "Exit with 1 if a pending change takes this: "+strings.Join(failures(), ", "))
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs, "fail-on": failures()})
	return cmd
}

func (c *statusCommand) validate(cmd *cobra.Command, args, outputs []string) error {
	help := options.SeeHelp(cmd)
	if len(args) > 0 && (c.all || c.selector != "") {
		return options.Usagef("name virtual machines, or use -A or -l%s", help)
	}
	for _, word := range c.failOn {
		if err := options.OneOf("value of --fail-on", word, failures()); err != nil {
			return err
		}
	}
	if _, err := names(args); err != nil {
		return options.Usagef("%w%s", err, help)
	}
	return options.OneOf("output", c.output, outputs)
}

// Where a status comes from.
const (
	fromAnnotation = "annotation"
	fromPlan       = "plan"
)

// status is what is printed of one virtual machine.
type status struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Running reports whether the virtual machine has an instance.
	Running bool `json:"running"`
	// RestartRequired is the message of KubeVirt's condition.
	RestartRequired string `json:"restartRequired,omitempty"`
	// Pending changes. Their times are only known from the annotation.
	Pending []v1alpha1.PendingChange `json:"pending"`
	// Omitted is the number of fields that the annotation omits.
	Omitted int `json:"omitted,omitempty"`
	// From is annotation or plan.
	From string `json:"from,omitempty"`
	// Notes say what the status lacks.
	Notes []string `json:"notes,omitempty"`

	failed bool
}

func (c *statusCommand) run(ctx context.Context, args []string) error {
	p, err := newPlanner(ctx, c.program, &c.sources)
	if err != nil {
		return err
	}
	all, err := c.statuses(ctx, p, args)
	if err != nil {
		return err
	}
	if err := c.write(all, len(args) > 0); err != nil {
		return err
	}
	return c.failure(all)
}

// statuses are those of the named VMs, or of all that are selected.
func (c *statusCommand) statuses(ctx context.Context, p *planner, args []string) ([]status, error) {
	if len(args) > 0 {
		list, err := names(args)
		if err != nil {
			return nil, err
		}
		var all []status
		for _, name := range list {
			vm, err := p.get(ctx, p.cluster.Namespace, name)
			if err != nil {
				return nil, fmt.Errorf("reading VirtualMachine %s/%s: %w", p.cluster.Namespace, name, err)
			}
			all = append(all, p.status(ctx, vm))
		}
		return all, nil
	}
	namespace := p.cluster.Namespace
	if c.all {
		namespace = metav1.NamespaceAll
	}
	var all []status
	query := metav1.ListOptions{LabelSelector: c.selector, Limit: machinesPage}
	for {
		page, err := p.cluster.Client.Resource(apikinds.VirtualMachines.GroupVersionResource()).Namespace(namespace).List(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("listing VirtualMachines: %w", err)
		}
		found := make([]status, len(page.Items))
		if err := parallel.Each(ctx, len(page.Items), func(i int) error {
			found[i] = p.status(ctx, &page.Items[i])
			return nil
		}); err != nil {
			return nil, err
		}
		all = append(all, found...)
		if query.Continue = page.GetContinue(); query.Continue == "" {
			return all, nil
		}
	}
}

// status reads the annotation of a VM, or compares it with its instance.
func (p *planner) status(ctx context.Context, object *unstructured.Unstructured) status {
	s := status{Namespace: object.GetNamespace(), Name: object.GetName(), Pending: []v1alpha1.PendingChange{}}
	vm := &v1.VirtualMachine{}
	if err := typed(object, vm); err != nil {
		return s.fails(fmt.Errorf("reading it: %w", err))
	}
	for i := range vm.Status.Conditions {
		if condition := &vm.Status.Conditions[i]; condition.Type == v1.VirtualMachineRestartRequired && condition.Status == corev1.ConditionTrue {
			s.RestartRequired = condition.Message
		}
	}
	pending, err := v1alpha1.PendingOf(vm.Annotations)
	if err == nil && pending != nil && pending.Generation == vm.Generation && len(pending.Changes) > 0 {
		s.Running, s.From, s.Pending, s.Omitted = true, fromAnnotation, pending.Changes, pending.Omitted
		return s
	}
	in, notes, err := references.Rollout(ctx, p.cluster.Objects, p.facts, vm, vm)
	if err != nil {
		return s.fails(err)
	}
	s.Notes = notes
	if in.Running == nil {
		return s
	}
	result := rollouts.Pending(in)
	for _, group := range result.Groups() {
		s.Pending = append(s.Pending, v1alpha1.PendingChange{Fields: group.Fields, Takes: string(group.First.Takes), Reason: group.First.Reason, WayOut: group.First.WayOut})
	}
	s.Running, s.From, s.Omitted = true, fromPlan, result.Omitted
	return s
}

func (s status) fails(err error) status {
	s.Notes, s.failed = append(s.Notes, err.Error()), true
	return s
}

// failure is an error if a VM could not be compared, or for the changes of --fail-on.
func (c *statusCommand) failure(all []status) error {
	failed, counts := 0, map[rollouts.Takes]int{}
	for i := range all {
		if all[i].failed {
			failed++
		}
		for k := range all[i].Pending {
			counts[rollouts.Takes(all[i].Pending[k].Takes)] += len(all[i].Pending[k].Fields) + all[i].Pending[k].More
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d virtual machines could not be compared", failed)
	}
	return failureOf(c.failOn, counts)
}
