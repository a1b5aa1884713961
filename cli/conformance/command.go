package conformance

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/test/conformance"
	"github.com/virtward/virtward/texts"
)

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	var verbose bool
	var minimum float64
	cmd := &cobra.Command{
		Use:   "conformance FILE.jsonl ...",
		Short: "Compare recorded answers of KubeVirt with those of Virtward",
		Long: `Compare recorded answers of KubeVirt with those of Virtward.

Each line of a file is a case: an admission request, or a virtual machine with an instancetype and a preference, and the
answer of KubeVirt. The table shows for each area how many answers are equal: completed specs (mutated), decisions
(allowed), their causes, and expanded specs (expand). 0/0 means that the area has no such answers. The totals do not
include areas in brackets. The source code of Virtward has such files in test/conformance/testdata.

With --min, the exit code is 1 if one of the totals is below that share.`,
		Example: program.Examples(`  # Compare this program with KubeVirt
  PROGRAM conformance test/conformance/testdata/*.jsonl

  # Show every difference, and fail below 98 %
  PROGRAM conformance admission.jsonl -v --min 0.98`),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return options.Usagef("add a file with cases: see %s --help", cmd.CommandPath())
			case !(minimum >= 0 && minimum <= 1):
				return options.Usagef("--min %v: must be between 0 and 1", minimum)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			report, err := replay(args)
			if err != nil {
				return err
			}
			if err := writeReport(program.Streams.Out, report, verbose); err != nil {
				return err
			}
			return below(report, minimum)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "Show every difference")
	cmd.Flags().Float64Var(&minimum, "min", 0, "Exit with 1 if one of the totals is below this share, such as 0.98")
	return cmd
}

func replay(files []string) (*conformance.Report, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	pipeline := effective.NewPipeline(registry)
	report := conformance.NewReport()
	for _, name := range files {
		if err := replayFile(report, pipeline, name); err != nil {
			return nil, err
		}
	}
	if len(report.Areas()) == 0 {
		return nil, fmt.Errorf("%s: no cases", strings.Join(files, ", "))
	}
	return report, nil
}

func replayFile(report *conformance.Report, pipeline *effective.Pipeline, name string) error {
	file, err := manifests.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := report.Replay(pipeline, file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeReport prints the differences if verbose is true, the table and the summary.
func writeReport(w io.Writer, report *conformance.Report, verbose bool) error {
	if verbose {
		for _, d := range report.Differences {
			fmt.Fprintf(w, "%s: %s: %s\n", texts.OneLine(d.Case), d.What, texts.OneLine(d.Text))
		}
		if len(report.Differences) > 0 {
			fmt.Fprintln(w)
		}
	}
	if err := report.WriteTable(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, report.Summary())
	return err
}

// below returns an error that names the totals below the minimum, or nil.
func below(report *conformance.Report, minimum float64) error {
	total := report.Total()
	var low []string
	for _, r := range []struct {
		name  string
		ratio conformance.Ratio
	}{{"mutated", total.Mutated}, {"allowed", total.Allowed}, {"causes", total.Causes}, {"expand", total.Expand}} {
		if r.ratio.Share() < minimum {
			low = append(low, fmt.Sprintf("%s %s is %.4f", r.name, r.ratio, r.ratio.Share()))
		}
	}
	if len(low) == 0 {
		return nil
	}
	return fmt.Errorf("%s, below %v", strings.Join(low, ", "), minimum)
}
