package policy

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// lintOptions are the flags of policy lint.
type lintOptions struct {
	program options.Program
	strict  bool
	output  string
}

const outputGitHub = "github"

func lintOutputs() []string {
	return []string{options.OutputTable, options.OutputJSON, options.OutputSARIF, outputGitHub}
}

func lintCommand(program options.Program) *cobra.Command {
	o := &lintOptions{program: program, output: options.OutputTable}
	cmd := &cobra.Command{
		Use:   "lint PATH ...",
		Short: "Show errors in policies and warnings about them, with lines",
		Long: `Show errors in policies and warnings about them, with lines.

lint compiles policies as the cluster does. Errors are, for example, misspelled fields, wrong types and missing parameters.
Warnings are about expressions that probably do not do what you mean, missing documentation, and policies without tests.
lint reads suites too.

The exit code is 0 without errors; 1 with errors, or with warnings and --strict; and 2 for a wrong command line.`,
		Example: program.Examples(`  # Lint all policies of a directory
  PROGRAM policy lint policies

  # Annotate a pull request
  PROGRAM policy lint policies -o github --strict`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(_ *cobra.Command, args []string) error { return o.lint(args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.strict, "strict", false, "Fail on warnings too")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(lintOutputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": lintOutputs()})
	return cmd
}

func (o *lintOptions) validate(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return options.Usagef("add a file or a directory with policies: see %s --help", cmd.CommandPath())
	}
	return options.OneOf("output", o.output, lintOutputs())
}

func (o *lintOptions) lint(paths []string) error {
	runner, err := policytest.NewRunner()
	if err != nil {
		return err
	}
	read := policytest.LoadPolicies(disk{}, paths...)
	problems := runner.Lint(read)
	if read.Len() == 0 && len(problems) == 0 {
		return options.Usagef("%s: no policy was found", strings.Join(paths, ", "))
	}
	if err := o.write(o.program.Streams.Out, problems); err != nil {
		return err
	}
	if o.output == options.OutputTable && len(problems) == 0 {
		fmt.Fprintln(o.program.Streams.Out, counted(read.Len(), "policy is", "policies are")+" valid")
	}
	warnings := 0
	for i := range problems {
		if problems[i].Warning {
			warnings++
		}
	}
	if wrong := len(problems) - warnings; wrong > 0 || o.strict && warnings > 0 {
		return fmt.Errorf("%s and %s", counted(wrong, "error", "errors"), counted(warnings, "warning", "warnings"))
	}
	return nil
}

func (o *lintOptions) write(w io.Writer, problems []policytest.Problem) error {
	switch o.output {
	case options.OutputJSON:
		return texts.WriteJSON(w, struct {
			Problems []policytest.Problem `json:"problems"`
		}{append([]policytest.Problem{}, problems...)})
	case options.OutputSARIF:
		return lintSARIF(w, o.program.Version, problems)
	case outputGitHub:
		return lintGitHub(w, problems)
	}
	for i := range problems {
		if _, err := fmt.Fprintf(w, "%s [%s]\n", texts.OneLine(problems[i].String()), problems[i].Rule); err != nil {
			return err
		}
	}
	return nil
}

func lintSARIF(w io.Writer, version string, problems []policytest.Problem) error {
	var rules validators.Table
	for _, rule := range policytest.LintRules() {
		known := validators.Rule{ID: rule.ID, Title: rule.Title, Remedy: rule.Remedy, Severity: validators.Deny}
		if rule.Warning {
			known.Severity = validators.Warn
		}
		rules = append(rules, known)
	}
	report := sarif.NewReport(rules, version)
	for i := range problems {
		p := &problems[i]
		found := sarif.Result{
			Rule: p.Rule, Severity: validators.Deny, Text: texts.OneLine(p.Text()), Name: texts.OneLine(p.File + " " + p.Field),
			File: p.File, Line: max(p.Line, 1), Column: max(p.Column, 1),
		}
		if p.Warning {
			found.Severity = validators.Warn
		}
		report.Add(found)
	}
	return report.Write(w)
}

// lintGitHub writes workflow commands of GitHub, which create annotations.
func lintGitHub(w io.Writer, problems []policytest.Problem) error {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	for i := range problems {
		p := &problems[i]
		level := "error"
		if p.Warning {
			level = "warning"
		}
		_, err := fmt.Fprintf(w, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", level, property.Replace(p.File), max(p.Line, 1), max(p.Column, 1), property.Replace(p.Rule), message.Replace(texts.OneLine(p.Text())))
		if err != nil {
			return err
		}
	}
	return nil
}
