package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/annotations"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/previews"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

type lintOptions struct {
	program options.Program
	strict  bool
	output  string
}

func lintOutputs() []string {
	return []string{printers.Table, printers.JSON, printers.YAML, printers.SARIF, printers.GitHub}
}

func lintCommand(program options.Program) *cobra.Command {
	o := &lintOptions{program: program, output: printers.Table}
	cmd := &cobra.Command{
		Use:   "lint PATH ...",
		Short: "Show errors in Plugins and warnings about them",
		Long: `Show errors in Plugins and warnings about them.

lint compiles conditions and hooks as KubeVirt does: those of domain hooks with the names of Go, and those of node hooks with the
names of JSON. Errors are, for example, fields that do not exist, a condition that only one of both languages accepts, and points
at which KubeVirt calls no hook. Warnings are about hooks that overwrite each other or that cannot be previewed. All Plugins of the
files are compared. docs/plugins.md lists all checks.

The exit code is 0 without errors; 1 with errors, or with warnings and --strict; and 2 for a wrong command line.`,
		Example: program.Examples(`  # Lint all Plugins of a directory
  PROGRAM plugin lint plugins

  # Fail on warnings, and write them for a code host
  PROGRAM plugin lint plugins --strict -o sarif`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return options.Usagef("add files or directories with Plugins%s", options.SeeHelp(cmd))
			}
			return options.OneOf("output", o.output, lintOutputs())
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return o.lint(cmd.Context(), args) },
		ValidArgsFunction: options.CompleteFiles,
	}
	cmd.Flags().BoolVar(&o.strict, "strict", false, "Fail on warnings too")
	cmd.Flags().StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(lintOutputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": lintOutputs()})
	return cmd
}

// problem is a problem of a Plugin with its place.
type problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	plugins.Problem
}

// String returns the problem in one line, as compilers do.
func (p *problem) String() string {
	word := ""
	if p.Warning {
		word = "warning: "
	}
	for _, part := range []string{p.Plugin, p.Field} {
		if part != "" {
			word += part + ": "
		}
	}
	return texts.OneLine(fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, word, p.Message))
}

func (o *lintOptions) lint(ctx context.Context, names []string) error {
	read, err := previews.ReadPlugins(ctx, names, true, options.Once(o.program.Streams.In))
	if err != nil {
		return err
	}
	if len(read.List)+len(read.Unreadable) == 0 {
		return options.Usagef("%s: there is no Plugin", strings.Join(names, ", "))
	}
	found := problemsOf(read)
	if err := o.write(o.program.Streams.Out, found); err != nil {
		return err
	}
	if o.output == printers.Table && len(found) == 0 {
		fmt.Fprintln(o.program.Streams.Out, texts.Count(len(read.List), "Plugin is", "Plugins are")+" valid")
	}
	warnings := 0
	for i := range found {
		if found[i].Warning {
			warnings++
		}
	}
	if wrong := len(found) - warnings; wrong > 0 || o.strict && warnings > 0 {
		return fmt.Errorf("%s and %s", texts.Count(wrong, "error", "errors"), texts.Count(warnings, "warning", "warnings"))
	}
	return nil
}

// problemsOf lints Plugins.
func problemsOf(read *previews.Plugins) []problem {
	found := []problem{}
	for i := range read.Unreadable {
		u := &read.Unreadable[i]
		p := problem{File: cmp.Or(u.File, u.Source), Line: max(u.Line, 1), Column: max(u.Column, 1), Problem: plugins.Problem{Rule: plugins.Unreadable, Message: u.Err.Error()}}
		if u.Object != nil {
			p.Plugin = u.Object.GetName()
		}
		found = append(found, p)
	}
	for _, reported := range plugins.Lint(read.List) {
		p := problem{Problem: reported}
		for i := range read.List {
			if read.List[i].Name == reported.Plugin {
				d := &read.Documents[i]
				position, _ := d.Find(reported.Field)
				p.File, p.Line, p.Column = cmp.Or(d.File, d.Source), max(position.Line, 1), max(position.Column, 1)
			}
		}
		found = append(found, p)
	}
	return found
}

func (o *lintOptions) write(w io.Writer, found []problem) error {
	log := struct {
		Problems []problem `json:"problems"`
	}{found}
	switch o.output {
	case printers.JSON:
		return texts.WriteJSON(w, log)
	case printers.YAML:
		text, err := yaml.Marshal(log)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	case printers.SARIF:
		report := sarif.NewReport(rulesTable(), o.program.Version)
		for _, result := range results(found) {
			report.Add(result)
		}
		return report.Write(w)
	case printers.GitHub:
		return annotations.Write(w, results(found))
	}
	for i := range found {
		if _, err := fmt.Fprintf(w, "%s [%s]\n", found[i].String(), found[i].Rule); err != nil {
			return err
		}
	}
	return nil
}

// rulesTable has the checks in the form of the other logs.
func rulesTable() validators.Table {
	table := validators.Table{{ID: plugins.Unreadable, Title: "A Plugin has the fields that KubeVirt has", Remedy: "Correct the field.", Severity: validators.Deny}}
	for _, rule := range plugins.Rules() {
		known := validators.Rule{ID: rule.ID, Title: rule.Title, Remedy: rule.Remedy, Severity: validators.Deny}
		if rule.Warning {
			known.Severity = validators.Warn
		}
		table = append(table, known)
	}
	return table
}

func results(found []problem) (all []sarif.Result) {
	for i := range found {
		p := &found[i]
		result := sarif.Result{
			Rule: p.Rule, Severity: validators.Deny, Text: texts.OneLine(p.Message), Name: texts.OneLine(p.Plugin + " " + p.Field),
			File: p.File, Line: p.Line, Column: p.Column,
		}
		if p.Warning {
			result.Severity = validators.Warn
		}
		all = append(all, result)
	}
	return all
}
