package policy

import (
	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// NewCommand returns the command with its subcommands.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, test and apply policies for virtual machines",
		Long: `Write, test and apply policies for virtual machines.

A VirtualMachinePolicy evaluates virtual machines as they will run. These commands evaluate as Virtward's webhooks do.
Only apply, install and exempt access a cluster.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		testCommand(program),
		lintCommand(program),
		newCommand(program),
		convertCommand(program),
		evalCommand(program),
		applyCommand(program),
		installCommand(program),
		exemptCommand(program),
	)
	return cmd
}
