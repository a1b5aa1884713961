// Command virtward is the server. The chart deploys each of its subcommands.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
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
	root.AddCommand(webhookCommand(), controllerCommand(), exportCommand(), libraryCommand(), templatesCommand(), rolloutsCommand(), imagesCommand(), virtualImagesCommand(), releaseCommand())
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "virtward:", err)
		os.Exit(1)
	}
}
