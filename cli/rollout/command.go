package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/rollouts"
)

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show what a change does to running virtual machines, and control rollouts",
		Args:  options.OnlySubcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPlanCommand(program), newStatusCommand(program), newDiffCommand(program), newPauseCommand(program), newResumeCommand(program))
	return cmd
}

// planCommand has the flags of plan.
type planCommand struct {
	program options.Program
	sources options.Sources
	output  string
	failOn  []string
	set     []string
}

func outputs() []string {
	return []string{printers.Table, printers.YAML, printers.JSON}
}

// failing are the values of --fail-on.
var failing = map[string]rollouts.Takes{
	"restart": rollouts.Restart, "migration": rollouts.LiveOnMigration, "never": rollouts.Never, "blocked": rollouts.Blocked,
}

func failures() []string { return []string{"restart", "migration", "never", "blocked"} }

func newPlanCommand(program options.Program) *cobra.Command {
	c := &planCommand{program: program, sources: options.NewSources(), output: printers.Table}
	cmd := &cobra.Command{
		Use:   "plan (VM ... [--set FIELD=VALUE] | -f FILE ...)",
		Short: "Show when each change of a virtual machine reaches the running guest",
		Long: `Show when each change of a virtual machine reaches the running guest.

With -f, plan shows what happens if you apply the files: the cluster applies them as a dry run, as kubectl apply does, and
changes nothing. With names, plan shows what is not applied to these virtual machines yet: what differs from what runs, what is
in progress, and at what KubeVirt fails. With --set, it also shows the changes that you consider. A field is relative to
spec.template.spec, unless it starts with spec or metadata. Items of lists have their names in brackets.

A change takes one of these:

  Live             the guest gets it at once
  LiveOnMigration  the guest gets it with its next live migration
  Restart          the virtual machine must restart
  NextStart        the virtual machine is stopped
  Blocked          it waits until something else ends or exists
  Never            it has no effect, not even by a restart

With --fail-on, the exit code is 1 if a change takes one of the given values, so that CI can stop it. It is also 1 if a virtual
machine has no plan, for example because the cluster denies its file. Those of the others are printed.`,
		Example: program.Examples(`  # Show what happens to the running virtual machine if you apply a file
  PROGRAM rollout plan -f vm.yaml

  # Show what is pending
  PROGRAM rollout plan vm/db -n shop

  # Show what more sockets and another bus would do
  PROGRAM rollout plan vm/db --set domain.cpu.sockets=8 --set 'domain.devices.disks[data].disk.bus=virtio'

  # In CI, fail if a change restarts a virtual machine or has no effect
  PROGRAM rollout plan -f manifests -R --fail-on restart,never -o json`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			if c.sources.HasFiles() {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return options.CompleteNames(cmd, c.sources.Config, apikinds.VirtualMachines.GroupVersionResource())
		},
	}
	options.AddClusterFlags(cmd, c.sources.Config, "", "Namespace of virtual machines that name none")
	flags := cmd.Flags()
	c.sources.AddFileFlags(cmd, "virtual machines")
	flags.StringArrayVar(&c.set, "set", nil, "With names: the value of a field, as FIELD=VALUE, or FIELD- to remove it")
	flags.StringSliceVar(&c.failOn, "fail-on", nil, "Exit with 1 if a change takes this: "+strings.Join(failures(), ", "))
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs(), "fail-on": failures()})
	return cmd
}

func (c *planCommand) validate(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	if err := options.NamesOrFiles(cmd, args, c.sources.HasFiles()); err != nil {
		return err
	}
	if err := c.sources.ValidateFiles(cmd); err != nil {
		return err
	}
	if len(c.set) > 0 && len(args) == 0 {
		return options.Usagef("--set needs the name of a virtual machine%s", help)
	}
	if _, err := settings(c.set); err != nil {
		return options.Usagef("%w%s", err, help)
	}
	for _, word := range c.failOn {
		if err := options.OneOf("value of --fail-on", word, failures()); err != nil {
			return err
		}
	}
	if _, err := names(args); err != nil {
		return options.Usagef("%w%s", err, help)
	}
	return options.OneOf("output", c.output, outputs())
}

// names of virtual machines: NAME, vm/NAME or vm NAME.
func names(args []string) ([]string, error) {
	types := []string{"vm", "vms", "virtualmachine", "virtualmachines", "virtualmachines.kubevirt.io"}
	if len(args) > 1 && slices.Contains(types, args[0]) {
		args = args[1:]
	}
	found := make([]string, len(args))
	for i, arg := range args {
		kind, name, typed := strings.Cut(arg, "/")
		if !typed {
			kind, name = types[0], arg
		}
		if !slices.Contains(types, kind) || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is not the name of a virtual machine", arg)
		}
		found[i] = name
	}
	return found, nil
}

// run reads, plans and prints. It returns an error for --fail-on after it has printed everything.
func (c *planCommand) run(ctx context.Context, args []string) error {
	all, err := c.plans(ctx, args)
	if err != nil {
		return err
	}
	if len(all.plans) > 0 || c.output != printers.Table {
		if err := c.write(all); err != nil {
			return err
		}
	}
	return joined(all.failure(c.program), c.failure(all.plans))
}

// joined is one error with the texts of two.
func joined(first, second error) error {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	return fmt.Errorf("%w; %w", first, second)
}

// failure returns an error that counts the changes of --fail-on.
func (c *planCommand) failure(plans []plan) error {
	counts := map[rollouts.Takes]int{}
	for i := range plans {
		for k := range plans[i].Changes {
			counts[plans[i].Changes[k].Takes]++
		}
		if plans[i].Omitted > 0 && len(c.failOn) > 0 {
			return fmt.Errorf("virtual machine %s/%s has more than %d changes", plans[i].Namespace, plans[i].Name, rollouts.MaxChanges)
		}
	}
	return failureOf(c.failOn, counts)
}

// failureOf returns an error that counts the changes of --fail-on.
func failureOf(failOn []string, counts map[rollouts.Takes]int) error {
	var found []string
	for _, word := range failures() {
		if count := counts[failing[word]]; count > 0 && slices.Contains(failOn, word) {
			found = append(found, fmt.Sprintf("%d %s", count, failing[word]))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("changes of --fail-on: %s", strings.Join(found, ", "))
}
