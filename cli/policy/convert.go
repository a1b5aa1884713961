package policy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/policy/proof"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/texts"
)

// convertOptions are the flags of policy convert.
type convertOptions struct {
	program options.Program
	sources options.Sources
	output  string
	suite   string
	engines []string
	timeout time.Duration
}

func convertCommand(program options.Program) *cobra.Command {
	o := &convertOptions{program: program, sources: options.NewSources(), output: printers.YAML}
	outputs := []string{printers.YAML, printers.JSON}
	cmd := &cobra.Command{
		Use:   "convert -f FILE ...",
		Short: "Convert policies of the API server, Kyverno and Gatekeeper",
		Long: `Convert policies of the API server, Kyverno and Gatekeeper into VirtualMachinePolicies.

convert reads ValidatingAdmissionPolicies, Kyverno's ValidatingPolicies and ClusterPolicies, and Gatekeeper's templates with
their constraints, in CEL and Rego. It prints a VirtualMachinePolicy for each policy and binding, each rule in CEL, patterns or
conditions, and each constraint; and a VirtualMachineDefaults for each mutation that only sets defaults. What is about the pods of
virtual machines becomes a policy on the virtual machines, if the fields that it reads are known before the pods exist. A part without an equivalent
is a comment at its place, and a warning. So is a finding of policy lint about an expression; comparisons of quantities are repaired.
docs/policy-convert.md lists the reasons for which a policy is not converted.

--suite writes a directory for each rule in patterns or conditions and for each constraint in Rego, with its policy, and with tests of
both engines that have the same objects: suite.yaml for policy test, kyverno-test.yaml for Kyverno, gator-suite.yaml for Gatekeeper.
--engine runs kyverno or gator on them. Without it, the results of the original are not proved, and the exit code is 1.

The exit code is 0 if all policies are converted completely and have no finding, 1 if not, and 2 for a wrong command line.`,
		Example: program.Examples(`  # Convert the policies of a directory
  PROGRAM policy convert -f policies > converted.yaml

  # Write tests, and run them in Kyverno
  PROGRAM policy convert -f policies --suite tests --engine kyverno > converted.yaml

  # Convert the policies of the cluster
  kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o yaml | PROGRAM policy convert -f -`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return options.Usagef("unknown argument %q: use -f for files%s", args[0], options.SeeHelp(cmd))
			}
			if !o.sources.HasFiles() {
				return options.Usagef("add a file with -f%s", options.SeeHelp(cmd))
			}
			if err := o.sources.ValidateFiles(cmd); err != nil {
				return err
			}
			if len(o.engines) > 0 && o.suite == "" {
				return options.Usagef("--engine runs the tests that --suite writes: add --suite%s", options.SeeHelp(cmd))
			}
			if o.timeout < 0 || o.timeout > 0 && o.suite == "" {
				return options.Usagef("--timeout is the time for the tests that --suite writes: it must not be negative, and needs --suite%s", options.SeeHelp(cmd))
			}
			return options.OneOf("output", o.output, outputs)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.sources.AddFileFlags(cmd, "the policies")
	cmd.Flags().StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(outputs, ", "))
	cmd.Flags().StringVar(&o.suite, "suite", "", "Write tests of rules in patterns, conditions and Rego to this directory")
	cmd.Flags().StringArrayVar(&o.engines, "engine", nil, "Run the tests with this program: kyverno, or gator if its name begins so; can be repeated")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "Time to derive the tests and to run them, such as 5m; 0 has no limit")
	options.CompleteFlags(cmd, map[string][]string{"output": outputs})
	return cmd
}

