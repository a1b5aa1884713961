package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/audit"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/previews"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/texts"
)

type diffOptions struct {
	program options.Program
	sources options.Sources
	assume  string
	max     int
	output  string
}

func diffOutputs() []string { return []string{printers.Table, printers.JSON, printers.YAML} }

func diffCommand(program options.Program) *cobra.Command {
	o := &diffOptions{program: program, sources: options.NewSources(), output: printers.Table, max: 20}
	cmd := &cobra.Command{
		Use:   "diff PLUGIN ... [-f FILE ...]",
		Short: "Show what Plugins would change in each virtual machine",
		Long: `Show what Plugins would change in each virtual machine.

diff makes the domain of each virtual machine twice: as it is now, and with the Plugins in the files of the arguments. Without -f, it
reads the virtual machines of the cluster, and compares with the Plugins of the cluster: those of the files replace Plugins of the
same name. With -f, there are no Plugins now, unless you use --from-cluster.

The exit code is 1 if the Plugins keep a virtual machine from starting that starts now, or if a document cannot be read.`,
		Example: program.Examples(`  # Show what a Plugin would change in the virtual machines of the cluster
  PROGRAM plugin diff sound.yaml

  # Show what it would change in those of a file
  PROGRAM plugin diff sound.yaml -f vm.yaml`),
		Args:              func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE:              func(cmd *cobra.Command, args []string) error { return o.diff(cmd.Context(), args) },
		ValidArgsFunction: options.CompleteFiles,
	}
	options.AddClusterFlags(cmd, o.sources.Config, "", "Show only the virtual machines of this namespace; with -f, the namespace of objects that name none")
	o.sources.AddFileFlags(cmd, "the virtual machines, not those of the cluster")
	o.sources.AddSelectorFlag(cmd, "Select virtual machines by their labels")
	o.sources.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.sources.FromCluster, "from-cluster", false, "With -f, read the configuration, the Plugins, and objects that the files lack from the cluster")
	flags.StringVar(&o.assume, "assume", "", "File with assumptions about the node, in YAML")
	flags.IntVar(&o.max, "max", o.max, "Maximum number of changes to show for each virtual machine in the table; 0 for all")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(diffOutputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": diffOutputs()})
	return cmd
}

func (o *diffOptions) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return options.Usagef("add files or directories with Plugins%s", options.SeeHelp(cmd))
	case o.max < 0:
		return options.Usagef("--max %d: must be 0 or more", o.max)
	case o.sources.FromCluster && !o.sources.HasFiles():
		return options.Usagef("--from-cluster requires -f: without -f, the cluster is always read%s", options.SeeHelp(cmd))
	}
	if err := o.sources.ValidateFiles(cmd); err != nil {
		return err
	}
	if err := options.OneOf("output", o.output, diffOutputs()); err != nil {
		return err
	}
	return o.sources.ValidateFacts()
}

// machine is a virtual machine in the report.
type machine struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Changes are the values that differ, with the hook that wrote the new one.
	Changes []change `json:"changes"`
	// Hooks are those that were not applied.
	Hooks []plugins.HookResult `json:"hooks,omitempty"`
	// Error is why it would not start with the Plugins, and NotShown why it has no domain without them.
	Error    string `json:"error,omitempty"`
	NotShown string `json:"notShown,omitempty"`
	// Complete is false if hooks that cannot be previewed can change more.
	Complete bool `json:"complete"`
}

