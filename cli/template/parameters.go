package template

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

func newParameters(program options.Program) *cobra.Command {
	s := &source{Sources: options.NewSources()}
	output := printers.Table
	cmd := &cobra.Command{
		Use:   "parameters [NAME]",
		Short: "List the parameters of a template",
		Long:  "List the parameters of a template: the values that they have, and those that they allow.",
		Example: program.Examples(`  # Which values does the template take?
  PROGRAM template parameters fedora -n templates

  # The same of a file
  PROGRAM template parameters -f template.yaml`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := s.take(cmd, args); err != nil {
				return err
			}
			return options.OneOf("output", output, parameterPrinter.Formats())
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return printParameters(cmd.Context(), program, s, output) },
	}
	s.addFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", output, "What to print: "+strings.Join(parameterPrinter.Formats(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": parameterPrinter.Formats()})
	return cmd
}

// printParameters lists the parameters of a template.
func printParameters(ctx context.Context, program options.Program, s *source, output string) error {
	template, err := s.read(ctx, program.Streams.In)
	if err != nil {
		return err
	}
	return parameterPrinter.Print(program.Streams.Out, output, template.Spec.Parameters)
}

// parameterPrinter prints parameters.
var parameterPrinter = printers.Printer[v1beta1.Parameter]{
	Columns: []string{"NAME", "REQUIRED", "VALUE", "ALLOWED", "DESCRIPTION"},
	Row: func(p *v1beta1.Parameter) []string {
		return []string{texts.OneLine(p.Name), fmt.Sprint(p.Required), texts.OneLine(valueOf(p)), texts.OneLine(allowedBy(p)), texts.OneLine(p.Description)}
	},
	Document: printers.Itself[v1beta1.Parameter],
}

// maxValue bounds values in the table, in bytes.
const maxValue = 60

// valueOf is the value of a parameter that is not given.
func valueOf(p *v1beta1.Parameter) string {
	switch {
	case p.Value != "":
		return texts.Shorten(p.Value, maxValue)
	case p.Generate != "":
		return "generated: " + texts.Shorten(p.From, maxValue)
	}
	return "-"
}

// allowedBy is what a parameter allows, in few words.
func allowedBy(p *v1beta1.Parameter) string {
	var words []string
	if p.Type != "" {
		words = append(words, string(p.Type))
	}
	if p.Minimum != nil {
		words = append(words, "from "+p.Minimum.String())
	}
	if p.Maximum != nil {
		words = append(words, "to "+p.Maximum.String())
	}
	if len(p.Enum) > 0 {
		words = append(words, texts.Shorten(strings.Join(p.Enum, ", "), maxValue))
	}
	if p.Pattern != "" {
		words = append(words, texts.Shorten(p.Pattern, maxValue))
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}
