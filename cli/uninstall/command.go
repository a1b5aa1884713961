package uninstall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/metadata"

	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
)

func outputs() []string { return []string{printers.Table, printers.JSON, printers.YAML} }

// command has the flags of uninstall.
type command struct {
	program     options.Program
	config      *genericclioptions.ConfigFlags
	choices     Choices
	helm        string
	output      string
	dryRun, yes bool
	// isTerminal reports whether a person can answer on standard input.
	isTerminal func() bool
}

// NewCommand returns the command uninstall.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, config: genericclioptions.NewConfigFlags(true), helm: "helm", output: printers.Table, isTerminal: func() bool {
		file, ok := program.Streams.In.(*os.File)
		return ok && term.IsTerminal(int(file.Fd()))
	}}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Virtward from the cluster, and say what is left",
		Long: `Remove Virtward from the cluster, and say what is left.

uninstall shows the steps, in order, and what they leave. Then it asks for confirmation. It runs "helm uninstall" if Helm installed
Virtward, and removes what Helm does not: Reports, Leases, and what an installation without Helm, or without its Job, leaves. It
changes no virtual machine.

The definitions of Virtward's kinds and all of their objects stay, and so do policies that are exported to the API server.
--delete-definitions and --delete-exports delete them. In approved-only namespaces, users can create any virtual machine afterwards:
confirm that with --open-namespaces.

uninstall acts with your permissions, and works while Virtward is down. A step that fails ends it. It continues where it ended when you
run it again. The exit code is 1 if something could not be read or done.`,
		Example: program.Examples(`  # Show what would be done, and what would be left
  PROGRAM uninstall --dry-run

  # In a script
  PROGRAM uninstall --yes

  # Remove everything, with all policies and all VM templates
  PROGRAM uninstall --delete-definitions --delete-exports`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := options.OneOf("output", c.output, outputs()); err != nil {
				return err
			}
			return options.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.dryRun, "dry-run", false, "Show the steps and what they leave, and change nothing")
	flags.BoolVarP(&c.yes, "yes", "y", false, "Uninstall without confirmation")
	flags.BoolVar(&c.choices.DeleteDefinitions, "delete-definitions", false, "Delete the definitions of Virtward's kinds too, with all of their objects, also all VM templates")
	flags.BoolVar(&c.choices.DeleteExports, "delete-exports", false, "Delete the native policies of policies with exportTo too")
	flags.BoolVar(&c.choices.OpenNamespaces, "open-namespaces", false, "Confirm that users can create any virtual machine in approved-only namespaces afterwards")
	flags.StringVar(&c.helm, "helm", c.helm, "Path of Helm")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.AddClusterFlags(cmd, c.config, "", "Namespace of the release; by default the one that Virtward's objects name")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	return cmd
}

func (c *command) run(ctx context.Context) error {
	reader, err := c.connect()
	if err != nil {
		return err
	}
	inventory, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	plan := PlanOf(inventory, c.choices)
	out, errOut := c.program.Streams.Out, c.program.Streams.ErrOut
	switch {
	case len(plan.Steps) == 0 && len(inventory.Objects[definitions]) == 0 && len(plan.Unread) == 0:
		return killswitch.NotInstalled()
	case c.dryRun:
		if err := write(out, c.output, plan); err != nil {
			return err
		}
		notes(errOut, plan)
		return unread(plan)
	}
	if err := c.confirm(plan); err != nil {
		return err
	}
	h := &helm{program: c.helm, config: c.config}
	runner := &Runner{
		Reader: reader, Choices: c.choices, Helm: h.uninstall, ErrOut: errOut, Settle: 3 * time.Second, Pause: time.Second, Patience: 2 * time.Minute,
	}
	left, err := runner.Run(ctx)
	if left != nil {
		err = errors.Join(err, write(out, c.output, left))
	}
	if err != nil {
		return err
	}
	return unread(left)
}

// unread is an error if something could not be read: then the plan can lack objects.
func unread(plan *Plan) error {
	if len(plan.Unread) == 0 {
		return nil
	}
	return fmt.Errorf("some objects could not be read: see above, such as %s", plan.Unread[0])
}

// confirm returns an error unless the flags or the user confirm the plan.
func (c *command) confirm(plan *Plan) error {
	errOut := c.program.Streams.ErrOut
	if !c.yes || len(plan.Needs) > 0 {
		if err := write(errOut, printers.Table, plan); err != nil {
			return err
		}
	}
	notes(errOut, plan)
	switch {
	case len(plan.Needs) > 0:
		return options.Usagef("add %s", plan.Needs[0].Flag)
	case c.yes:
		return nil
	case !c.isTerminal():
		return options.Usagef("add --yes to uninstall without confirmation, or --dry-run to change nothing")
	}
	fmt.Fprint(errOut, "Uninstall Virtward? [y/N] ")
	answer, err := bufio.NewReader(io.LimitReader(c.program.Streams.In, 16)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return errors.New("not uninstalled")
	}
	return nil
}

// connect returns a reader of the cluster that the flags select.
func (c *command) connect() (*Reader, error) {
	cluster, err := options.ConnectWarning(c.config, c.program.Streams.ErrOut)
	if err != nil {
		return nil, err
	}
	config, err := options.RESTConfig(c.config)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 300
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &Reader{Metadata: client, Dynamic: cluster.Client, Namespace: *c.config.Namespace}, nil
}
