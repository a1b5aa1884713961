package template

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// listPage is the number of templates that are read together.
const listPage = 100

// listing has the flags of template list.
type listing struct {
	program options.Program
	options.Sources

	selector, output string
	all              bool
}

func newList(program options.Program) *cobra.Command {
	l := &listing{program: program, Sources: options.NewSources(), output: options.OutputTable}
	outputs := []string{options.OutputTable, options.OutputYAML, options.OutputJSON, outputName}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the templates, and whether they are ready and approved",
		Long: `List the templates, and whether they are ready and approved.

A template is approved if its digest is the approved one, and if Virtward signed the approval: an edit ends it. The table names the parameters that need
a value.`,
		Example: program.Examples(`  # List the templates of all namespaces
  PROGRAM template list -A

  # List those of a catalogue
  PROGRAM template list -n templates -l os=fedora`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := options.NoArguments(cmd, args); err != nil {
				return err
			}
			return options.OneOf("output", l.output, outputs)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.all, "all-namespaces", "A", false, "List the templates of all namespaces")
	flags.StringVarP(&l.selector, "selector", "l", "", "List the templates with these labels, as kubectl")
	flags.StringVarP(&l.output, "output", "o", l.output, "What to print: "+strings.Join(outputs, ", "))
	options.AddClusterFlags(cmd, l.Config, "", "Namespace of the templates")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

// outputName prints the names only.
const outputName = "name"

func (l *listing) run(ctx context.Context) error {
	cluster, err := options.Connect(l.Config)
	if err != nil {
		return err
	}
	namespace := ""
	if !l.all {
		namespace = l.Namespace(cluster)
	}
	resource := cluster.Client.Resource(v1beta1.GroupVersion.WithResource("virtualmachinetemplates")).Namespace(namespace)
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	query := metav1.ListOptions{LabelSelector: l.selector, Limit: listPage}
	for {
		page, err := resource.List(ctx, query)
		if err != nil {
			return fmt.Errorf("listing the templates: %w", err)
		}
		list.Items = append(list.Items, page.Items...)
		if query.Continue = page.GetContinue(); query.Continue == "" {
			break
		}
	}
	return l.print(list, namespace)
}

func (l *listing) print(list *unstructured.UnstructuredList, namespace string) error {
	out := l.program.Streams.Out
	switch l.output {
	case outputName:
		for i := range list.Items {
			fmt.Fprintf(out, "virtualmachinetemplate.template.kubevirt.io/%s\n", list.Items[i].GetName())
		}
		return nil
	case options.OutputTable:
		if len(list.Items) == 0 {
			fmt.Fprintf(l.program.Streams.ErrOut, "No templates found in %s.\n", cmp.Or(namespace, "any namespace"))
			return nil
		}
		return l.table(out, list)
	}
	items := make([]any, len(list.Items))
	for i := range list.Items {
		list.Items[i].SetManagedFields(nil)
		items[i] = list.Items[i].Object
	}
	return printObject(out, map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, l.output)
}

func (l *listing) table(out io.Writer, list *unstructured.UnstructuredList) error {
	w := printers.GetNewTabWriter(out)
	if l.all {
		fmt.Fprint(w, "NAMESPACE\t")
	}
	fmt.Fprintln(w, "NAME\tREADY\tAPPROVED\tREQUIRED\tDESCRIPTION")
	for i := range list.Items {
		template, err := decode(&list.Items[i], false)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", list.Items[i].GetNamespace(), list.Items[i].GetName(), err)
		}
		if l.all {
			fmt.Fprintf(w, "%s\t", template.Namespace)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", template.Name, readyOf(template), approvedOf(template), requiredOf(template),
			texts.OneLine(texts.Shorten(template.Annotations["description"], maxValue)))
	}
	return w.Flush()
}

// readyOf is the condition Ready: its status, or the reason if it is not true.
func readyOf(template *v1beta1.VirtualMachineTemplate) string {
	switch c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateReady); {
	case c == nil:
		return "Unknown"
	case c.Status == metav1.ConditionTrue:
		return "True"
	default:
		return texts.OneLine(string(c.Status) + " (" + c.Reason + ")")
	}
}

// approvedOf reports whether the approval is for the spec as it is. Only Virtward's API server can verify its signature, so
// the condition says whether it is valid.
func approvedOf(template *v1beta1.VirtualMachineTemplate) string {
	approval := template.Status.Approval
	if approval == nil {
		return "False"
	}
	if approval.Signature == "" {
		return "False (" + v1beta1.ReasonNotSigned + ")"
	}
	digest, err := templates.Digest(template)
	c := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateApproved)
	switch {
	case err != nil:
		return "Unknown"
	case digest != approval.Digest:
		return "False (changed)"
	case c == nil:
		return "Unknown"
	case c.Status != metav1.ConditionTrue && c.Reason != v1beta1.ReasonChanged: // it can have another spec than before
		return texts.OneLine("False (" + c.Reason + ")")
	}
	return "True"
}

// requiredOf are the parameters without a value.
func requiredOf(template *v1beta1.VirtualMachineTemplate) string {
	var names []string
	for i := range template.Spec.Parameters {
		if p := &template.Spec.Parameters[i]; p.Required && p.Value == "" && p.Generate == "" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "-"
	}
	return texts.OneLine(texts.Shorten(strings.Join(names, ","), maxValue))
}
