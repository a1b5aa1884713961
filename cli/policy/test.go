package policy

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/texts"
)

// testOptions are the flags of policy test.
type testOptions struct {
	program      options.Program
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
	return []string{options.OutputTable, options.OutputJSON, options.OutputJUnit, options.OutputMarkdown, outputTAP}
}

func testCommand(program options.Program) *cobra.Command {
	o := &testOptions{program: program, output: options.OutputTable}
	cmd := &cobra.Command{
		Use:   "test PATH ...",
		Short: "Run suites: say whether policies evaluate virtual machines as they should",
		Long: `Run suites: say whether policies evaluate virtual machines as they should.

A suite is a file of the kind Suite, with tests: policies, the objects around a virtual machine, and cases, each of
which sends an object and says what should come of it. Of a directory, every suite below it is run. Nothing is asked
of a cluster, and the answer is the one that a cluster would give.

It exits with 0 if every case passed, with 1 if some failed, and with 2 if it was called wrongly or a case cannot be
evaluated: a file is missing, or a policy does not compile.`,
		Example: program.Examples(`  # Run every suite below a directory
  PROGRAM policy test policies

  # One test, or one case of it, with everything that was found
  PROGRAM policy test policies --run 'memory/16Gi' -v

  # Why does it say that?
  PROGRAM policy test policies --run 'memory/16Gi' --trace

  # In a CI system: every policy must be tested
  PROGRAM policy test policies --require-tests -o junit > report.xml`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.test(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.run, "run", "", "Run only cases whose names match this regular expression: TEST, or TEST/CASE")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "Show every case, with what was found")
	flags.BoolVar(&o.trace, "trace", false, "Show of every case what the policies did: expressions and their values, or what Rego tried")
	flags.BoolVar(&o.coverage, "coverage", false, "Show what of the policies no case evaluated")
	flags.BoolVar(&o.failFast, "fail-fast", false, "End with the first case that does not pass")
	flags.BoolVar(&o.requireTests, "require-tests", false, "Fail if there is a policy that no case was run for")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(testOutputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": testOutputs()})
	return cmd
}

func (o *testOptions) validate(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return options.Usagef("name a suite, or a directory with suites: see %s --help", cmd.CommandPath())
	}
	if err := options.OneOf("output", o.output, testOutputs()); err != nil {
		return err
	}
	_, err := selection(o.run)
	return err
}

// selection reads --run: a regular expression for tests and, behind a slash, one for cases.
func selection(run string) (func(test, name string) bool, error) {
	forTests, forCases, _ := strings.Cut(run, "/")
	tests, err := regexp.Compile(forTests)
	if err != nil {
		return nil, options.Usagef("--run %s: %w", run, err)
	}
	cases, err := regexp.Compile(forCases)
	if err != nil {
		return nil, options.Usagef("--run %s: %w", run, err)
	}
	return func(test, name string) bool { return tests.MatchString(test) && cases.MatchString(name) }, nil
}

func (o *testOptions) test(ctx context.Context, paths []string) error {
	chosen, err := selection(o.run)
	if err != nil {
		return err
	}
	all, problems := policytest.Load(disk{}, paths...)
	runner, err := policytest.NewRunner()
	if err != nil {
		return err
	}
	report := runner.Run(ctx, all, policytest.Options{Select: chosen, FailFast: o.failFast, Trace: o.trace, Coverage: o.coverage})
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.requireTests {
		report.Untested = policytest.LoadPolicies(disk{}, paths...).Untested(report)
	}
	if err := o.write(o.program.Streams.Out, report); err != nil {
		return err
	}
	for i := range problems {
		fmt.Fprintln(o.program.Streams.ErrOut, texts.OneLine(problems[i].String()))
	}
	return verdictOn(report, problems)
}

func (o *testOptions) write(w io.Writer, report *policytest.Report) error {
	switch o.output {
	case options.OutputJSON:
		return policytest.WriteJSON(w, report)
	case options.OutputJUnit:
		return policytest.WriteJUnit(w, report)
	case options.OutputMarkdown:
		return policytest.WriteMarkdown(w, report)
	case outputTAP:
		return policytest.WriteTAP(w, report)
	}
	return policytest.WriteTable(w, report, o.verbose)
}

// verdictOn is the error that sums up a report, which was told already; nil if all is well.
func verdictOn(report *policytest.Report, problems []policytest.Problem) error {
	switch c := report.Counts(); {
	case len(problems) > 0:
		return options.Usagef("%s cannot be run, the first one %s", counted(len(problems), "file or suite", "files or suites"), problems[0].Place())
	case c.Broken > 0:
		return options.Usagef("%d of %s cannot be evaluated", c.Broken, counted(c.Total(), "case", "cases"))
	case c.Failed > 0:
		return fmt.Errorf("%d of %s failed", c.Failed, counted(c.Total(), "case", "cases"))
	case len(report.Untested) > 0:
		return fmt.Errorf("%s without a case", counted(len(report.Untested), "policy is", "policies are"))
	case c.Total() == 0:
		return options.Usagef("no case was run")
	}
	return nil
}

// counted is a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
