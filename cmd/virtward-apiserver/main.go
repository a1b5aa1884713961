// Command virtward-apiserver serves the aggregated API of VM templates. It is a program of its own: the libraries of
// Kubernetes' API servers would double the memory that the webhook's process has at its start.
package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/virtward/virtward/apiserver"
	"github.com/virtward/virtward/cmd/internal/startup"
)

// version is set by the linker.
var version = "development"

func main() { startup.Main(command()) }

func command() *cobra.Command {
	options, log := apiserver.NewOptions(version), &startup.Log{}
	cmd := &cobra.Command{
		Use:   "virtward-apiserver",
		Short: "Serve the aggregated API of VM templates",
		Long: `Serves the API subresources.template.kubevirt.io: process, create, approve and revoke of VM templates. It runs behind
kube-apiserver, which authenticates users; it is registered with an APIService for each version. It reads the cluster
with --kubeconfig, or as the service account of its pod.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), options, log)
		},
	}
	options.AddFlags(cmd.Flags())
	log.AddFlags(cmd.Flags())
	return cmd
}

func run(ctx context.Context, options *apiserver.Options, log *startup.Log) error {
	if err := options.Validate(); err != nil {
		return err
	}
	logger, err := log.Begin()
	if err != nil {
		return err
	}
	klog.SetLogger(logger)
	logger.Info("starting", "version", version)
	return options.Run(ctx)
}
