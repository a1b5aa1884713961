package goldenimages

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

// why has the flags of why.
type why struct{ flags }

func newWhy(program options.Program) *cobra.Command {
	w := &why{flags{program: program, sources: options.NewSources()}}
	cmd := &cobra.Command{
		Use:   "why IMAGE[-ARCHITECTURE]",
		Short: "Explain why an image is ready, is not, or is missing",
		Long: `Explain why an image is ready, is not, or is missing: where its DataSource points, what CDI reports, and what you can do.

IMAGE is the name of the DataSource, or of the entry in the catalog. With the suffix of an architecture, why explains only
that architecture.

The exit code is 0 if the image is ready, 1 if it is not or the command fails, and 2 for invalid flags.`,
		Example: program.Examples(`  # Explain the image, and each of its architectures
  PROGRAM golden why fedora

  # Explain one architecture
  PROGRAM golden why fedora-arm64`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return options.Usagef("name one image%s", options.SeeHelp(cmd))
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return w.run(cmd.Context(), args[0]) },
		ValidArgsFunction: w.completeImages,
	}
	w.add(cmd, "Namespace of the image")
	return cmd
}

func (w *why) run(ctx context.Context, name string) error {
	v, err := w.view(ctx, w.catalog)
	if err != nil {
		return err
	}
	w.writeNotes(v)
	found, err := v.find(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w.program.Streams.Out)
	fmt.Fprintf(out, "Image %s: the entry %s of GoldenImageCatalog %s, in namespace %s.\n", found.image.DataSource, found.image.Entry, found.image.Catalog, found.image.Namespace)
	if c := found.image.catalog; c.Status.ObservedGeneration != c.Generation {
		fmt.Fprintln(out, behind(c))
	}
	all := v.explain(found)
	for _, e := range all {
		fmt.Fprintf(out, "\n%s: %s\n", e.subject, e.state)
		for _, sentence := range e.sentences {
			fmt.Fprintln(out, "  "+sentence)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if all[0].state != stateReady {
		return fmt.Errorf("DataSource %s/%s is not ready", found.image.Namespace, all[0].subject)
	}
	return nil
}

// found is an image, and one of its architectures if the name has it.
type found struct {
	image *image
	// one reports whether only an architecture is explained.
	one          bool
	architecture string
}

// find returns the image that a name means: that of a DataSource or an entry, with or without an architecture.
func (v *view) find(name string) (*found, error) {
	list := v.images()
	var hits []found
	for i := range list {
		if name == list[i].DataSource || name == list[i].Entry {
			hits = append(hits, found{image: &list[i]})
		}
	}
	for i := range list {
		for _, architecture := range architecturesFor(&list[i]) {
			if name == suffixed(list[i].DataSource, architecture) || name == suffixed(list[i].Entry, architecture) {
				hits = append(hits, found{&list[i], true, architecture})
			}
		}
	}
	switch {
	case len(hits) == 0:
		return nil, unknown(name, list)
	case len(hits) > 1 && hits[0].image.Catalog != hits[1].image.Catalog:
		return nil, options.Usagef("several catalogs have an image %q: add --catalog %s or --catalog %s", name, hits[0].image.Catalog, hits[1].image.Catalog)
	}
	return &hits[0], nil
}

// architecturesFor are those that a suffix can have.
func architecturesFor(i *image) []string {
	all := slices.Concat(options.Architectures(), i.architectures())
	return slices.DeleteFunc(all, func(a string) bool { return a == "" })
}

// shownNames bounds the names in an error.
const shownNames = 10

func unknown(name string, list []image) error {
	var names []string
	for i := range list {
		names = append(names, list[i].DataSource)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	text := strings.Join(names[:min(len(names), shownNames)], ", ")
	switch {
	case len(names) == 0:
		text = "there is none"
	case len(names) > shownNames:
		text = fmt.Sprintf("the images are %s and %d more", text, len(names)-shownNames)
	default:
		text = "the images are " + text
	}
	return fmt.Errorf("no catalog has an image %q: %s", name, text)
}
