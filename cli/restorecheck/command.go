package restorecheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/template"
	"github.com/virtward/virtward/texts"
)

func outputs() []string { return []string{printers.Table, printers.JSON, printers.YAML} }

// command has the flags of restore-check.
type command struct {
	program     options.Program
	config      *genericclioptions.ConfigFlags
	from        string
	approve     []string
	message     string
	output      string
	acknowledge bool
	now         func() time.Time
}

// NewCommand returns the command restore-check.
func NewCommand(program options.Program) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	config.Namespace = nil // a backup has objects of all namespaces
	c := &command{program: program, config: config, output: printers.Table, now: time.Now}
	cmd := &cobra.Command{
		Use:   "restore-check --from BACKUP",
		Short: "Compare approvals and exceptions of a backup with the cluster after a restore",
		Long: `Compare approvals and exceptions of a backup with the cluster after a restore.

A restore gives objects new UIDs, and so ends all approvals of templates. restore-check reads the approvals that counted when the backup
was made, compares the spec of each template with that of the cluster, and shows which can be approved again:

  Valid       it is approved in the cluster, or the exception is active
  SameDigest  the cluster has the template that was approved. To approve it again, name it with --approve
  Changed     the cluster has another spec: review it, and approve it with template approve
  NotActive   the exception has no effect: create it again
  Gone        the cluster does not have it
  Ended       it did not count any more in the backup, or has ended since
  Ambiguous   the backup has several objects of this name
  Unknown     your permissions do not suffice, or the cluster cannot be read

BACKUP is a folder or an archive (tar, with or without gzip) of manifests, as Velero or kubectl writes them. Only users who may be trusted
to approve templates must be able to write to it.

--approve approves templates with your permissions, if the cluster has the spec that was approved. You need permission to create
virtualmachinetemplates/approve of subresources.template.kubevirt.io, also to see what is approved. Exceptions are only shown.

The exit code is 1 if something could not be read or approved.`,
		Example: program.Examples(`  # Show what the restore ended
  PROGRAM restore-check --from backup.tar.gz

  # Approve two templates again
  PROGRAM restore-check --from backup.tar.gz --approve images/fedora --approve images/debian`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := c.validate(cmd); err != nil {
				return err
			}
			return options.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.from, "from", "", "Folder or archive with the backup")
	flags.StringArrayVar(&c.approve, "approve", nil, "Template to approve again: NAMESPACE/NAME; repeat it for several")
	flags.StringVar(&c.message, "message", "", "The reason of the approvals, which the status of the templates shows")
	flags.BoolVar(&c.acknowledge, "acknowledge-objects", false, "Acknowledge the parameters of type object")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.AddClusterFlags(cmd, c.config, "", "")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	if err := cmd.RegisterFlagCompletionFunc("from", options.CompleteFiles); err != nil {
		panic(err)
	}
	return cmd
}

func (c *command) validate(cmd *cobra.Command) error {
	if c.from == "" {
		return options.Usagef("--from is required%s", options.SeeHelp(cmd))
	}
	for _, name := range c.approve {
		if namespace, rest, found := strings.Cut(name, "/"); !found || namespace == "" || rest == "" || strings.Contains(rest, "/") {
			return options.Usagef("--approve %s: write NAMESPACE/NAME", name)
		}
	}
	if len(c.message) > template.MaxApprovalMessage {
		return options.Usagef("--message: must have at most %d bytes, and has %d", template.MaxApprovalMessage, len(c.message))
	}
	return options.OneOf("output", c.output, outputs())
}

