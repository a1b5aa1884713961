package cli

import (
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func policyCommand(name, version string, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, test and apply policies for virtual machines",
		Long: `Write, test and apply policies for virtual machines.

A VirtualMachinePolicy evaluates virtual machines as they will run. These commands evaluate with the same code as Virtward's
webhooks in the cluster. All but apply and install work on files alone.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q: see %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		policyTestCommand(name, streams),
		policyLintCommand(name, version, streams),
		policyNewCommand(name, streams),
		policyApplyCommand(name, streams),
		policyInstallCommand(name, streams),
	)
	return cmd
}

// disk are the files of this machine, by whatever name they were given on the command line: relative to the present
// directory, and with .. where it says so.
type disk struct{}

// Open implements fs.FS.
func (disk) Open(name string) (fs.File, error) { return os.Open(name) }
