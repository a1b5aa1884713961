package artifacts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/texts"
)

// NewCopy returns the command.
func NewCopy(program options.Program) *cobra.Command {
	var registry Registry
	var verification Verification
	var referrers bool
	cmd := &cobra.Command{
		Use:   "copy oci://SOURCE oci://TARGET",
		Short: "Copy an artifact from one registry or repository to another",
		Long: `Copy an artifact from one registry or repository to another: all variants, byte by byte.

The digest stays the same. No layer is decompressed, and nothing is stored on this machine. What the target has already is not
read. Within a registry, layers are not transferred.

With --key or --certificate-identity, the source must have a valid signature, which is verified before anything is written.`,
		Example: program.Examples(`  # Copy a template with its signatures
  PROGRAM template copy oci://quay.io/templates/web:v1 oci://registry.example.com/templates/web:v1 --referrers

  # Copy a template that must be signed by a key
  PROGRAM template copy oci://quay.io/templates/web:v1 oci://registry.example.com/templates/web:v1 --key cosign.pub`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return options.Usagef("name two references such as oci://quay.io/templates/web:v1%s", options.SeeHelp(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, from, err := registry.source(args[0])
			if err != nil {
				return err
			}
			to, err := referenceOf(args[1], true)
			if err != nil {
				return err
			}
			if err := verification.prepare(); err != nil {
				return err
			}
			return copyArtifact(cmd.Context(), program, connection, &verification, from, to, referrers)
		},
	}
	cmd.Flags().BoolVar(&referrers, "referrers", false, "Copy signatures and attestations too")
	registry.AddFlags(cmd, program)
	verification.AddFlags(cmd)
	return cmd
}

// source parses the reference that a command reads.
func (r *Registry) source(text string) (artifacts.Options, artifacts.Reference, error) {
	reference, err := referenceOf(text, true)
	if err != nil {
		return artifacts.Options{}, reference, err
	}
	connection, err := r.options()
	return connection, reference, err
}

func copyArtifact(ctx context.Context, program options.Program, connection artifacts.Options, verification *Verification, from, to artifacts.Reference, referrers bool) error {
	repository, err := artifacts.Open(ctx, from, connection)
	if err != nil {
		return err
	}
	writer, err := artifacts.NewWriter(ctx, to, connection)
	if err != nil {
		return err
	}
	plan, err := repository.PlanCopy(ctx, referrers)
	if err != nil {
		return err
	}
	signed, err := verification.verify(ctx, repository, plan.Top.Content)
	if err != nil {
		return err
	}
	copying := options.NewMeter(program.Streams.ErrOut, "copying", plan.Bytes())
	defer copying.End()
	if err := repository.Copy(ctx, plan, writer, copying.Add); err != nil {
		return err
	}
	copying.End()
	with := ""
	if plan.Referrers > 0 {
		with = " with " + texts.Count(plan.Referrers, "referrer", "referrers")
	}
	fmt.Fprintf(program.Streams.Out, "copied %s%s\ndigest: %s\n%s", to.String(), with, plan.Top.Digest, signed)
	return nil
}

// referrer is a row of template referrers.
type referrer struct {
	Type   string `json:"artifactType"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// NewReferrers returns the command.
func NewReferrers(program options.Program) *cobra.Command {
	var registry Registry
	printer := &printers.Printer[referrer]{
		Columns: []string{"TYPE", "SIZE", "DIGEST"},
		Row:     func(r *referrer) []string { return []string{texts.OneLine(r.Type), options.Size(r.Size), r.Digest} },
		Name:    func(r *referrer) string { return r.Digest }, Document: printers.List[referrer]("referrers"),
	}
	output := printers.Table
	cmd := &cobra.Command{
		Use:   "referrers oci://REGISTRY/REPOSITORY:TAG",
		Short: "List what refers to an artifact, such as its signatures",
		Long: `List what refers to an artifact, such as its signatures and attestations.

The command verifies nothing.`,
		Example: program.Examples(`  # List the signatures of a template
  PROGRAM template referrers oci://quay.io/templates/web:v1`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return options.Usagef("name one reference such as oci://quay.io/templates/web:v1%s", options.SeeHelp(cmd))
			}
			return options.OneOf("output", output, printer.Formats())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			connection, reference, err := registry.source(args[0])
			if err != nil {
				return err
			}
			repository, err := artifacts.Open(cmd.Context(), reference, connection)
			if err != nil {
				return err
			}
			_, top, err := repository.Top(cmd.Context())
			if err != nil {
				return err
			}
			found, err := repository.Referrers(cmd.Context(), top.Digest, "")
			if err != nil {
				return err
			}
			rows := make([]referrer, len(found))
			for i := range found {
				rows[i] = referrer{found[i].ArtifactType, found[i].Digest.String(), found[i].Size}
			}
			slices.SortFunc(rows, func(a, b referrer) int { return strings.Compare(a.Type+a.Digest, b.Type+b.Digest) })
			if len(rows) == 0 && output == printers.Table {
				fmt.Fprintf(program.Streams.ErrOut, "Nothing refers to %s.\n", reference.String())
				return nil
			}
			return printer.Print(program.Streams.Out, output, rows)
		},
	}
	registry.AddFlags(cmd, program)
	cmd.Flags().StringVarP(&output, "output", "o", output, "What to print: "+strings.Join(printer.Formats(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": printer.Formats()})
	return cmd
}

// listed is a row of template list --from.
type listed struct {
	Tag           string   `json:"tag"`
	Digest        string   `json:"digest,omitempty"`
	Kind          oci.Kind `json:"kind,omitempty"`
	Architectures []string `json:"architectures,omitempty"`
	Created       string   `json:"created,omitempty"`
	// Problem says why the artifact is not one of these kinds.
	Problem string `json:"problem,omitempty"`
}

// listParallel bounds the tags that are read at the same time.
const listParallel = 4

// List prints the artifacts of a repository.
func (r *Registry) List(ctx context.Context, program options.Program, from, output string) error {
	reference, err := referenceOf(from, false)
	if err != nil {
		return err
	}
	connection, err := r.options()
	if err != nil {
		return err
	}
	repository, err := artifacts.Open(ctx, reference, connection)
	if err != nil {
		return err
	}
	tags, more, err := repository.Tags(ctx)
	if err != nil {
		return err
	}
	rows := make([]listed, len(tags))
	var group sync.WaitGroup
	places := make(chan struct{}, listParallel)
	for i, tag := range tags {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			rows[i] = row(ctx, repository, tag)
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	others := len(rows)
	if output == printers.Table {
		rows = slices.DeleteFunc(rows, func(l listed) bool { return l.Kind == "" })
	}
	if others -= len(rows); others > 0 {
		fmt.Fprintf(program.Streams.ErrOut, "%s not shown: no template, no virtual machine and no OVA file\n", texts.Count(others, "tag is", "tags are"))
	}
	if more {
		fmt.Fprintf(program.Streams.ErrOut, "only the first %d tags are shown\n", artifacts.MaxTags)
	}
	return listPrinter().Print(program.Streams.Out, output, rows)
}

// ListOutputs are the formats of List.
func ListOutputs() []string { return listPrinter().Formats() }

func listPrinter() *printers.Printer[listed] {
	return &printers.Printer[listed]{
		Columns: []string{"TAG", "KIND", "ARCHITECTURES", "CREATED", "DIGEST"},
		Row: func(l *listed) []string {
			return []string{texts.OneLine(l.Tag), string(l.Kind), strings.Join(l.Architectures, ","), l.Created, l.Digest}
		},
		Name: func(l *listed) string { return l.Tag }, Document: printers.List[listed]("artifacts"),
	}
}

// row reads what a tag names.
func row(ctx context.Context, repository *artifacts.Repository, tag string) listed {
	l := listed{Tag: tag}
	top, blob, err := repository.Tagged(ctx, tag)
	if err != nil {
		l.Problem = texts.OneLine(err.Error())
		return l
	}
	l.Digest, l.Kind, l.Created = blob.Digest.String(), top.Kind, top.Created
	for i := range top.Variants {
		l.Architectures = append(l.Architectures, top.Variants[i].Platform)
	}
	return l
}
