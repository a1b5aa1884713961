package template

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// MaxApprovalMessage bounds --message, in bytes, as the API does.
const MaxApprovalMessage = 1024

// approval has the flags of template approve and template revoke.
type approval struct {
	program options.Program
	source

	digest, message, output  string
	yes, acknowledge, review bool
	// isTerminal reports whether a person can answer on standard input.
	isTerminal func() bool
}

func newApproval(program options.Program) *approval {
	return &approval{
		program: program, source: source{Sources: options.NewSources()}, output: printers.Table,
		isTerminal: func() bool {
			file, ok := program.Streams.In.(*os.File)
			return ok && term.IsTerminal(int(file.Fd()))
		},
	}
}

func newApprove(program options.Program) *cobra.Command {
	a := newApproval(program)
	outputs := []string{printers.Table, printers.YAML, printers.JSON}
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve a template as it is now",
		Long: `Approve a template as it is now.

approve shows the review first: the digest of the template, where an imported template comes from, its parameters, and what an
approval does not cover. An image by tag can change after you approve the template, for example. Then it asks for
confirmation. In a script, name the digest that you reviewed with --digest, or use --yes.

The approval is valid for the digest only: an edit of the template ends it. A parameter of type object can add fields to the
virtual machine, so you must acknowledge these parameters with --acknowledge-objects.

You need permission to create virtualmachinetemplates/approve of subresources.template.kubevirt.io.`,
		Example: program.Examples(`  # Show the review, and change nothing
  PROGRAM template approve fedora -n templates --review

  # Approve the template in a script, if it is still the one that you reviewed
  PROGRAM template approve fedora -n templates --digest sha256:0f343b0931126a20f133d67c2b018a3b`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := a.validate(cmd, args); err != nil {
				return err
			}
			return options.OneOf("output", a.output, outputs)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.approve(cmd.Context()) },
	}
	a.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&a.digest, "digest", "", "The digest that you reviewed: sha256:HEX")
	flags.BoolVarP(&a.yes, "yes", "y", false, "Approve the template without confirmation")
	flags.BoolVar(&a.acknowledge, "acknowledge-objects", false, "Acknowledge the parameters of type object")
	flags.BoolVar(&a.review, "review", false, "Show the review only")
	flags.StringVarP(&a.output, "output", "o", a.output, "How to print the review: "+strings.Join(outputs, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

func newRevoke(program options.Program) *cobra.Command {
	a := newApproval(program)
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "End the approval of a template",
		Long: `End the approval of a template.

Virtual machines that exist already do not change. You need permission to create virtualmachinetemplates/revoke of
subresources.template.kubevirt.io.`,
		Example: program.Examples(`  # End the approval, and say why
  PROGRAM template revoke fedora -n templates --message "the image has a vulnerability"`),
		Args: func(cmd *cobra.Command, args []string) error { return a.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return a.revoke(cmd.Context()) },
	}
	a.addFlags(cmd)
	return cmd
}

func (a *approval) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.message, "message", "", "The reason, which the status of the template shows")
	options.AddClusterFlags(cmd, a.Config, "", "Namespace of the template")
	cmd.ValidArgsFunction = a.completeNames
}

func (a *approval) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return options.Usagef("name one template: see %s --help", cmd.CommandPath())
	case len(a.message) > MaxApprovalMessage:
		return options.Usagef("--message: must have at most %d bytes, and has %d", MaxApprovalMessage, len(a.message))
	}
	a.name = args[0]
	return nil
}

func (a *approval) connect() (*api, error) {
	cluster, err := options.Connect(a.Config)
	if err != nil {
		return nil, err
	}
	return newAPI(a.Config, a.Namespace(cluster), a.program.Streams.ErrOut)
}

func (a *approval) approve(ctx context.Context) error {
	api, err := a.connect()
	if err != nil {
		return err
	}
	var review subresources.TemplateReview
	if err := api.post(ctx, a.name, subresources.Approve, true, &subresources.ApproveOptions{}, &review); err != nil {
		return err
	}
	if err := a.print(ctx, &review); err != nil || a.review {
		return err
	}
	if review.Approved {
		fmt.Fprintf(a.program.Streams.ErrOut, "the template %s/%s is approved already\n", api.namespace, a.name)
		return nil
	}
	if err := a.confirm(&review); err != nil {
		return err
	}
	body := &subresources.ApproveOptions{Digest: review.Digest, Message: a.message, ObjectParameters: review.ObjectParameters}
	var answer subresources.TemplateReview
	if err := api.post(ctx, a.name, subresources.Approve, false, body, &answer); err != nil {
		if apierrors.IsConflict(err) {
			return fmt.Errorf("the template has changed since the review: review it again: %w", err)
		}
		return err
	}
	from := ""
	if approved := answer.Approval; approved != nil && approved.Source != nil {
		from = " from " + templates.SourceText(approved.Source)
	}
	fmt.Fprintf(a.program.Streams.ErrOut, "approved the template %s/%s%s\n", api.namespace, a.name, from)
	return nil
}

