package rules

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/catalogue"
	"github.com/virtward/virtward/cli/catalogue/rejections"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

//go:generate go run ../catalogue/gen ../..

// command has the flags of rules.
type command struct {
	program      options.Program
	hypervisor   string
	architecture string
	scope        string
	output       string
}

func outputs() []string {
	return []string{printers.Table, printers.JSON, printers.Markdown}
}

// scopeWords returns the values of --scope.
func scopeWords() []string {
	names := validators.ScopeNames()
	words := make([]string, len(names))
	for i := range names {
		words[i] = names[i].Word
	}
	return words
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, output: printers.Table}
	cmd := &cobra.Command{
		Use:   "rules [ID]",
		Short: "List the built-in rules, or show one of them",
		Long: `List the built-in rules, or show one of them.

Rejections and warnings of Virtward name their rule: [virtward/arm64-disk-bus]. With its ID, this command shows all about
the rule: what it requires, its severity, the objects that it applies to, an object that violates it, the remedy as a JSON
patch, and how to lower the severity.

The column ON shows the hypervisors or the architectures of the rule.`,
		Example: program.Examples(`  # List all rules
  PROGRAM rules

  # List the rules for an arm64 VirtualMachineInstance on Microsoft's hypervisor
  PROGRAM rules --scope vmi --arch arm64 --hypervisor mshv

  # Show one rule
  PROGRAM rules arm64-disk-bus`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.hypervisor, "hypervisor", "", "List only rules of this hypervisor: "+strings.Join(platform.HypervisorNames(), ", "))
	flags.StringVar(&c.architecture, "arch", "", "List only rules of this architecture: "+strings.Join(options.Architectures(), ", "))
	flags.StringVar(&c.scope, "scope", "", "List only rules for this kind of object or request: "+strings.Join(scopeWords(), ", "))
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{
		"hypervisor": platform.HypervisorNames(),
		"arch":       options.Architectures(),
		"scope":      scopeWords(),
		"output":     outputs(),
	})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return completeRules(args, word), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// completeRules returns the ids that begin with a word, with the titles of the rules.
func completeRules(args []string, word string) []string {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil || len(args) > 0 {
		return nil
	}
	var words []string
	for _, rule := range registry.Rules() {
		if strings.HasPrefix(rule.ID, word) {
			words = append(words, rule.ID+"\t"+rule.Title)
		}
	}
	slices.Sort(words)
	return words
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return options.Usagef("accepts at most one rule: see %s --help", cmd.CommandPath())
	case len(args) == 1 && (c.hypervisor != "" || c.architecture != "" || c.scope != ""):
		return options.Usagef("--hypervisor, --arch and --scope cannot be used with one rule: see %s --help", cmd.CommandPath())
	}
	if err := options.OneOf("output", c.output, outputs()); err != nil {
		return err
	}
	if err := options.OptionalOneOf("architecture", c.architecture, options.Architectures()); err != nil {
		return err
	}
	if err := options.OptionalOneOf("scope", c.scope, scopeWords()); err != nil {
		return err
	}
	return options.Hypervisor(c.hypervisor)
}

func (c *command) run(ctx context.Context, args []string) error {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	entries, err := catalogue.New(registry)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		rule, err := registry.Rules().Find(args[0])
		if err != nil {
			return options.Usagef("%w: see %s rules", err, c.program.Name)
		}
		entries = slices.DeleteFunc(entries, func(e catalogue.Entry) bool { return e.ID != rule.ID })
	} else if entries, err = c.selected(entries); err != nil {
		return err
	}
	switch {
	case c.output == printers.JSON:
		return catalogue.WriteJSON(c.program.Streams.Out, entries, len(args) == 1)
	case c.output == printers.Markdown && len(args) == 1:
		messages, err := rejections.New(registry).Messages(ctx, entries[0].ID, entries[0].Example)
		if err != nil {
			return err
		}
		return catalogue.WriteRule(c.program.Streams.Out, &entries[0], messages, "")
	case c.output == printers.Markdown:
		return catalogue.WriteMarkdown(c.program.Streams.Out, entries)
	case len(args) == 1:
		return catalogue.WritePage(c.program.Streams.Out, &entries[0])
	}
	return catalogue.WriteTable(c.program.Streams.Out, entries)
}

// selected returns the entries that the flags select.
func (c *command) selected(entries []catalogue.Entry) ([]catalogue.Entry, error) {
	filter := catalogue.Filter{Architecture: c.architecture}
	if c.hypervisor != "" {
		h, err := platform.HypervisorByName(c.hypervisor)
		if err != nil {
			return nil, options.Usagef("%w", err)
		}
		filter.Hypervisor = h.Name // hyperv-direct is mshv
	}
	for _, s := range validators.ScopeNames() {
		if s.Word == c.scope {
			filter.Scope = s.Name
		}
	}
	return filter.Select(entries), nil
}
