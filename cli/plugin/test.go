package plugin

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
)

type testOptions struct {
	program options.Program
	run     string
	verbose bool
	output  string
}

// outputTAP is the Test Anything Protocol.
const outputTAP = "tap"

func testOutputs() []string {
	return []string{printers.Table, printers.JSON, printers.JUnit, printers.Markdown, outputTAP}
}

func testCommand(program options.Program) *cobra.Command {
	o := &testOptions{program: program, output: printers.Table}
	cmd := &cobra.Command{
		Use:   "test PATH ...",
		Short: "Run test suites of Plugins",
		Long: `Run test suites of Plugins.

A suite is a file of the kind PluginSuite. Its tests have Plugins, and cases with a virtual machine and what the Plugins make of its
domain: values, the number of changes, the outcomes of hooks, or the error with which it does not start. For a directory, test runs
all suites below it. It accesses no cluster. docs/plugins.md shows a suite.

The exit code is 0 if all cases pass; 1 if a case fails; and 2 for a wrong command line, or if a case cannot be evaluated.`,
		Example: program.Examples(`  # Run all suites below a directory
  PROGRAM plugin test plugins

  # Run one case, and show what became of its hooks
  PROGRAM plugin test plugins --run 'sound/no-network' -v`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return options.Usagef("add files or directories with suites%s", options.SeeHelp(cmd))
			}
			if _, err := options.SelectCases(o.run); err != nil {
				return err
			}
			return options.OneOf("output", o.output, testOutputs())
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return o.test(cmd.Context(), args) },
		ValidArgsFunction: options.CompleteFiles,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.run, "run", "", "Run only cases whose names match this regular expression: TEST, or TEST/CASE")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "Show all cases, with the hooks that were not applied")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(testOutputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": testOutputs()})
	return cmd
}

func (o *testOptions) test(ctx context.Context, names []string) error {
	chosen, err := options.SelectCases(o.run)
	if err != nil {
		return err
	}
	all, problems, err := loadSuites(ctx, names, o.program.Streams.In)
	if err != nil {
		return err
	}
	report := &policytest.Report{Suites: []policytest.SuiteOutcome{}, Unreadable: problems}
	for _, l := range all {
		outcome := policytest.SuiteOutcome{Name: l.Metadata.Name, File: l.document.Source}
		for i := range l.Tests {
			if test := l.run(ctx, i, chosen); len(test.Cases) > 0 {
				outcome.Tests = append(outcome.Tests, test)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if len(outcome.Tests) > 0 {
			report.Suites = append(report.Suites, outcome)
		}
	}
	if err := o.write(o.program.Streams.Out, report); err != nil {
		return err
	}
	switch c := report.Counts(); {
	case len(problems) > 0:
		return options.Usagef("%s cannot be run, the first one %s", texts.Count(len(problems), "file or suite", "files or suites"), problems[0].Place())
	case c.Broken > 0:
		return options.Usagef("%d of %s cannot be evaluated", c.Broken, texts.Count(c.Total(), "case", "cases"))
	case c.Failed > 0:
		return fmt.Errorf("%d of %s failed", c.Failed, texts.Count(c.Total(), "case", "cases"))
	case c.Total() == 0:
		return options.Usagef("no case was run")
	}
	return nil
}

func (o *testOptions) write(w io.Writer, report *policytest.Report) error {
	switch o.output {
	case printers.JSON:
		return policytest.WriteJSON(w, report)
	case printers.JUnit:
		return policytest.WriteJUnit(w, report)
	case printers.Markdown:
		return policytest.WriteMarkdown(w, report)
	case outputTAP:
		return policytest.WriteTAP(w, report)
	}
	return policytest.WriteTable(w, report, o.verbose)
}