// report is what the command prints.
type report struct {
	Templates  []Row `json:"templates"`
	Exceptions []Row `json:"exceptions"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

func (c *command) run(ctx context.Context) error {
	found, err := readBackup(ctx, c.from)
	if err != nil {
		return err
	}
	cluster, err := options.Connect(c.config)
	if err != nil {
		return err
	}
	approver, err := template.NewApprover(c.config, c.program.Streams.ErrOut)
	if err != nil {
		return err
	}
	r := c.compare(ctx, found, cluster.Client, approver)
	failed := c.approveAll(ctx, r, approver)
	if err := c.write(r); err != nil {
		return errors.Join(failed, err)
	}
	unknown := slices.ContainsFunc(slices.Concat(r.Templates, r.Exceptions), func(row Row) bool { return row.State == Unknown })
	switch {
	case failed != nil:
		return failed
	case len(r.Notes) > 0:
		return errors.New("parts of the backup could not be read: see above")
	case unknown:
		return errors.New("some approvals or exceptions of the cluster are unknown: see above")
	}
	return nil
}

// compare compares each object of the backup with that of the cluster.
func (c *command) compare(ctx context.Context, found *backup, client dynamic.Interface, approver *template.Approver) *report {
	r := &report{Templates: []Row{}, Exceptions: []Row{}, Notes: found.notes}
	for _, key := range slices.Sorted(maps.Keys(found.templates)) {
		namespace, name, _ := strings.Cut(key, "/")
		now, err := read(ctx, client, apikinds.Templates.GroupVersionResource(), namespace, name)
		row := compareTemplate(namespace, name, found.templates[key], now)
		if row == nil {
			continue
		}
		if err != nil {
			row.State, row.Message = Unknown, err.Error()
		}
		if row.State == SameDigest || row.State == Changed {
			observe(ctx, row, approver)
		}
		r.Templates = append(r.Templates, *row)
	}
	for _, key := range slices.Sorted(maps.Keys(found.exceptions)) {
		namespace, name, _ := strings.Cut(key, "/")
		now, err := read(ctx, client, apikinds.PolicyExceptions.GroupVersionResource(), namespace, name)
		row := compareException(namespace, name, found.exceptions[key], now, c.now())
		if row == nil {
			continue
		}
		if err != nil && row.State == Gone {
			row.State, row.Message = Unknown, err.Error()
		}
		r.Exceptions = append(r.Exceptions, *row)
	}
	return r
}

// read returns an object; nil if there is none.
func read(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none, which is no error
	case err != nil:
		return nil, err
	}
	return object, nil
}

// observe asks Virtward's API server whether a template is approved as it is.
func observe(ctx context.Context, row *Row, approver *template.Approver) {
	review, err := approver.Review(ctx, row.Namespace, row.Name)
	switch {
	case err != nil:
		row.Message = "whether it is approved now is not known: " + err.Error()
		if row.State == SameDigest {
			row.State = Unknown
		}
	case review.Digest != row.digest:
		row.State, row.Message = Unknown, "it changed meanwhile: run the command again"
	case review.Approved && row.State == Changed:
		row.Message = "it is approved as it is now"
	case review.Approved:
		row.State = Valid
	case row.State == Changed:
		row.Message = "review it: kubectl virtward template approve " + row.Name + " -n " + row.Namespace
	}
}

// approveAll approves the templates that the user named. It tries all of them.
func (c *command) approveAll(ctx context.Context, r *report, approver *template.Approver) error {
	var errs []error
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.approve))) {
		at := slices.IndexFunc(r.Templates, func(row Row) bool { return row.title() == name })
		if at < 0 {
			errs = append(errs, fmt.Errorf("%s: the backup has no approved template of this name", name))
			continue
		}
		if err := c.approveOne(ctx, &r.Templates[at], approver); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *command) approveOne(ctx context.Context, row *Row, approver *template.Approver) error {
	switch row.State {
	case Valid:
		return nil
	case SameDigest:
	default:
		return fmt.Errorf("it is %s, and only SameDigest can be approved again", row.State)
	}
	review, err := approver.Review(ctx, row.Namespace, row.Name)
	switch {
	case err != nil:
		return err
	case review.Digest != row.digest:
		return errors.New("it changed meanwhile: run the command again")
	case len(review.ObjectParameters) > 0 && !c.acknowledge:
		return fmt.Errorf("the parameters %s can add fields to the virtual machine: acknowledge them with --acknowledge-objects", texts.OneLine(strings.Join(review.ObjectParameters, ", ")))
	}
	// The digest is the one that was compared: a template that changes meanwhile is a conflict.
	body := &subresources.ApproveOptions{Digest: row.digest, Message: c.message, ObjectParameters: review.ObjectParameters}
	if err := approver.Approve(ctx, row.Namespace, row.Name, body); err != nil {
		return err
	}
	row.State, row.Message = Valid, "approved now"
	return nil
}

// write prints the report.
func (c *command) write(r *report) error {
	out := c.program.Streams.Out
	for _, note := range r.Notes {
		fmt.Fprintln(c.program.Streams.ErrOut, "warning: not read: "+texts.Shorten(texts.OneLine(note), maxPath))
	}
	if c.output != printers.Table {
		return printers.Document(out, c.output, r)
	}
	if len(r.Templates)+len(r.Exceptions) == 0 {
		_, err := fmt.Fprintln(out, "The backup has no approved template and no active exception.")
		return err
	}
	rows := [][]string{{"KIND", "NAMESPACE", "NAME", "STATE", "BY", "AT", "MESSAGE"}}
	add := func(kind string, all []Row) {
		for i := range all {
			row := &all[i]
			rows = append(rows, cells(kind, row.Namespace, row.Name, string(row.State), row.By, row.At, row.Message))
			for _, d := range row.Differences {
				rows = append(rows, cells("", "", "", "", "", "", d.Field+": "+d.Backup+" -> "+d.Cluster))
			}
		}
	}
	add("Template", r.Templates)
	add("Exception", r.Exceptions)
	return printers.Rows(out, printers.Narrow, rows)
}

// cells are texts on one line each, and bounded: a backup and a cluster choose them.
func cells(all ...string) []string {
	for i := range all {
		all[i] = texts.OneLine(texts.Shorten(all[i], maxPath))
	}
	return all
}
