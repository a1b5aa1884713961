package template

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/artifacts"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
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
	// from is the repository whose artifacts are listed instead.
	from     string
	registry artifacts.Registry
}

func newList(program options.Program) *cobra.Command {
	l := &listing{program: program, Sources: options.NewSources(), output: printers.Table}
	outputs := l.printer().Formats()
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the templates, and whether they are ready and approved",
		Long: `List the templates, and whether they are ready and approved.

A template is approved if its digest is the approved one, and if Virtward signed the approval: an edit ends it. The table names the parameters that need
a value. The output wide has the source of approved templates that were imported.

With --from, it lists the OCI artifacts of a repository of a registry instead, and needs no cluster.`,
		Example: program.Examples(`  # List the templates of all namespaces
  PROGRAM template list -A

  # List those of a catalogue
  PROGRAM template list -n templates -l os=fedora

  # List those of a registry
  PROGRAM template list --from oci://quay.io/templates/fedora`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := options.NoArguments(cmd, args); err != nil {
				return err
			}
			if l.from != "" && (l.all || l.selector != "" || cmd.Flags().Changed("namespace")) {
				return options.Usagef("--from lists artifacts of a registry, which have no namespace and no labels%s", options.SeeHelp(cmd))
			}
			if l.from != "" {
				return options.OneOf("output", l.output, artifacts.ListOutputs())
			}
			return options.OneOf("output", l.output, outputs)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.from != "" {
				return l.registry.List(cmd.Context(), program, l.from, l.output)
			}
			return l.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&l.all, "all-namespaces", "A", false, "List the templates of all namespaces")
	flags.StringVarP(&l.selector, "selector", "l", "", "List the templates with these labels, as kubectl")
	flags.StringVarP(&l.output, "output", "o", l.output, "What to print: "+strings.Join(outputs, ", "))
	flags.StringVar(&l.from, "from", "", "`oci://REGISTRY/REPOSITORY`: list the artifacts of a repository of a registry")
	l.registry.AddFlags(cmd, program)
	options.AddClusterFlags(cmd, l.Config, "", "Namespace of the templates")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

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
	if len(list.Items) == 0 && (l.output == printers.Table || l.output == printers.Wide) {
		fmt.Fprintf(l.program.Streams.ErrOut, "No templates found in %s.\n", cmp.Or(namespace, "any namespace"))
		return nil
	}
	all := make([]listed, len(list.Items))
	for i := range list.Items {
		all[i].object = &list.Items[i]
		if l.output != printers.Table && l.output != printers.Wide {
			continue
		}
		var err error
		if all[i].template, err = decode(all[i].object, false); err != nil {
			return fmt.Errorf("%s/%s: %w", all[i].object.GetNamespace(), all[i].object.GetName(), err)
		}
	}
	return l.printer().Print(l.program.Streams.Out, l.output, all)
}

// listed is a template that is printed.
type listed struct {
	object *unstructured.Unstructured
	// template is the object decoded, for the table.
	template *v1beta1.VirtualMachineTemplate
}

// printer prints templates.
func (l *listing) printer() *printers.Printer[listed] {
	return &printers.Printer[listed]{
		Columns: []string{"NAMESPACE", "NAME", "READY", "APPROVED", "REQUIRED", "DESCRIPTION", "SOURCE"},
		Wide:    1,
		Row: func(of *listed) []string {
			t := of.template
			description := texts.OneLine(texts.Shorten(t.Annotations["description"], maxValue))
			return []string{t.Namespace, t.Name, readyOf(t), approvedOf(t), requiredOf(t), description, sourceOf(t)}
		},
		Namespaced: true, AllNamespaces: l.all,
		Name: func(of *listed) string {
			return "virtualmachinetemplate.template.kubevirt.io/" + of.object.GetName()
		},
		Document: listOf,
	}
}

// listOf is a List of the API with the templates.
func listOf(all []listed) any {
	items := make([]any, len(all))
	for i := range all {
		all[i].object.SetManagedFields(nil)
		items[i] = all[i].object.Object
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
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

// sourceOf is the source that an approval names, if it is for the spec as it is.
func sourceOf(template *v1beta1.VirtualMachineTemplate) string {
	if approval := template.Status.Approval; approval != nil && approval.Source != nil && approvedOf(template) == "True" {
		return templates.SourceText(approval.Source)
	}
	return "-"
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
