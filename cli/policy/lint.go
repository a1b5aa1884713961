package policy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/annotations"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// lintOptions are the flags of policy lint.
type lintOptions struct {
	program options.Program
	paths   paths
	strict  bool
	output  string
}

func lintOutputs() []string {
	return []string{printers.Table, printers.JSON, printers.SARIF, printers.GitHub}
}

func lintCommand(program options.Program) *cobra.Command {
	o := &lintOptions{program: program, output: printers.Table}
	cmd := &cobra.Command{
		Use:   "lint (PATH ... | -f FILE ... | -k DIR)",
		Short: "Show errors in policies and warnings about them, with lines",
		Long: `Show errors in policies and warnings about them, with lines.

lint compiles policies as the cluster does. Errors are, for example, misspelled fields, wrong types and missing parameters.
Warnings are about expressions that probably do not do what you mean, missing documentation, and policies without tests.
lint reads suites too, RuleSettings and VirtualMachineDefaults. docs/policy-lint.md lists all checks.

The exit code is 0 without errors; 1 with errors, or with warnings and --strict; and 2 for a wrong command line.`,
		Example: program.Examples(`  # Lint all policies of a directory
  PROGRAM policy lint policies

  # Annotate a pull request
  PROGRAM policy lint policies -o github --strict`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return o.lint(cmd.Context()) },
	}
	o.paths.addFlags(cmd, "the policies")
	o.paths.sources.AddSelectorFlag(cmd, "Lint only objects with these labels; files that cannot be read are errors nevertheless")
	flags := cmd.Flags()
	flags.BoolVar(&o.strict, "strict", false, "Fail on warnings too")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(lintOutputs(), ", "))
	cmd.ValidArgsFunction = options.CompleteFiles
	options.CompleteFlags(cmd, map[string][]string{"output": lintOutputs()})
	return cmd
}

func (o *lintOptions) validate(cmd *cobra.Command, args []string) error {
	if err := o.paths.validate(cmd, args, "policies"); err != nil {
		return err
	}
	return options.OneOf("output", o.output, lintOutputs())
}

func (o *lintOptions) lint(ctx context.Context) error {
	files, names, err := o.paths.open(ctx, o.program.Streams.In)
	if err != nil {
		return err
	}
	runner, err := policytest.NewRunner()
	if err != nil {
		return err
	}
	read := policytest.LoadPolicies(files, names...)
	read.Select(o.paths.sources.Labels())
	problems := runner.Lint(read)
	if read.Len()+read.Others() == 0 && len(problems) == 0 {
		return options.Usagef("%s: no VirtualMachinePolicy was found%s: explain -f evaluates virtual machines, and policy convert converts policies of other engines", strings.Join(names, ", "), o.paths.sources.WithLabels())
	}
	if err := o.write(o.program.Streams.Out, problems); err != nil {
		return err
	}
	if o.output == printers.Table && len(problems) == 0 {
		valid := texts.Count(read.Len(), "policy is", "policies are")
		if others := read.Others(); others > 0 {
			valid = texts.Count(read.Len(), "policy", "policies") + " and " + texts.Count(others, "other object", "other objects") + " are"
		}
		fmt.Fprintln(o.program.Streams.Out, valid+" valid")
	}
	warnings := 0
	for i := range problems {
		if problems[i].Warning {
			warnings++
		}
	}
	if wrong := len(problems) - warnings; wrong > 0 || o.strict && warnings > 0 {
		return fmt.Errorf("%s and %s", texts.Count(wrong, "error", "errors"), texts.Count(warnings, "warning", "warnings"))
	}
	return nil
}

func (o *lintOptions) write(w io.Writer, problems []policytest.Problem) error {
	switch o.output {
	case printers.JSON:
		return texts.WriteJSON(w, struct {
			Problems []policytest.Problem `json:"problems"`
		}{append([]policytest.Problem{}, problems...)})
	case printers.SARIF:
		return lintSARIF(w, o.program.Version, problems)
	case printers.GitHub:
		return annotations.Write(w, results(problems))
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
	for _, found := range results(problems) {
		report.Add(found)
	}
	return report.Write(w)
}

// results are problems as results of a SARIF log.
func results(problems []policytest.Problem) (all []sarif.Result) {
	for i := range problems {
		p := &problems[i]
		found := sarif.Result{
			Rule: cmp.Or(p.Rule, "unreadable"), Severity: validators.Deny, Text: texts.OneLine(p.Text()), Name: texts.OneLine(p.File + " " + p.Field),
			File: p.File, Line: max(p.Line, 1), Column: max(p.Column, 1),
		}
		if p.Warning {
			found.Severity = validators.Warn
		}
		if !isPath(p.File) {
			found.File = ""
		}
		all = append(all, found)
	}
	return all
}
