package killswitch

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/cli/options"
)

// maxReason is the length of --reason in bytes. Every object has it in an annotation, and a table shows it.
const maxReason = 1024

// command has the flags of disable and enable.
type command struct {
	program options.Program
	reason  string
	dryRun  bool
	config  *genericclioptions.ConfigFlags
}

func newCommand(program options.Program) *command {
	config := genericclioptions.NewConfigFlags(true)
	config.Namespace = nil // webhook configurations and guards have no namespace
	return &command{program: program, config: config}
}

// NewDisableCommand returns the command disable.
func NewDisableCommand(program options.Program) *cobra.Command {
	c := newCommand(program)
	cmd := &cobra.Command{
		Use:   "disable --reason TEXT",
		Short: "Switch Virtward off in the cluster",
		Long: `Switch Virtward off in the cluster: it completes and validates no objects any more.

disable does not need a running Virtward. It adds a match condition that is never true, virtward.io/disabled, to all
webhooks of Virtward, to its guards, and to the ValidatingAdmissionPolicies that it exports. An annotation of the same name
has the user, the time and the reason. enable removes both; an upgrade with Helm keeps them.

If the API of VM templates does not answer, disable also removes its APIServices: otherwise Kubernetes would finish the deletion of no
namespace. enable creates them again. Templates stay. It changes nothing else.

The guards of VirtualMachineRollouts stay active, so no rollout can be created or continued meanwhile: a rollout acts for the
user that these guards verify. The guards of GoldenImageCatalogs, of VirtualImages and of VM templates stay active too, so approved-only
namespaces stay closed. KubeVirt's own webhooks stay active, and running virtual machines do not change. disable requires permission to list, get and update
mutatingwebhookconfigurations, validatingwebhookconfigurations and validatingadmissionpolicies, and to list and delete apiservices.

The exit code is 1 if an object could not be changed.`,
		Example: program.Examples(`  # Let users create virtual machines while Virtward does not answer
  PROGRAM disable --reason "no replica starts, INC-4711"

  # Show what would change
  PROGRAM disable --reason test --dry-run`),
		Args: func(cmd *cobra.Command, args []string) error {
			c.reason = strings.TrimSpace(c.reason)
			switch {
			case c.reason == "":
				return options.Usagef("--reason is required")
			case len(c.reason) > maxReason:
				return options.Usagef("--reason: must have at most %d bytes, and has %d", maxReason, len(c.reason))
			}
			return options.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := c.connect()
			if err != nil {
				return err
			}
			return b.Disable(cmd.Context(), c.reason)
		},
	}
	options.AddClusterFlags(cmd, c.config, "", "")
	cmd.Flags().StringVar(&c.reason, "reason", "", "Reason to switch Virtward off, which status shows")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "Send the changes to the API server as a dry run")
	return cmd
}

// NewEnableCommand returns the command enable.
func NewEnableCommand(program options.Program) *cobra.Command {
	c := newCommand(program)
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "Switch Virtward on again",
		Long: `Switch Virtward on again: remove what disable added, and create the APIServices again that it removed.

The API server denies requests again while no replica of Virtward answers. enable warns if no replica is ready. Objects that
users wrote in the meantime were not validated. Check RuleSettings and policies: their guards were off too.

The exit code is 1 if an object could not be changed.`,
		Example: program.Examples(`  PROGRAM enable`),
		Args:    options.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := c.connect()
			if err != nil {
				return err
			}
			return b.Enable(cmd.Context())
		},
	}
	options.AddClusterFlags(cmd, c.config, "", "")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "Send the changes to the API server as a dry run")
	return cmd
}

// connect returns a switch for the cluster that the flags select.
func (c *command) connect() (*Switch, error) {
	cluster, err := options.Connect(c.config)
	if err != nil {
		return nil, err
	}
	return &Switch{Client: cluster.Client, Now: time.Now, DryRun: c.dryRun, Program: c.program.Name, Out: c.program.Streams.Out, ErrOut: c.program.Streams.ErrOut}, nil
}
