package template

import (
	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/artifacts"
	"github.com/virtward/virtward/cli/options"
)

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Work with templates of virtual machines",
		Long: `Work with templates of virtual machines: VirtualMachineTemplates of template.kubevirt.io.

process renders a template with values for its parameters, and parameters lists them. create makes a template of a virtual
machine, import of a virtual appliance, and convert of an OpenShift Template. export downloads a template with its disks as an OVA.
approve and revoke decide whether users may use a template where templates must be approved. list shows the templates of a cluster, or
of a registry.

push writes templates to a registry as OCI artifacts, pull reads them, and copy copies them. referrers lists their signatures.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProcess(program), newParameters(program), newList(program), newCapture(program), newImport(program), newExport(program), newApprove(program), newRevoke(program), newConvert(program),
		artifacts.NewPush(program), artifacts.NewPull(program), artifacts.NewCopy(program), artifacts.NewReferrers(program))
	return cmd
}
