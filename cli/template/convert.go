package template

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/randomness"
	"github.com/virtward/virtward/texts"
)

// convert has the flags of template convert.
type convert struct {
	program      options.Program
	file, output string
}

func newConvert(program options.Program) *cobra.Command {
	c := &convert{program: program, output: printers.YAML}
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert OpenShift Templates into VirtualMachineTemplates",
		Long: `Convert OpenShift Templates into VirtualMachineTemplates.

A Template must have one VirtualMachine. Its other objects, and the parameters that only they refer to, are left out
and named on standard error. So is text such as ${HOME} of a script, which is kept although it looks like a reference.
The result is validated: what is wrong with it is an error.`,
		Example: program.Examples(`  # Convert the templates of a file
  PROGRAM template convert -f common-templates.yaml | kubectl apply -n templates -f -

  # Convert the templates of an OpenShift cluster
  oc get templates -n openshift -o yaml | PROGRAM template convert -f -`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && c.file == "" {
				c.file = args[0]
			} else if len(args) > 0 {
				return options.Usagef("name the file with -f: see %s --help", cmd.CommandPath())
			}
			if c.file == "" {
				return options.Usagef("name a file with -f: see %s --help", cmd.CommandPath())
			}
			return options.OneOf("output", c.output, []string{printers.YAML, printers.JSON})
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringVarP(&c.file, "filename", "f", "", "File with the Templates; - is standard input")
	cmd.Flags().StringVarP(&c.output, "output", "o", c.output, "What to print: yaml, json")
	options.CompleteFlags(cmd, map[string][]string{"output": {printers.YAML, printers.JSON}})
	return cmd
}

func (c *convert) run(ctx context.Context) error {
	found, err := manifests.ReadAll(ctx, []string{c.file}, false, c.program.Streams.In)
	if err != nil {
		return err
	}
	failed, printed := 0, 0
	for _, document := range found {
		if !templates.IsOpenShiftTemplate(document.Object) {
			fmt.Fprintf(c.program.Streams.ErrOut, "warning: %s: %s %s of %s is not a Template of template.openshift.io and is left out\n",
				document.Location(), texts.OneLine(document.Object.GetKind()), texts.OneLine(document.Object.GetName()), texts.OneLine(document.Object.GetAPIVersion()))
			continue
		}
		if err := c.one(document, printed > 0); err != nil {
			failed++
			unreadable := document.Unreadable(err)
			fmt.Fprintf(c.program.Streams.ErrOut, "error: %s: line %d: %s\n", document.Location(), unreadable.Line, texts.OneLine(err.Error()))
			continue
		}
		printed++
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d Templates cannot be converted", failed, failed+printed)
	case printed == 0:
		return fmt.Errorf("%s: no Template of template.openshift.io", manifests.Name(c.file))
	}
	return nil
}

// servedMachines rejects a VirtualMachine of a Template in a version that no API server serves: its fields may differ.
func servedMachines(template *unstructured.Unstructured) error {
	all, _, _ := unstructured.NestedFieldNoCopy(template.Object, "objects")
	list, _ := all.([]any)
	for i := range list {
		fields, _ := list[i].(map[string]any)
		object := unstructured.Unstructured{Object: fields}
		if object.GetKind() != apikinds.VirtualMachine {
			continue
		}
		if err := schemas.Match("", object.GroupVersionKind()); err != nil {
			return fmt.Errorf("objects[%d].apiVersion: %w", i, err)
		}
	}
	return nil
}

// one converts one Template.
func (c *convert) one(document manifests.Document, follows bool) error {
	if err := servedMachines(document.Object); err != nil {
		return err
	}
	if _, err := manifests.Decode(document.Object.Object, &templates.OpenShiftTemplate{}); err != nil {
		return err // it names the field
	}
	template, notes, err := templates.Convert(document.Object)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(c.program.Streams.ErrOut, "warning: %s: %s\n", document.Location(), texts.OneLine(note))
	}
	findings := templates.Check(&template.Spec, randomness.Source{})
	for i := range findings {
		line, _ := document.Find(inOpenShift(document, findings[i].Error.Field))
		fmt.Fprintf(c.program.Streams.ErrOut, "%s: line %d: ", document.Location(), line.Line)
		printFindings(c.program.Streams.ErrOut, findings[i:i+1])
	}
	if templates.Denied(findings) {
		return fmt.Errorf("the template %s is not valid", template.Name)
	}
	if follows && c.output == printers.YAML {
		fmt.Fprintln(c.program.Streams.Out, "---")
	}
	return printWithoutStatus(c.program.Streams.Out, template, c.output)
}

// inOpenShift returns the path in an OpenShift Template of a field of its VirtualMachineTemplate.
func inOpenShift(document manifests.Document, path string) string {
	below, inVM := strings.CutPrefix(path, evaluator.TemplateVM)
	if !inVM {
		return strings.TrimPrefix(path, "spec.") // parameters and the message
	}
	objects, _ := document.Object.Object["objects"].([]any)
	machine := slices.IndexFunc(objects, func(object any) bool {
		fields, _ := object.(map[string]any)
		return fields["kind"] == apikinds.VirtualMachine
	})
	return fmt.Sprintf("objects[%d]%s", machine, below)
}
