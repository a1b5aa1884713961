package policy

import (
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// NewCommand returns the command with its subcommands.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, test and apply policies for virtual machines",
		Long: `Write, test and apply policies for virtual machines.

A VirtualMachinePolicy evaluates virtual machines as they will run. These commands evaluate with the same code as Virtward's
webhooks in the cluster. All but apply and install work on files alone.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		testCommand(program),
		lintCommand(program),
		newCommand(program),
		applyCommand(program),
		installCommand(program),
	)
	return cmd
}

// disk are the files of this machine, by whatever name they were given on the command line: relative to the present
// directory, and with .. where it says so.
type disk struct{}

// Open implements fs.FS.
func (disk) Open(name string) (fs.File, error) { return os.Open(name) }
