// Command virtward is the server. Each of its subcommands is a role that the chart deploys.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is stamped by the linker.
var version = "development"

func main() {
	root := &cobra.Command{
		Use:           "virtward",
		Short:         "The admission and policy platform for virtual machines on Kubernetes",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(webhookCommand(), controllerCommand(), exportCommand())
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "virtward:", err)
		os.Exit(1)
	}
}
