package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/audit"
	"github.com/virtward/virtward/cli/conformance"
	"github.com/virtward/virtward/cli/explain"
	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/policy"
	"github.com/virtward/virtward/cli/rules"
	"github.com/virtward/virtward/cli/template"
)

// programName is the name of the binary, under which kubectl finds it.
const programName = "kubectl-virtward"

// displayName is what to type to get here: kubectl finds programs whose names begin with kubectl-.
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
		Short:       "Explain how virtual machines will really run, and whether they could",
		Long: `Explain how virtual machines will really run: expanded with their instancetypes and preferences, and
completed for the cluster's hypervisor and their architecture, with the source of every field. And whether they
could: what is wrong stands at its field, with the rule that says so.

It computes with the same code as Virtward's webhooks in the cluster, and changes nothing there but by commands that
say so, such as disable.
It exits with 0 when all is well, 1 on rejections, disagreement or failure, and 2 when it is called wrongly.`,
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

// checkHelp makes help of a command that there is not an error; cobra would show the help of the root.
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
