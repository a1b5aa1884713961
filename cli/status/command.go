package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

func outputs() []string {
	return []string{printers.Table, printers.JSON, printers.YAML}
}

// command has the flags of status.
type command struct {
	program  options.Program
	config   *genericclioptions.ConfigFlags
	output   string
	watch    bool
	interval time.Duration
}

// leastInterval bounds --interval.
const leastInterval = time.Second

// NewCommand returns the command status.
func NewCommand(program options.Program) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	config.Namespace = nil // the webhooks name the namespace of the installation
	c := &command{program: program, config: config, output: printers.Table}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Check the parts of Virtward in the cluster, and show how to repair them",
		Long: `Check the parts of Virtward in the cluster, and show how to repair them.

status checks with your permissions, and changes nothing:

  switch, guards   the webhook configurations and the guards: on, or who switched them off, when and why
  answers          whether the webhook answers the API server: a dry run that it rejects
  processes        the replicas of each process, and the answers of their pods
  certificates     the CA bundles and the serving certificates, and when they end
  calls            calls of the webhooks that failed since the start of the API server
  apiservices      the APIs of VM templates
  definitions      the definitions of Virtward's kinds, and their release
  policies         policies that are not active, or fail
  denials          the policies that denied most requests
  exceptions       exceptions that end soon, or have no effect
  network          whether a NetworkPolicy protects the port of the webhook
  templates        whether virt-operator serves VM templates instead
  versions         Kubernetes, KubeVirt and CDI, and what they support

A result is ok, a warning, an error, or unknown. It is unknown if your permissions do not suffice: the message says which one is
missing.

The exit code is 1 if there is an error, or if the cluster has no Virtward. What disable switched off is a warning.`,
		Example: program.Examples(`  PROGRAM status

  # Show it again whenever it changes
  PROGRAM status --watch

  # List what is wrong
  PROGRAM status -o json | jq '.results[] | select(.state == "error")'`),
		Args: func(cmd *cobra.Command, args []string) error {
			if c.interval < leastInterval {
				return options.Usagef("--interval: must be at least %s, and is %s", leastInterval, c.interval)
			}
			if err := options.OneOf("output", c.output, outputs()); err != nil {
				return err
			}
			return options.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	options.AddClusterFlags(cmd, c.config, "", "")
	flags := cmd.Flags()
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	flags.BoolVarP(&c.watch, "watch", "w", false, "Check again, and print when something changes, until you interrupt it")
	flags.DurationVar(&c.interval, "interval", 5*time.Second, "Time between two checks of --watch")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	return cmd
}

func (c *command) run(ctx context.Context) error {
	cluster, err := c.connect()
	if err != nil {
		return err
	}
	read := func() ([]Result, error) {
		cluster.now = time.Now()
		return cluster.results(ctx), cluster.installed(ctx)
	}
	if c.watch {
		return c.follow(ctx, read)
	}
	results, err := read()
	if err != nil {
		return err
	}
	return errors.Join(c.write(c.program.Streams.Out, results), failure(results))
}

// follow checks again until the context ends, and prints what differs from the last time.
func (c *command) follow(ctx context.Context, read func() ([]Result, error)) error {
	var last []Result
	for first := true; ; first = false {
		results, err := read()
		if ctx.Err() != nil {
			return failure(last)
		}
		if err != nil {
			return err
		}
		if first || !slices.Equal(last, results) {
			if !first && c.output == printers.Table {
				fmt.Fprintln(c.program.Streams.Out)
			}
			if err := c.write(c.program.Streams.Out, results); err != nil {
				return err
			}
		}
		last = results
		select {
		case <-ctx.Done():
			return failure(last)
		case <-time.After(c.interval):
		}
	}
}

// failure returns an error if a result is one.
func failure(results []Result) error {
	wrong := 0
	for i := range results {
		if results[i].State == Error {
			wrong++
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%s wrong", texts.Count(wrong, "thing is", "things are"))
}

// connect returns the cluster that the flags select.
func (c *command) connect() (*cluster, error) {
	connected, err := options.Connect(c.config)
	if err != nil {
		return nil, err
	}
	config, err := options.RESTConfig(c.config)
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	raw := func(ctx context.Context, path string) (io.ReadCloser, error) {
		return client.RESTClient().Get().AbsPath(path).MaxRetries(0).Stream(ctx)
	}
	return &cluster{client: connected.Client, raw: raw, program: c.program.Name}, nil
}
