package plugin

import (
	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// NewCommand returns the command with its subcommands.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Check and test KubeVirt's Plugins before they change virtual machines",
		Long: `Check and test KubeVirt's Plugins before they change virtual machines.

A Plugin changes the libvirt domain of virtual machines after their admission, when they start. These commands evaluate its CEL
domain hooks as KubeVirt 1.9 does. Only diff accesses a cluster.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(lintCommand(program), testCommand(program), diffCommand(program))
	return cmd
}
