package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/killswitch"
)

// maxReason bounds what --reason takes, in bytes: it is kept in an annotation of every object, and shown in a table.
const maxReason = 1024

// switchOptions are the flags of disable, enable and status.
type switchOptions struct {
	name    string
	reason  string
	dryRun  bool
	config  *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
}

func disableCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	o := &switchOptions{name: name, streams: streams, config: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "disable --reason TEXT",
		Short: "Switch Virtward off in the cluster, at once",
		Long: `Switch Virtward off in the cluster, at once: nothing is completed, checked, evaluated or guarded any more.

It takes no answer from Virtward, and so works while it is dead. Every webhook of Virtward, every guard, and every
policy that was given to the API server gets a match condition that never holds, virtward.io/disabled, and an annotation
of that name with who, when and why. Nothing else is changed or deleted; enable takes these away again. An upgrade with
Helm leaves them in place.

KubeVirt's own checks stay, and running virtual machines are not touched. It takes the right to list, get and update
mutatingwebhookconfigurations, validatingwebhookconfigurations and validatingadmissionpolicies, which cluster admins
have.

It exits with 1 if something could not be switched off.`,
		Example: example(name, `  # Nobody can create virtual machines, and it must go on
  PROGRAM disable --reason "no replica starts, INC-4711"

  # What would be changed?
  PROGRAM disable --reason test --dry-run`),
		Args: func(cmd *cobra.Command, args []string) error {
			o.reason = strings.TrimSpace(o.reason)
			switch {
			case o.reason == "":
				return usage("say why, for whoever finds Virtward switched off: --reason TEXT")
			case len(o.reason) > maxReason:
				return usage("--reason: may have %d bytes at most, and has %d", maxReason, len(o.reason))
			}
			return noArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.connect()
			if err != nil {
				return err
			}
			return b.Disable(cmd.Context(), o.reason)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.reason, "reason", "", "Why, for whoever finds Virtward switched off")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Ask the API server, and change nothing")
	return cmd
}

func enableCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	o := &switchOptions{name: name, streams: streams, config: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "Switch Virtward on again, after disable",
		Long: `Switch Virtward on again, after disable. It takes away what disable has added, and nothing else.

From then on, what the webhooks check is rejected while none of Virtward's replicas answers: enable warns if it finds
none that is ready. Objects that were written in the meantime were not checked; see that nobody has weakened
RuleSettings or policies while their guards were off.

It exits with 1 if something could not be switched on.`,
		Example: example(name, `  PROGRAM enable`),
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.connect()
			if err != nil {
				return err
			}
			return b.Enable(cmd.Context())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Ask the API server, and change nothing")
	return cmd
}

func statusCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	o := &switchOptions{name: name, streams: streams, config: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what of Virtward is on in the cluster, and what is switched off, and why",
		Long: `Show what of Virtward is on in the cluster, and what is switched off, and why: each webhook configuration, each
guard, and each policy that was given to the API server. CA says whether the API server can verify Virtward's
certificate.

It changes nothing, and exits with 0 whether Virtward is on or off.`,
		Example: example(name, `  PROGRAM status`),
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := o.connect()
			if err != nil {
				return err
			}
			return b.Status(cmd.Context())
		},
	}
	o.addFlags(cmd)
	return cmd
}

// addFlags adds those of kubectl, in a section of their own.
func (o *switchOptions) addFlags(cmd *cobra.Command) {
	clusterFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.config.Namespace = nil // nothing here is in one
	o.config.AddFlags(clusterFlags)
	cmd.Flags().AddFlagSet(clusterFlags)
	showApart(cmd, clusterFlags)
}

// connect prepares to change the cluster.
func (o *switchOptions) connect() (*killswitch.Switch, error) {
	c, err := connect(o.config)
	if err != nil {
		return nil, err
	}
	return &killswitch.Switch{Client: c.Client, Now: time.Now, DryRun: o.dryRun, Program: o.name, Out: o.streams.Out, ErrOut: o.streams.ErrOut}, nil
}