func (o *convertOptions) run(ctx context.Context) error {
	found, err := o.sources.ReadComplete(ctx, options.Once(o.program.Streams.In))
	if err != nil {
		return err
	}
	env, err := cel.Shared()
	if err != nil {
		return err
	}
	objects := make([]*unstructured.Unstructured, len(found))
	for i := range found {
		objects[i] = found[i].Object
	}
	results := convert.Convert(env, objects, effective.AlwaysSet())
	if err := o.print(results); err != nil {
		return err
	}
	converted, incomplete := 0, 0
	for i := range results {
		r := &results[i]
		if r.Converted() {
			converted++
		}
		if !r.Complete() {
			incomplete++
		}
		o.warn(found[r.Index].Location(), r)
	}
	unproved, err := o.prove(ctx, env, objects, results)
	if err != nil {
		return err
	}
	switch {
	case incomplete > 0:
		return fmt.Errorf("%s and %s not converted completely", texts.Count(converted, "policy is written", "policies are written"), texts.Count(incomplete, "object is", "objects are"))
	case converted == 0:
		return fmt.Errorf("%s: no policy to convert", o.sources.Names())
	case unproved > 0:
		return fmt.Errorf("%s not proved", texts.Count(unproved, "policy is", "policies are"))
	}
	return nil
}

// prove writes the tests of the policies that have some, and runs the engine. It returns how many policies are not proved.
func (o *convertOptions) prove(ctx context.Context, env *cel.Environment, objects []*unstructured.Unstructured, results []convert.Result) (unproved int, err error) {
	if o.suite == "" {
		return 0, nil
	}
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not complete after %s: the rest is not proved, see --timeout", o.timeout))
		defer cancel()
	}
	tell := func(format string, values ...any) {
		fmt.Fprintln(o.program.Streams.ErrOut, texts.OneLine(fmt.Sprintf(format, values...)))
	}
	for i := range results {
		r := &results[i]
		if r.Policy == nil {
			continue
		}
		if r.Written == nil {
			tell("note: %s: no tests: only rules in patterns and conditions, and templates in Rego have them", r.Source)
			continue
		}
		written, err := proof.Write(ctx, env, filepath.Join(o.suite, r.Policy.Name), objects[r.Index], r)
		switch {
		case errors.Is(err, convert.ErrTooLarge):
			unproved++
			tell("warning: %s: no tests, so it is not proved: %v", r.Source, err)
			continue
		case err != nil:
			return 0, fmt.Errorf("writing the tests of %s: %w", r.Source, err)
		}
		of := fmt.Sprintf("%s: %s in %s", r.Source, texts.Count(len(written.Cases), "case", "cases"), written.Directory)
		program := o.engineOf(written.Engine)
		if program == "" {
			unproved++
			tell("warning: %s: not proved: add --engine %s to run them in the original engine", of, written.Engine)
			continue
		}
		err = written.Run(ctx, program)
		switch {
		case err != nil && ctx.Err() != nil:
			return 0, fmt.Errorf("%s: running %s: %w", of, program, err)
		case err != nil:
			unproved++
			tell("warning: %s: not proved: %v", of, err)
			continue
		}
		tell("note: %s: %s has the same results", of, program)
	}
	return unproved, nil
}

// engineOf returns the program of an engine; empty if there is none. A program is gator if its name begins so.
func (o *convertOptions) engineOf(engine string) string {
	for _, program := range o.engines {
		if strings.HasPrefix(filepath.Base(program), proof.Gator) == (engine == proof.Gator) {
			return program
		}
	}
	return ""
}

// warn writes the notes of a result to standard error: those about lost parts as warnings.
func (o *convertOptions) warn(location string, r *convert.Result) {
	for _, n := range r.Notes {
		level, field := "note", ""
		if n.Lost {
			level = "warning"
		}
		if n.Field != "" {
			field = n.Field + ": "
		}
		fmt.Fprintln(o.program.Streams.ErrOut, texts.OneLine(fmt.Sprintf("%s: %s: %s: %s%s", level, location, r.Source, field, n.Message)))
	}
}

// print writes the policies.
func (o *convertOptions) print(results []convert.Result) error {
	out := o.program.Streams.Out
	if o.output == printers.JSON {
		return texts.WriteJSON(out, struct {
			Results []convert.Result `json:"results"`
		}{append([]convert.Result{}, results...)})
	}
	printed := false
	for i := range results {
		if !results[i].Converted() && results[i].Complete() { // an object that was skipped
			continue
		}
		text, err := results[i].YAML()
		if err != nil {
			return err
		}
		if printed {
			fmt.Fprintln(out, "---")
		}
		printed = true
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}
