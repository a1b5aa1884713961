package policy

import (
	"context"
	"fmt"
	"io"
	"slices"
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

// testOptions are the flags of policy test.
type testOptions struct {
	program      options.Program
	paths        paths
	run          string
	verbose      bool
	trace        bool
	coverage     bool
	failFast     bool
	requireTests bool
	output       string
}

const outputTAP = "tap"

func testOutputs() []string {
	return []string{printers.Table, printers.JSON, printers.JUnit, printers.Markdown, outputTAP, printers.GitHub}
}

func testCommand(program options.Program) *cobra.Command {
	o := &testOptions{program: program, output: printers.Table}
	cmd := &cobra.Command{
		Use:   "test (PATH ... | -f FILE ... | -k DIR)",
		Short: "Run test suites of policies",
		Long: `Run test suites of policies.

A suite is a file of the kind Suite. Its tests have policies, the objects of a cluster, and cases. A case has the object of
a request, and the expected outcome. For a directory, test runs all suites below it. It evaluates as a cluster does, but
accesses none.

The schemas of KubeVirt and of Virtward validate the objects of a case, after KubeVirt's defaults: the version is that of the
KubeVirt object among them, or the newest. A field that they do not have, or an invalid value, fails the case. With --strict,
an object fails it that the virtual machine refers to and that the suite does not have.

-l selects tests by the labels of their policies: suites have no labels.

The exit code is 0 if all cases pass; 1 if a case fails; and 2 for a wrong command line, or if a case cannot be evaluated,
for example because a file is missing or a policy does not compile.`,
		Example: program.Examples(`  # Run all suites below a directory
  PROGRAM policy test policies

  # Run one case, and show its findings
  PROGRAM policy test policies --run 'memory/16Gi' -v

  # Show how the policies of a case are evaluated
  PROGRAM policy test policies --run 'memory/16Gi' --trace

  # In a CI system, require tests for all policies
  PROGRAM policy test policies --require-tests -o junit > report.xml`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return o.test(cmd.Context()) },
	}
	o.paths.addFlags(cmd, "the suites")
	o.paths.sources.AddSelectorFlag(cmd, "Run only tests of policies with these labels")
	o.paths.sources.AddSchemaFlags(cmd, "Fail cases whose virtual machine refers to an object that the suite does not have")
	flags := cmd.Flags()
	flags.StringVar(&o.run, "run", "", "Run only cases whose names match this regular expression: TEST, or TEST/CASE")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "Show all cases, with their findings")
	flags.BoolVar(&o.trace, "trace", false, "Show how policies are evaluated: expressions with their values, or the trace of Rego")
	flags.BoolVar(&o.coverage, "coverage", false, "Show which parts of the policies no case evaluates")
	flags.BoolVar(&o.failFast, "fail-fast", false, "Stop at the first case that does not pass")
	flags.BoolVar(&o.requireTests, "require-tests", false, "Fail if a policy has no case")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(testOutputs(), ", "))
	cmd.ValidArgsFunction = options.CompleteFiles
	options.CompleteFlags(cmd, map[string][]string{"output": testOutputs()})
	return cmd
}

func (o *testOptions) validate(cmd *cobra.Command, args []string) error {
	if err := o.paths.validate(cmd, args, "suites"); err != nil {
		return err
	}
	if err := options.OneOf("output", o.output, testOutputs()); err != nil {
		return err
	}
	if err := o.paths.sources.ValidateSchemas(); err != nil {
		return err
	}
	_, err := options.SelectCases(o.run)
	return err
}

func (o *testOptions) test(ctx context.Context) error {
	chosen, err := options.SelectCases(o.run)
	if err != nil {
		return err
	}
	files, names, err := o.paths.open(ctx, o.program.Streams.In)
	if err != nil {
		return err
	}
	all, problems := policytest.Load(files, names...)
	runner, err := policytest.NewRunner()
	if err != nil {
		return err
	}
	report := runner.Run(ctx, all, policytest.Options{
		Select: chosen, FailFast: o.failFast, Trace: o.trace, Coverage: o.coverage,
		UnknownFields: o.paths.sources.UnknownFieldsSeverity(), Strict: o.paths.sources.Strict, Policies: o.paths.sources.Labels(),
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.requireTests {
		report.Untested = policytest.LoadPolicies(files, names...).Untested(report)
	}
	report.Unreadable = problems
	if err := o.write(o.program.Streams.Out, report); err != nil {
		return err
	}
	for i := range problems {
		if o.output != printers.Table {
			fmt.Fprintln(o.program.Streams.ErrOut, texts.OneLine(problems[i].String()))
		}
	}
	return verdictOn(report, problems)
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
	case printers.GitHub:
		return annotations.Write(w, resultsOf(report))
	}
	return policytest.WriteTable(w, report, o.verbose)
}

// resultsOf returns what did not pass, as results of a SARIF log.
func resultsOf(report *policytest.Report) []sarif.Result {
	all := results(slices.Concat(report.Untested, report.Unreadable))
	for i := range report.Suites {
		s := &report.Suites[i]
		for k := range s.Tests {
			t := &s.Tests[k]
			for n := range t.Cases {
				if c := &t.Cases[n]; c.Status == policytest.Failed || c.Status == policytest.Broken {
					all = append(all, sarif.Result{
						Rule: string(c.Status) + ": " + t.Name + "/" + c.Name, Severity: validators.Deny, Text: strings.Join(c.Reasons, "; "), Name: s.File, File: s.File, Line: c.Line,
					})
				}
			}
		}
	}
	return all
}

// verdictOn returns an error that summarizes a report, or nil if all cases passed.
func verdictOn(report *policytest.Report, problems []policytest.Problem) error {
	switch c := report.Counts(); {
	case len(problems) > 0:
		return options.Usagef("%s cannot be run, the first one %s", texts.Count(len(problems), "file or suite", "files or suites"), problems[0].Place())
	case c.Broken > 0:
		return options.Usagef("%d of %s cannot be evaluated", c.Broken, texts.Count(c.Total(), "case", "cases"))
	case c.Failed > 0:
		return fmt.Errorf("%d of %s failed", c.Failed, texts.Count(c.Total(), "case", "cases"))
	case len(report.Untested) > 0:
		return fmt.Errorf("%s without a case", texts.Count(len(report.Untested), "policy is", "policies are"))
	case c.Total() == 0:
		return options.Usagef("no case was run")
	}
	return nil
}
