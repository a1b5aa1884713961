package options

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// usageWidth is the number of columns at which descriptions of flags are wrapped.
const usageWidth = 100

// Values of --dry-run of commands that create an object.
const (
	DryRunNone   = "none"
	DryRunClient = "client"
	DryRunServer = "server"
)

// DryRuns are the values of --dry-run.
func DryRuns() []string { return []string{DryRunNone, DryRunClient, DryRunServer} }

// Values of --unknown-fields.
const (
	unknownFieldsError = "error"
	unknownFieldsWarn  = "warn"
)

// UnknownFieldsModes are the values of --unknown-fields.
func UnknownFieldsModes() []string { return []string{unknownFieldsError, unknownFieldsWarn} }

// Architectures are the values of --arch.
func Architectures() []string { return architectures.Names() }

// RolloutStrategies are the values of --rollout-strategy.
func RolloutStrategies() []string {
	return []string{string(v1.VMRolloutStrategyLiveUpdate), string(v1.VMRolloutStrategyStage)}
}

// CompleteFlags offers values of flags to the completion of shells. It panics if the command lacks a flag.
func CompleteFlags(cmd *cobra.Command, values map[string][]string) {
	for flag, words := range values {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err)
		}
	}
}

// CompleteFiles offers files for the arguments of a command.
func CompleteFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// AddClusterFlags adds the flags of kubectl that select a cluster. The help lists them in a section of their own, whose
// title ends with purpose. The flag --namespace is listed with the command's own flags, described by namespaceUsage.
func AddClusterFlags(cmd *cobra.Command, config *genericclioptions.ConfigFlags, purpose, namespaceUsage string) {
	clusterFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(clusterFlags)
	cmd.Flags().AddFlagSet(clusterFlags)
	if namespace := cmd.Flags().Lookup("namespace"); namespace != nil {
		namespace.Usage = namespaceUsage
		if err := cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return namespaces(cmd.Context(), config), cobra.ShellCompDirectiveNoFileComp
		}); err != nil {
			panic(err)
		}
	}

	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		own, others := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if clusterFlags.Lookup(f.Name) == f && f.Name != "namespace" {
				others.AddFlag(f)
			} else {
				own.AddFlag(f)
			}
		})
		_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n\nFlags:\n%s\nCluster flags (those of kubectl%s):\n%s",
			cmd.UseLine(), cmd.Example, own.FlagUsagesWrapped(usageWidth), purpose, others.FlagUsagesWrapped(usageWidth))
		return err
	})
}

// completionTimeout bounds how long a shell waits for names of namespaces.
const completionTimeout = 2 * time.Second

// namespaces returns the names of the namespaces of the cluster; none if it cannot be read.
func namespaces(ctx context.Context, config *genericclioptions.ConfigFlags) (names []string) {
	cluster, err := Connect(config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := cluster.Client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
