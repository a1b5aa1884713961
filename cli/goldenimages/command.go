package goldenimages

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "golden",
		Short: "Show golden images, and for which architectures they are imported",
		Long: `Show golden images, and for which architectures they are imported.

list has a row for each image and a column for each architecture. status shows a catalog with the architectures of the nodes.
why explains the state of one image, and what you can do.

The commands read GoldenImageCatalogs of image.virtward.io. Progress and reasons come from CDI's objects, with your permissions.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(program), newStatus(program), newWhy(program))
	return cmd
}

// flags are those of all commands.
type flags struct {
	program options.Program
	sources options.Sources
	catalog string
}

// add adds the flags.
func (f *flags) add(cmd *cobra.Command, purpose string) {
	options.AddClusterFlags(cmd, f.sources.Config, "", purpose)
	cmd.Flags().StringVar(&f.catalog, "catalog", "", "Name of the catalog; all catalogs by default")
	if err := cmd.RegisterFlagCompletionFunc("catalog", f.completeCatalogs); err != nil {
		panic(err) // the flag is the one above
	}
}

// view reads the catalogs that the flags select, and CDI's objects.
func (f *flags) view(ctx context.Context, catalog string) (*view, error) {
	cluster, err := options.Connect(f.sources.Config)
	if err != nil {
		return nil, err
	}
	r := reader{client: cluster.Client, catalog: catalog, namespace: *f.sources.Config.Namespace}
	return r.read(ctx)
}

// completeCatalogs completes the name of a catalog.
func (f *flags) completeCatalogs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Name() == "status" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range f.completions(cmd).catalogs {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeImages completes the name of an image, or of the DataSource of an architecture.
func (f *flags) completeImages(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, i := range f.completions(cmd).images() {
		names = append(names, i.DataSource)
		for k := range i.Imports {
			names = append(names, i.Imports[k].DataSource)
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" || !strings.HasPrefix(n, word) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completions are the catalogs, or none if they cannot be read.
func (f *flags) completions(cmd *cobra.Command) *view {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	cluster, err := options.Connect(f.sources.Config)
	if err != nil {
		return &view{}
	}
	r := reader{client: cluster.Client, catalog: f.catalog, namespace: *f.sources.Config.Namespace}
	v := &view{}
	if v.catalogs, err = r.catalogs(ctx); err != nil {
		return &view{}
	}
	return v
}

// writeNotes writes what could not be read.
func (f *flags) writeNotes(v *view) {
	for _, note := range v.notes {
		fmt.Fprintln(f.program.Streams.ErrOut, "note:", note)
	}
}
