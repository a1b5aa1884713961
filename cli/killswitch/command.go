package killswitch

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/cli/options"
)

// maxReason bounds what --reason takes, in bytes: it is kept in an annotation of every object, and shown in a table.
const maxReason = 1024

// command has the flags of disable, enable and status.
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
		Short: "Switch Virtward off in the cluster, at once",
		Long: `Switch Virtward off in the cluster, at once: nothing is completed, checked, evaluated or guarded any more.

It takes no answer from Virtward, and so works while it is dead. Every webhook of Virtward, every guard, and every
policy that was given to the API server gets a match condition that never holds, virtward.io/disabled, and an annotation
of that name with who, when and why. Nothing else is changed or deleted; enable takes these away again. An upgrade with
Helm leaves them in place.

KubeVirt's own checks stay, and running virtual machines are not touched. It takes the right to list, get and update
mutatingwebhookconfigurations, validatingwebhookconfigurations and validatingadmissionpolicies, which cluster admins
have.

It exits with 1 if something could not be switched off.`,
		Example: program.Examples(`  # Nobody can create virtual machines, and it must go on
  PROGRAM disable --reason "no replica starts, INC-4711"

  # What would be changed?
  PROGRAM disable --reason test --dry-run`),
		Args: func(cmd *cobra.Command, args []string) error {
			c.reason = strings.TrimSpace(c.reason)
			switch {
			case c.reason == "":
				return options.Usagef("say why, for whoever finds Virtward switched off: --reason TEXT")
			case len(c.reason) > maxReason:
				return options.Usagef("--reason: may have %d bytes at most, and has %d", maxReason, len(c.reason))
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
	cmd.Flags().StringVar(&c.reason, "reason", "", "Why, for whoever finds Virtward switched off")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "Ask the API server, and change nothing")
	return cmd
}

// NewEnableCommand returns the command enable.
func NewEnableCommand(program options.Program) *cobra.Command {
	c := newCommand(program)
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "Switch Virtward on again, after disable",
		Long: `Switch Virtward on again, after disable. It takes away what disable has added, and nothing else.

From then on, what the webhooks check is rejected while none of Virtward's replicas answers: enable warns if it finds
none that is ready. Objects that were written in the meantime were not checked; see that nobody has weakened
RuleSettings or policies while their guards were off.

It exits with 1 if something could not be switched on.`,
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
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "Ask the API server, and change nothing")
	return cmd
}

// NewStatusCommand returns the command status.
func NewStatusCommand(program options.Program) *cobra.Command {
	c := newCommand(program)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what of Virtward is on in the cluster, and what is switched off, and why",
		Long: `Show what of Virtward is on in the cluster, and what is switched off, and why: each webhook configuration, each
guard, and each policy that was given to the API server. CA says whether the API server can verify Virtward's
certificate.

It changes nothing, and exits with 0 whether Virtward is on or off.`,
		Example: program.Examples(`  PROGRAM status`),
		Args:    options.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := c.connect()
			if err != nil {
				return err
			}
			return b.Status(cmd.Context())
		},
	}
	options.AddClusterFlags(cmd, c.config, "", "")
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
