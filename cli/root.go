package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/audit"
	"github.com/virtward/virtward/cli/domains"
	"github.com/virtward/virtward/cli/explain"
	"github.com/virtward/virtward/cli/goldenimages"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/cli/labels"
	"github.com/virtward/virtward/cli/lsp"
	"github.com/virtward/virtward/cli/migration"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/ova"
	"github.com/virtward/virtward/cli/playground"
	"github.com/virtward/virtward/cli/plugin"
	"github.com/virtward/virtward/cli/policy"
	"github.com/virtward/virtward/cli/programs"
	"github.com/virtward/virtward/cli/restorecheck"
	"github.com/virtward/virtward/cli/rollout"
	"github.com/virtward/virtward/cli/rules"
	"github.com/virtward/virtward/cli/status"
	"github.com/virtward/virtward/cli/template"
	"github.com/virtward/virtward/cli/uninstall"
	"github.com/virtward/virtward/cli/virtualimages"
	"github.com/virtward/virtward/cli/why"
)

//go:generate go run ./gen ../docs/cli

// Run executes a command line and returns the exit code. The first argument is the name of the program. The version is
// that of the program.
func Run(ctx context.Context, version string, args []string, streams genericiooptions.IOStreams) (code int) {
	return programs.Run(ctx, version, args, streams, newRoot)
}

// newRoot builds the whole command line.
func newRoot(program options.Program) *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-virtward", // the name of the binary, under which kubectl finds it
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: program.Name},
		Short:       "Show how virtual machines will run, and what is wrong with them",
		Long: `Show how virtual machines will run, and what is wrong with them.

Instancetypes and preferences are expanded, and fields are completed for the hypervisor and the architecture. Every field
has its source, and every finding its rule. The results are those of Virtward's webhooks in a cluster.

Only these commands change a cluster: disable, enable, policy apply, policy install, template process --create, template
create --watch, template approve, template revoke, rollout pause, rollout resume, image create,
image upload, uninstall and restore-check --approve.

The exit code is 0 for success, 1 if a virtual machine is rejected or a command fails, and 2 for invalid flags or arguments.`,
		Version: versions(program.Version), // --version, which newcomers try first
		Args:    options.OnlySubcommands,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(program.Streams.Out) // the completion commands keep it
	root.AddCommand(
		explain.NewCommand(program),
		domains.NewCommand(program),
		why.NewCommand(program),
		migration.NewMigratableCommand(program),
		migration.NewDrainCommand(program),
		labels.NewCommand(program),
		audit.NewCommand(program),
		policy.NewCommand(program),
		lsp.NewCommand(program),
		playground.NewCommand(program),
		plugin.NewCommand(program),
		template.NewCommand(program),
		ova.NewCommand(program),
		rollout.NewCommand(program),
		goldenimages.NewCommand(program),
		virtualimages.NewCommand(program),
		rules.NewCommand(program),
		status.NewCommand(program),
		killswitch.NewDisableCommand(program),
		killswitch.NewEnableCommand(program),
		uninstall.NewCommand(program),
		restorecheck.NewCommand(program),
		versionCommand(program),
	)
	addCompletion(root, program)
	checkHelp(root)
	return root
}

// checkHelp makes help for an unknown command an error. By default, cobra shows the help of the root command.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root { // cobra adds it to every command that has subcommands
		panic("the help command is missing")
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		if _, unknown, err := root.Find(args); err != nil || len(unknown) > 0 {
			return options.Usagef("unknown command %q: see %s --help", strings.Join(args, " "), root.CommandPath())
		}
		return nil
	}
}
