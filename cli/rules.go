package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/catalogue"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

//go:generate sh -c "go run ../cmd/kubectl-virtward rules --output markdown > ../docs/rules.md"

// rulesOptions are the flags of rules.
type rulesOptions struct {
	hypervisor   string
	architecture string
	scope        string
	output       string
	name         string
	streams      genericiooptions.IOStreams
}

const outputMarkdown = "markdown"

func rulesOutputs() []string { return []string{outputTable, outputJSON, outputMarkdown} }

// scopeWords are what --scope takes.
func scopeWords() []string {
	names := validators.ScopeNames()
	words := make([]string, len(names))
	for i := range names {
		words[i] = names[i].Word
	}
	return words
}

func rulesCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	o := &rulesOptions{name: name, streams: streams, output: outputTable}
	cmd := &cobra.Command{
		Use:   "rules [ID]",
		Short: "List the rules by which virtual machines are checked, or show one of them",
		Long: `List the rules by which virtual machines are checked, or show one of them.

A rejection or warning of Virtward names its rule: [virtward/arm64-disk-bus]. With its ID, all about that rule is
shown: what must hold, its severity, what it applies to and where, what to do about a finding, and how to make it
milder.

ON says which hypervisors or architectures have the rule.`,
		Example: example(name, `  # What is checked?
  PROGRAM rules

  # What is checked when an arm64 VirtualMachineInstance is created on Microsoft's hypervisor?
  PROGRAM rules --scope vmi --arch arm64 --hypervisor mshv

  # All about one rule
  PROGRAM rules arm64-disk-bus`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.hypervisor, "hypervisor", "", "Only what this hypervisor has: "+strings.Join(platform.HypervisorNames(), ", "))
	flags.StringVar(&o.architecture, "arch", "", "Only what this architecture has: "+strings.Join(architectures(), ", "))
	flags.StringVar(&o.scope, "scope", "", "Only what applies to this: "+strings.Join(scopeWords(), ", "))
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(rulesOutputs(), ", "))
	completeFlags(cmd, map[string][]string{
		"hypervisor": platform.HypervisorNames(),
		"arch":       architectures(),
		"scope":      scopeWords(),
		"output":     rulesOutputs(),
	})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return completeRules(args, word), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// completeRules offers the ids that begin with a word, with what the rules say.
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

func (o *rulesOptions) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usage("name one rule, or none: see %s --help", cmd.CommandPath())
	case len(args) == 1 && (o.hypervisor != "" || o.architecture != "" || o.scope != ""):
		return usage("--hypervisor, --arch and --scope choose from the list, not from one rule: see %s --help", cmd.CommandPath())
	case !slices.Contains(rulesOutputs(), o.output):
		return usage("unknown output %q: the known ones are %s", o.output, strings.Join(rulesOutputs(), ", "))
	case o.architecture != "" && !slices.Contains(architectures(), o.architecture):
		return usage("unknown architecture %q: the known ones are %s", o.architecture, strings.Join(architectures(), ", "))
	case o.scope != "" && !slices.Contains(scopeWords(), o.scope):
		return usage("unknown scope %q: the known ones are %s", o.scope, strings.Join(scopeWords(), ", "))
	}
	if o.hypervisor != "" {
		if _, err := platform.HypervisorByName(o.hypervisor); err != nil {
			return usageError{err}
		}
	}
	return nil
}

func (o *rulesOptions) run(args []string) error {
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
			return usage("%w: see %s rules", err, o.name)
		}
		entries = slices.DeleteFunc(entries, func(e catalogue.Entry) bool { return e.ID != rule.ID })
	} else if entries, err = o.selected(entries); err != nil {
		return err
	}
	switch {
	case o.output == outputJSON:
		return catalogue.WriteJSON(o.streams.Out, entries, len(args) == 1)
	case o.output == outputMarkdown:
		return catalogue.WriteMarkdown(o.streams.Out, entries)
	case len(args) == 1:
		return catalogue.WritePage(o.streams.Out, &entries[0])
	}
	return catalogue.WriteTable(o.streams.Out, entries)
}

// selected are the entries that the flags choose.
func (o *rulesOptions) selected(entries []catalogue.Entry) ([]catalogue.Entry, error) {
	filter := catalogue.Filter{Architecture: o.architecture}
	if o.hypervisor != "" {
		h, err := platform.HypervisorByName(o.hypervisor)
		if err != nil {
			return nil, usageError{err}
		}
		filter.Hypervisor = h.Name // hyperv-direct is mshv
	}
	for _, s := range validators.ScopeNames() {
		if s.Word == o.scope {
			filter.Scope = s.Name
		}
	}
	return filter.Select(entries), nil
}