type change struct {
	Element string `json:"element"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Hook    string `json:"hook,omitempty"`
}

type differ struct {
	previewer *previews.Previewer
	now, then *plugins.Set
	machines  []machine
}

func (o *diffOptions) diff(ctx context.Context, names []string) error {
	stdin := options.Once(o.program.Streams.In)
	read, err := previews.ReadPlugins(ctx, names, true, stdin)
	if err != nil {
		return err
	}
	added, err := read.Complete()
	if err != nil {
		return err
	}
	if len(added) == 0 {
		return options.Usagef("%s: there is no Plugin", strings.Join(names, ", "))
	}
	d, files, cluster, err := o.prepare(ctx, added, stdin)
	if err != nil {
		return err
	}
	var notes []string
	if o.sources.HasFiles() {
		err = d.each(ctx, files.Subjects)
	} else {
		namespace := ""
		if o.sources.Config.Namespace != nil {
			namespace = *o.sources.Config.Namespace
		}
		notes, err = audit.Each(ctx, cluster, namespace, o.sources.Selector, o.program.Streams.ErrOut, d.each)
	}
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(o.program.Streams.ErrOut, "note: "+texts.OneLine(note))
	}
	if err := o.write(o.program.Streams.Out, d.machines); err != nil {
		return err
	}
	if failing := count(d.machines, func(m *machine) bool { return m.Error != "" }); failing > 0 {
		return fmt.Errorf("%s would not start", texts.Count(failing, "virtual machine", "virtual machines"))
	}
	return nil
}

// prepare reads what surrounds the virtual machines, and compiles both sets of Plugins.
func (o *diffOptions) prepare(ctx context.Context, added []*pluginv1alpha1.Plugin, stdin io.Reader) (*differ, *offline.Files, *offline.Cluster, error) {
	files, err := o.sources.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(files.Unreadable) > 0 {
		return nil, nil, nil, explanation.UnreadableError(explanation.Unreadables(files.Unreadable))
	}
	var cluster *offline.Cluster
	var present []*pluginv1alpha1.Plugin
	if !o.sources.HasFiles() || o.sources.FromCluster {
		if cluster, err = options.Connect(o.sources.Config); err != nil {
			return nil, nil, nil, err
		}
		found, err := previews.ClusterPlugins(ctx, cluster)
		if err != nil {
			return nil, nil, nil, err
		}
		if present, err = found.Complete(); err != nil {
			return nil, nil, nil, err
		}
	}
	facts, err := o.sources.ReadFacts(ctx, files, cluster, stdin)
	if err != nil {
		return nil, nil, nil, err
	}
	if facts, err = o.sources.Assume(facts); err != nil {
		return nil, nil, nil, err
	}
	if note := previews.GateNote(facts); note != "" && cluster != nil {
		fmt.Fprintln(o.program.Streams.ErrOut, "note: "+note)
		present = nil
	}
	host, err := previews.ReadAssumptions(o.assume, stdin)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := o.sources.NewEvaluator(ctx, files, cluster, facts)
	if err != nil {
		return nil, nil, nil, err
	}
	previewer, err := previews.New(w, host)
	if err != nil {
		return nil, nil, nil, err
	}
	then := slices.DeleteFunc(slices.Clone(present), func(p *pluginv1alpha1.Plugin) bool {
		return slices.ContainsFunc(added, func(q *pluginv1alpha1.Plugin) bool { return p.Name == q.Name })
	})
	return &differ{previewer: previewer, now: plugins.NewSet(present), then: plugins.NewSet(append(then, added...)), machines: []machine{}}, files, cluster, nil
}

// each compares the virtual machines of a page.
func (d *differ) each(ctx context.Context, all []manifests.Document) error {
	for _, subject := range all {
		if offline.IsSubject(subject.Object.GroupVersionKind()) {
			d.machines = append(d.machines, d.machine(ctx, subject))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) machine(ctx context.Context, subject manifests.Document) machine {
	m := machine{Kind: subject.Object.GetKind(), Namespace: subject.Object.GetNamespace(), Name: subject.Object.GetName(), Changes: []change{}}
	made, err := d.previewer.Machine(ctx, subject)
	if err != nil {
		m.NotShown = err.Error()
		return m
	}
	m.Namespace = made.Instance.Namespace
	now := d.now.Apply(made.Instance, made.Document)
	if now.Err != nil {
		m.NotShown = now.Err.Error()
		return m
	}
	then := d.then.Apply(made.Instance, made.Document)
	for i := range then.Hooks {
		if then.Hooks[i].Outcome != plugins.Applied {
			m.Hooks = append(m.Hooks, then.Hooks[i])
		}
	}
	m.Complete = then.Exact()
	if then.Err != nil {
		m.Error = then.Err.Error()
		return m
	}
	for _, each := range domain.Diff(cleaned(now.Document), cleaned(then.Document)) {
		m.Changes = append(m.Changes, change{Element: each.Path, Before: each.Before, After: each.After, Hook: hookOf(then, each)})
	}
	return m
}

func cleaned(e *domain.Element) *domain.Element {
	e = e.Canonical() // a copy
	e.Clean()
	return e
}

// hookOf is the hook that made a change: the source of the new value, or the last hook that took the old one away. What no hook changed,
// the types of libvirtxml did.
func hookOf(result *plugins.Result, difference domain.Difference) string {
	if difference.AfterSource.Plugin != "" {
		return difference.AfterSource.Plugin
	}
	for i := len(result.Hooks) - 1; i >= 0; i-- {
		for _, each := range result.Hooks[i].Changes {
			if each.Path == difference.Path {
				return result.Hooks[i].Plugin + "/" + result.Hooks[i].Hook
			}
		}
	}
	return plugins.RoundTrip
}

func count(all []machine, is func(*machine) bool) (n int) {
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return n
}

// counts are the numbers of a report.
type counts struct {
	Machines, Changed, Failing, Incomplete, NotShown int
}

func countsOf(all []machine) counts {
	return counts{
		Machines: len(all), Changed: count(all, func(m *machine) bool { return len(m.Changes) > 0 }),
		Failing: count(all, func(m *machine) bool { return m.Error != "" }), NotShown: count(all, func(m *machine) bool { return m.NotShown != "" }),
		Incomplete: count(all, func(m *machine) bool { return !m.Complete && m.NotShown == "" }),
	}
}

func (o *diffOptions) write(w io.Writer, all []machine) error {
	report := struct {
		Machines []machine `json:"machines"`
	}{all}
	switch o.output {
	case printers.JSON:
		return texts.WriteJSON(w, report)
	case printers.YAML:
		text, err := yaml.Marshal(report)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	for i := range all {
		if err := o.writeMachine(w, &all[i]); err != nil {
			return err
		}
	}
	c := countsOf(all)
	_, err := fmt.Fprintf(w, "%s: %d changed, %d would not start, %d incomplete, %d without a domain\n",
		texts.Count(c.Machines, "virtual machine", "virtual machines"), c.Changed, c.Failing, c.Incomplete, c.NotShown)
	return err
}

func (o *diffOptions) writeMachine(w io.Writer, m *machine) error {
	fmt.Fprintf(w, "%s %s/%s\n", texts.OneLine(m.Kind), texts.OneLine(m.Namespace), texts.OneLine(m.Name))
	switch {
	case m.NotShown != "":
		fmt.Fprintf(w, "  has no domain: %s\n", texts.OneLine(m.NotShown))
	case m.Error != "":
		fmt.Fprintf(w, "  would not start: %s\n", texts.OneLine(m.Error))
	case len(m.Changes) == 0:
		fmt.Fprintln(w, "  no changes")
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	shown := m.Changes
	if o.max > 0 && len(shown) > o.max {
		shown = shown[:o.max]
	}
	if len(shown) > 0 {
		fmt.Fprintln(columns, "  ELEMENT\tBEFORE\tAFTER\tHOOK")
	}
	for _, each := range shown {
		fmt.Fprintf(columns, "  %s\t%s\t%s\t%s\n", texts.OneLine(each.Element), texts.OneLine(each.Before), texts.OneLine(each.After), texts.OneLine(each.Hook))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	if rest := len(m.Changes) - len(shown); rest > 0 {
		fmt.Fprintf(w, "  and %s: see --max\n", texts.Count(rest, "change", "changes"))
	}
	for i := range m.Hooks {
		if h := &m.Hooks[i]; h.Outcome != plugins.Failed {
			fmt.Fprintf(w, "  %s %s: %s, %s\n", texts.OneLine(h.Plugin), h.Hook, h.Outcome, texts.OneLine(h.Message))
		}
	}
	return nil
}
