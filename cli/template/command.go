package template

import (
	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Work with templates of virtual machines",
		Long: `Work with templates of virtual machines: VirtualMachineTemplates of template.kubevirt.io.

process renders a template with values for its parameters, parameters lists them, and convert makes a
VirtualMachineTemplate of an OpenShift Template.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProcess(program), newParameters(program), newConvert(program))
	return cmd
}
