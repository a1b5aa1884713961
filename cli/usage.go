package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageWidth is where the descriptions of flags are broken, in columns.
const usageWidth = 100

// showApart makes the help of a command list the flags of the cluster in a section of their own, all but
// those that are named.
func showApart(cmd *cobra.Command, clusterFlags *pflag.FlagSet, but ...string) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		own, others := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if clusterFlags.Lookup(f.Name) == f && !slices.Contains(but, f.Name) {
				others.AddFlag(f)
			} else {
				own.AddFlag(f)
			}
		})
		what := "those of kubectl"
		if strings.HasPrefix(cmd.Use, "explain ") { // others ask the cluster in any case
			what += ", for TYPE/NAME and --from-cluster"
		}
		_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n\nFlags:\n%s\nCluster flags (%s):\n%s",
			cmd.UseLine(), cmd.Example, own.FlagUsagesWrapped(usageWidth), what, others.FlagUsagesWrapped(usageWidth))
		return err
	})
}
