package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/audit"
	"github.com/virtward/virtward/cli/conformance"
	"github.com/virtward/virtward/cli/explain"
	"github.com/virtward/virtward/cli/image"
	"github.com/virtward/virtward/cli/images"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/policy"
	"github.com/virtward/virtward/cli/rollout"
	"github.com/virtward/virtward/cli/rules"
	"github.com/virtward/virtward/cli/template"
)

// programName is the name of the binary, under which kubectl finds it.
const programName = "kubectl-virtward"

// displayName returns what users type to call the program. kubectl finds programs whose names begin with kubectl-.
func displayName(argv0 string) string {
	base := strings.TrimSuffix(filepath.Base(argv0), ".exe")
	if plugin, ok := strings.CutPrefix(base, "kubectl-"); ok && plugin != "" {
		return "kubectl " + strings.ReplaceAll(plugin, "-", " ")
	}
	return base
}

// newRoot builds the whole command line.
func newRoot(argv0, version string, streams genericiooptions.IOStreams) *cobra.Command {
	program := options.Program{Name: displayName(argv0), Version: version, Streams: streams}
	root := &cobra.Command{
		Use:         programName,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: program.Name},
		Short:       "Show how virtual machines will run, and what is wrong with them",
		Long: `Show how virtual machines will run, and what is wrong with them.

Instancetypes and preferences are expanded, and fields are completed for the hypervisor and the architecture. Every field
has its source, and every finding its rule. The results are those of Virtward's webhooks in a cluster.

Only these commands change a cluster: disable, enable, policy apply, policy install, template process --create, template
create --watch, template approve, template revoke, rollout pause, rollout resume, image create and
image upload.

The exit code is 0 for success, 1 if a virtual machine is rejected or a command fails, and 2 for invalid flags or arguments.`,
		Version:       versions(version), // --version, which newcomers try first
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          options.OnlySubcommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return options.Usagef("%w: see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		explain.NewCommand(program),
		audit.NewCommand(program),
		policy.NewCommand(program),
		template.NewCommand(program),
		rollout.NewCommand(program),
		images.NewCommand(program),
		image.NewCommand(program),
		rules.NewCommand(program),
		conformance.NewCommand(program),
		killswitch.NewStatusCommand(program),
		killswitch.NewDisableCommand(program),
		killswitch.NewEnableCommand(program),
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
