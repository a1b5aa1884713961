package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// pluginScript is the program that kubectl calls to complete the words after "kubectl virtward".
const pluginScript = `#!/bin/sh
# Completes "kubectl virtward": put this file on the PATH as kubectl_complete-virtward, executable.
exec kubectl-virtward __complete "$@"
`

// addCompletion adds cobra's completion command, and to it the script for kubectl. The arguments of a command are no files,
// unless it completes them itself.
func addCompletion(root *cobra.Command, program options.Program) {
	root.InitDefaultCompletionCmd("completion")
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root { // cobra adds it to every command that has subcommands
		panic("the completion command is missing")
	}
	completion.Short = "Print a shell completion script"
	completion.Long = fmt.Sprintf(`Print a shell completion script.

The scripts for bash, zsh, fish and powershell complete kubectl-virtward. To complete "kubectl virtward", set up the
completion of kubectl (see kubectl completion --help), and put a program named kubectl_complete-virtward on the PATH:

  %s completion kubectl > kubectl_complete-virtward
  chmod +x kubectl_complete-virtward
  sudo mv kubectl_complete-virtward /usr/local/bin/`, program.Name)
	completion.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return options.Usagef("unknown shell %q: see %s --help", args[0], cmd.CommandPath())
		}
		return nil
	}
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, shell := range completion.Commands() {
		shell.Args = options.NoArguments
	}
	completion.AddCommand(&cobra.Command{
		Use:     "kubectl",
		Short:   `Print the program that completes "kubectl virtward"`,
		Example: "  " + program.Name + " completion kubectl > /usr/local/bin/kubectl_complete-virtward",
		Args:    options.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), pluginScript)
			return err
		},
	})
	completeNoFiles(root)
}

// completeNoFiles keeps shells from offering files for arguments of a command and of those below it.
func completeNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, below := range cmd.Commands() {
		completeNoFiles(below)
	}
}
