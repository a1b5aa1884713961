// Command virtward is the server. The chart deploys each of its subcommands.
package main

import (
	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cmd/internal/startup"
)

// version is set by the linker.
var version = "development"

func main() {
	root := &cobra.Command{
		Use:           "virtward",
		Short:         "The admission and policy platform for virtual machines on Kubernetes",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(commands()...)
	startup.Main(root)
}

// commands returns the command of each process.
func commands() []*cobra.Command {
	return []*cobra.Command{
		webhookCommand(), controllerCommand(), exportCommand(), libraryCommand(), templatesCommand(), templateImportsCommand(), templateExportsCommand(), rolloutsCommand(), imagesCommand(),
		virtualImagesCommand(), releaseCommand(),
	}
}
