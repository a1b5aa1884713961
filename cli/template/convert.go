package template

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/randomness"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// convert has the flags of template convert.
type convert struct {
	program      options.Program
	file, output string
}

func newConvert(program options.Program) *cobra.Command {
	c := &convert{program: program, output: options.OutputYAML}
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Convert OpenShift Templates into VirtualMachineTemplates",
		Long: `Convert OpenShift Templates into VirtualMachineTemplates.

A Template must have one VirtualMachine. Its other objects, and the parameters that only they refer to, are left out
and named on standard error. The result is validated: what is wrong with it is an error.`,
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
			return options.OneOf("output", c.output, []string{options.OutputYAML, options.OutputJSON})
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringVarP(&c.file, "filename", "f", "", "File with the Templates; - is standard input")
	cmd.Flags().StringVarP(&c.output, "output", "o", c.output, "What to print: yaml, json")
	options.CompleteFlags(cmd, map[string][]string{"output": {options.OutputYAML, options.OutputJSON}})
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
			fmt.Fprintf(c.program.Streams.ErrOut, "warning: %s: %s %s is no Template and is left out\n", document.Location(), texts.OneLine(document.Object.GetKind()), texts.OneLine(document.Object.GetName()))
			continue
		}
		if err := c.one(document, printed > 0); err != nil {
			failed++
			fmt.Fprintf(c.program.Streams.ErrOut, "error: %s: %s\n", document.Location(), texts.OneLine(err.Error()))
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

// one converts one Template.
func (c *convert) one(document manifests.Document, follows bool) error {
	template, notes, err := templates.Convert(document.Object)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(c.program.Streams.ErrOut, "warning: %s: %s\n", document.Location(), texts.OneLine(note))
	}
	findings := templates.Check(&template.Spec, randomness.Source{})
	printFindings(c.program.Streams.ErrOut, findings)
	if templates.Denied(findings) {
		return fmt.Errorf("the template %s is not valid", template.Name)
	}
	if follows && c.output == options.OutputYAML {
		fmt.Fprintln(c.program.Streams.Out, "---")
	}
	return printWithoutStatus(c.program.Streams.Out, template, c.output)
}
