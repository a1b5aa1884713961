package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/library"
)

// libraryOptions are the flags of `virtward library`.
type libraryOptions struct {
	process
	folder       string
	awaitWebhook bool
	timeout      time.Duration
}

func libraryCommand() *cobra.Command {
	o := &libraryOptions{}
	cmd := &cobra.Command{
		Use:   "library",
		Short: "Create the policies of a folder, and end",
		Long: `Creates the policies of a folder, one in each file, and ends. The chart runs it once, after the first installation: Helm
can create policies only after their kind, and they are validated only after the webhooks answer. Policies that exist do
not change. It uses the kubeconfig in $KUBECONFIG, or the service account of its pod.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *libraryOptions) addFlags(flags *pflag.FlagSet) {
	o.log.AddFlags(flags)
	flags.StringVar(&o.folder, "folder", "", "folder with the policies")
	flags.BoolVar(&o.awaitWebhook, "await-webhook", true, "wait until the webhook validates policies")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "maximum time for everything")
}

func (o *libraryOptions) run(ctx context.Context) error {
	if o.folder == "" {
		return errors.New("--folder is empty: name the folder with the policies")
	}
	log, config, err := o.begin()
	if err != nil {
		return err
	}
	policies, err := library.Read(os.DirFS(o.folder))
	if err != nil {
		return fmt.Errorf("reading the policies: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not ready after %s", o.timeout))
	defer cancel()
	api, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	installer := library.Installer{Client: api, Log: log, AwaitWebhook: o.awaitWebhook, Interval: 2 * time.Second}
	return installer.Install(ctx, policies)
}
