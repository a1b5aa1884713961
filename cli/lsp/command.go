package lsp

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator/offline"
)

// command has the flags of lsp.
type command struct {
	program options.Program
	sources options.Sources
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, sources: options.NewSources()}
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Show in an editor what is wrong with virtual machines and policies, while you type",
		Long: `Show in an editor what is wrong with virtual machines and policies, while you type.

lsp is a language server: an editor starts it, and speaks the Language Server Protocol with it on standard input and output.
Findings are those of explain -f and of policy lint. Instancetypes, preferences, policies and other configuration are those of
the folder that is open in the editor; if several files have the same object, the nearest one counts.

It also completes fields, values and names, documents fields, shows what layers fill in, goes to definitions, and corrects
misspelled fields and values.

lsp reads no cluster unless you use --from-cluster. It writes no files, and follows no symbolic links out of the folder.
docs/editors.md has the configuration of editors.`,
		Example: program.Examples(`  # Assume the version of KubeVirt and the hypervisor of your cluster
  PROGRAM lsp --kubevirt-version 1.8 --hypervisor kvm`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	options.AddClusterFlags(cmd, c.sources.Config, ", for --from-cluster", "Namespace of objects that name none")
	c.sources.AddFactsFlags(cmd)
	cmd.Flags().BoolVar(&c.sources.FromCluster, "from-cluster", false, "Read the configuration, and objects that the files lack, from the cluster")
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return options.Usagef("lsp has no arguments: %q%s", strings.Join(args, " "), options.SeeHelp(cmd))
	}
	if c.sources.KubeVirt == "-" {
		return options.Usagef("--kubevirt must be a file: standard input has the messages of the editor%s", options.SeeHelp(cmd))
	}
	return c.sources.ValidateFacts()
}

func (c *command) run(ctx context.Context) error {
	var cluster *offline.Cluster
	if c.sources.FromCluster {
		var err error
		if cluster, err = options.Connect(c.sources.Config); err != nil {
			return err
		}
	}
	s := &server{
		stream:     protocol.NewStream(c.program.Streams.In, c.program.Streams.Out),
		version:    c.program.Version,
		openFolder: openFolder,
		analyzer: analysis.New(func(ctx context.Context, files *offline.Files) (*offline.Evaluator, error) {
			facts, err := c.sources.ReadFacts(ctx, files, cluster, strings.NewReader(""))
			if err != nil {
				return nil, err
			}
			if facts, err = c.sources.Assume(facts); err != nil {
				return nil, err
			}
			return c.sources.NewEvaluator(ctx, files, cluster, facts)
		}, time.Now),
	}
	return s.serve(ctx)
}

// openFolder returns the file system of a directory. Symbolic links do not lead out of it.
func openFolder(directory string) (fs.FS, error) {
	root, err := os.OpenRoot(filepath.FromSlash(directory))
	if err != nil {
		return nil, err
	}
	return root.FS(), nil
}