// confirm returns an error unless the flags or the user confirm the review.
func (a *approval) confirm(review *subresources.TemplateReview) error {
	switch {
	case len(review.ObjectParameters) > 0 && !a.acknowledge:
		return fmt.Errorf("the parameters %s can add fields to the virtual machine: acknowledge them with --acknowledge-objects", texts.OneLine(strings.Join(review.ObjectParameters, ", ")))
	case a.digest != "" && a.digest != review.Digest:
		return fmt.Errorf("the template has the digest %s, and not %s: it has changed since you reviewed it", review.Digest, a.digest)
	case a.digest != "" || a.yes:
		return nil
	case !a.isTerminal():
		return options.Usagef("add --digest %s or --yes", review.Digest)
	}
	fmt.Fprint(a.program.Streams.ErrOut, "Approve this template? [y/N] ")
	answer, err := bufio.NewReader(io.LimitReader(a.program.Streams.In, 16)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return errors.New("not approved")
	}
	return nil
}

// print writes the review.
func (a *approval) print(ctx context.Context, review *subresources.TemplateReview) error {
	out := a.program.Streams.Out
	if a.output != printers.Table {
		return printers.Document(out, a.output, review)
	}
	fmt.Fprintf(out, "Template: %s\nDigest:   %s\n", a.title(review), texts.OneLine(review.Digest))
	switch {
	case review.Source != nil:
		fmt.Fprintf(out, "Source:   %s; imported by %s\n", templates.SourceText(review.Source), texts.OneLine(review.Source.Import))
	case review.SourceReason != "":
		fmt.Fprintf(out, "Source:   not known: %s\n", texts.OneLine(review.SourceReason))
	}
	switch approved := review.Approval; {
	case review.Approved && approved != nil:
		fmt.Fprintf(out, "Approved: by %s at %s%s\n", texts.OneLine(approved.ApprovedBy), approved.ApprovedAt.UTC().Format("2006-01-02 15:04"), approvedSource(approved.Source, review.Source))
	case approved != nil && approved.Digest != review.Digest:
		fmt.Fprintf(out, "Approved: no; %s approved another digest at %s\n", texts.OneLine(approved.ApprovedBy), approved.ApprovedAt.UTC().Format("2006-01-02 15:04"))
	case review.Reason != "":
		fmt.Fprintf(out, "Approved: no; %s\n", texts.OneLine(review.Reason))
	default:
		fmt.Fprintln(out, "Approved: no")
	}
	if template, err := a.get(ctx); err == nil {
		fmt.Fprintln(out, "\nParameters:")
		if err := parameterPrinter.Table(out, printers.Table, template.Spec.Parameters); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.program.Streams.ErrOut, "note: the parameters are not shown: %s\n", texts.OneLine(err.Error()))
	}
	if len(review.ObjectParameters) > 0 {
		fmt.Fprintf(out, "\nParameters that can add fields: %s\n", texts.OneLine(strings.Join(review.ObjectParameters, ", ")))
	}
	if len(review.Uncovered) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nAn approval does not cover:")
	rows := make([][]string, len(review.Uncovered))
	for i := range review.Uncovered {
		rows[i] = []string{texts.OneLine(review.Uncovered[i].Path), texts.OneLine(review.Uncovered[i].Reason)}
	}
	return printers.Rows(out, printers.Kubectl, rows)
}

// approvedSource says of which source an approval is, if the present one is another or is not known any more.
func approvedSource(approved, now *v1beta1.TemplateSource) string {
	switch {
	case approved == nil && now != nil:
		return ", without a source"
	case approved == nil, now != nil && *approved == *now:
		return ""
	}
	return ", from " + templates.SourceText(approved)
}

func (a *approval) title(review *subresources.TemplateReview) string {
	if review.TemplateRef == nil {
		return texts.OneLine(a.name)
	}
	return texts.OneLine(review.TemplateRef.Namespace + "/" + review.TemplateRef.Name)
}

func (a *approval) revoke(ctx context.Context) error {
	api, err := a.connect()
	if err != nil {
		return err
	}
	var review subresources.TemplateReview
	if err := api.post(ctx, a.name, subresources.Revoke, false, &subresources.RevokeOptions{Message: a.message}, &review); err != nil {
		return err
	}
	fmt.Fprintf(a.program.Streams.ErrOut, "the template %s/%s is not approved any more\n", api.namespace, a.name)
	return nil
}
