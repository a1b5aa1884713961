package goldenimages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// listing has the flags of list.
type listing struct {
	flags

	output string
}

func newList(program options.Program) *cobra.Command {
	l := &listing{flags: flags{program: program, sources: options.NewSources()}, output: printers.Table}
	outputs := imagePrinter(nil).Formats()
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List golden images, with a column for each architecture",
		Long: `List golden images, with a column for each architecture.

  Ready      virtual machines can clone the image
  Importing  CDI imports it; the percentage is the progress
  Failed     CDI cannot import it
  Missing    nodes have the architecture, but the image does not
  -          no node has the architecture, or the image is not deployed

The column ONCE is for images that are imported once, and not for each architecture. A star marks the default architecture: the
DataSource without a suffix points to it. AGE is the time since the import of the default architecture. If an image is not
deployed, DEPLOYED has the reason.

The exit code is 0 if the images could be listed, whatever their state is.`,
		Example: program.Examples(`  # List the images of all catalogs
  PROGRAM golden list

  # List those of one catalog, with their DataImportCrons and reasons
  PROGRAM golden list --catalog site -o wide

  # List the names of the DataSources of a namespace
  PROGRAM golden list -n virtward-os-images -o name`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := options.NoArguments(cmd, args); err != nil {
				return err
			}
			return options.OneOf("output", l.output, outputs)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.add(cmd, "List the images of the catalogs of this namespace only")
	cmd.Flags().StringVarP(&l.output, "output", "o", l.output, "What to print: "+strings.Join(outputs, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

func (l *listing) run(ctx context.Context) error {
	v, err := l.view(ctx, l.catalog)
	if err != nil {
		return err
	}
	l.writeNotes(v)
	list := v.images()
	if len(list) == 0 && (l.output == printers.Table || l.output == printers.Wide) {
		fmt.Fprintln(l.program.Streams.ErrOut, "No golden images found.")
		return nil
	}
	return imagePrinter(columnsOf(list)).Print(l.program.Streams.Out, l.output, list)
}

// imagePrinter prints images, with a column for each architecture.
func imagePrinter(architectures []string) *printers.Printer[image] {
	columns := []string{"CATALOG", "IMAGE", "DEPLOYED"}
	for _, architecture := range architectures {
		columns = append(columns, titleOf(architecture))
	}
	return &printers.Printer[image]{
		Columns: append(columns, "AGE", "NAMESPACE", "ENTRY", "REASON"), Wide: 3,
		Row:      func(i *image) []string { return i.row(architectures) },
		Name:     func(i *image) string { return "datasource.cdi.kubevirt.io/" + i.DataSource },
		Document: printers.List[image]("images"),
	}
}

// columnsOf are the architectures of all images, sorted. The empty one of images that are imported once is the last.
func columnsOf(list []image) []string {
	var all []string
	once := false
	for i := range list {
		for _, of := range list[i].Imports {
			once = once || of.Architecture == ""
			all = append(all, of.Architecture)
		}
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(a string) bool { return a == "" })
	if once {
		all = append(all, "")
	}
	return all
}

func titleOf(architecture string) string {
	if architecture == "" {
		return "ONCE"
	}
	return strings.ToUpper(texts.OneLine(architecture))
}

func (i *image) row(architectures []string) []string {
	deployed := "True"
	if i.Reason != "" {
		deployed = i.Reason
	}
	cells := []string{i.Catalog, i.DataSource, deployed}
	var reasons []string
	if i.Reason != "" {
		reasons = append(reasons, i.Message)
	}
	age := "-"
	for _, architecture := range architectures {
		k := slices.IndexFunc(i.Imports, func(of importOf) bool { return of.Architecture == architecture })
		if k < 0 {
			cells = append(cells, "-")
			continue
		}
		of := &i.Imports[k]
		cells = append(cells, of.cell(i.Default))
		if architecture == i.Default && of.Imported != nil {
			age = ageOf(of.Imported)
		}
		if of.State == stateFailed {
			reasons = append(reasons, strings.TrimPrefix(architecture+": ", ": ")+of.Reason+": "+of.Message)
		}
	}
	return append(cells, age, i.Namespace, i.Entry, cmp.Or(strings.Join(reasons, "; "), "-"))
}

// cell is the state in the table.
func (of *importOf) cell(byDefault string) string {
	text := of.State
	switch of.State {
	case stateAbsent, stateBlocked, statePending:
		return "-"
	case stateImporting:
		text = strings.TrimSpace(text + " " + of.Progress)
	}
	if of.Architecture != "" && of.Architecture == byDefault {
		text += "*"
	}
	return text
}

func ageOf(since *metav1.Time) string {
	return duration.HumanDuration(time.Since(since.Time))
}
