package domains

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/previews"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/plugins"
)

const outputXML = "xml"

// command has the flags of domain.
type command struct {
	program options.Program
	sources options.Sources
	// assume is a file with assumptions, and diff what the domain is compared with.
	assume, diff string
	output       string
	// plugins are files with Plugins, and set what they and the cluster have; nil without --plugins and --from-cluster.
	plugins []string
	set     *plugins.Set
	cluster *offline.Cluster
}

func outputs() []string { return []string{outputXML, printers.Table} }

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, sources: options.NewSources(), output: outputXML}
	cmd := &cobra.Command{
		Use:   "domain -f FILE ...",
		Short: "Show the libvirt domain of a virtual machine before it runs",
		Long: `Show the libvirt domain of a virtual machine before it runs.

The virtual machine is expanded and completed as explain does it, and then converted as KubeVirt's virt-launcher does it. The
output xml has the form of libvirt's schema, and first a comment with what is assumed about the node. The output table has the
source of each value: a field of the instance and the layer that set it, or an assumption.

What only the node knows is assumed: its CPUs, whether a claim is a block device, the files of the firmware, and the addresses of
devices. --assume is a file in YAML with other assumptions. Addresses that libvirt gives are not shown.

--diff compares the domain with another one: that of the same virtual machine on another hypervisor, that of a virtual machine in
another file, or a document of libvirt, such as the output of virsh dumpxml in a virt-launcher pod.

--plugins applies the CEL domain hooks of KubeVirt's Plugins to the domain, as virt-launcher does it. Each value that a hook wrote
has the hook as its source. What cannot be previewed, such as a sidecar, is listed.

The exit code is 1 if KubeVirt would not start the virtual machine, or its domain would have more than 4096 vCPUs.`,
		Example: program.Examples(`  # Show the domain of the virtual machine in a file
  PROGRAM domain -f vm.yaml

  # Show the source of each value, on Microsoft's hypervisor
  PROGRAM domain -f vm.yaml --hypervisor hyperv-direct -o table

  # Compare both hypervisors
  PROGRAM domain -f vm.yaml --diff hyperv-direct

  # Show the domain after the Plugins in a directory
  PROGRAM domain -f vm.yaml --plugins plugins -o table

  # Compare with what runs
  PROGRAM domain -f vm.yaml --diff running.xml`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	options.AddClusterFlags(cmd, c.sources.Config, ", for --from-cluster", "Namespace of objects in files that name none")
	c.sources.AddFileFlags(cmd, "the virtual machines")
	c.sources.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&c.sources.Instancetypes, "instancetype", nil, "Files with instancetypes, or other objects that virtual machines refer to")
	flags.StringSliceVar(&c.sources.Preferences, "preference", nil, "Files with preferences, or other objects that virtual machines refer to")
	flags.StringVar(&c.assume, "assume", "", "File with assumptions about the node, in YAML")
	flags.StringSliceVar(&c.plugins, "plugins", nil, "Files and directories with KubeVirt's Plugins, whose domain hooks are applied")
	flags.BoolVar(&c.sources.FromCluster, "from-cluster", false, "Read the configuration, objects that the files lack, and without --plugins the Plugins from the cluster")
	flags.StringVar(&c.diff, "diff", "", "Show the differences from this: a hypervisor, a file with a virtual machine, or a domain document that begins with <")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	if len(args) > 0 || !c.sources.HasFiles() {
		return options.Usagef("add files with -f%s", options.SeeHelp(cmd))
	}
	if err := c.sources.ValidateFiles(cmd); err != nil {
		return err
	}
	if err := options.OneOf("output", c.output, outputs()); err != nil {
		return err
	}
	return c.sources.ValidateFacts()
}

// preview is a domain with what it was made from.
type preview struct {
	document *domain.Element
	assumed  []domain.Assumption
	layers   *layers
	// plugins is what the hooks of Plugins have done; nil without any.
	plugins *plugins.Result
}

func (c *command) run(ctx context.Context) error {
	stdin, again, err := c.standardInput()
	if err != nil {
		return err
	}
	host, err := previews.ReadAssumptions(c.assume, stdin)
	if err != nil {
		return err
	}
	if err := c.readPlugins(ctx, stdin); err != nil {
		return err
	}
	all, err := c.previews(ctx, &c.sources, host, stdin)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(c.program.Streams.Out)
	if c.diff != "" {
		if len(all) != 1 {
			return options.Usagef("--diff needs one virtual machine, and the files have %d", len(all))
		}
		other, err := c.other(ctx, host, again)
		if err != nil {
			return err
		}
		err = writeDifferences(out, other, all[0])
		return errors.Join(err, out.Flush())
	}
	for _, p := range all {
		if c.output == printers.Table {
			err = p.writeTable(out)
		} else {
			err = p.writeXML(out)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// readPlugins reads and compiles the Plugins of --plugins, or else those of the cluster with --from-cluster.
func (c *command) readPlugins(ctx context.Context, stdin io.Reader) (err error) {
	if c.sources.FromCluster {
		if c.cluster, err = options.Connect(c.sources.Config); err != nil {
			return err
		}
	}
	var found *previews.Plugins
	switch {
	case len(c.plugins) > 0:
		found, err = previews.ReadPlugins(ctx, c.plugins, false, stdin)
	case c.cluster != nil:
		found, err = previews.ClusterPlugins(ctx, c.cluster)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	list, err := found.Complete()
	if err != nil {
		return err
	}
	if len(list) == 0 && len(c.plugins) > 0 {
		return options.Usagef("%s: there is no Plugin", strings.Join(c.plugins, ", "))
	}
	c.set = plugins.NewSet(list)
	return nil
}

// standardInput returns standard input, and what --diff reads of it. With a hypervisor, both read the same virtual machine.
func (c *command) standardInput() (stdin, again io.Reader, err error) {
	if !slices.Contains(platform.HypervisorNames(), c.diff) || !slices.Contains(c.sources.Filenames, "-") {
		stdin = options.Once(c.program.Streams.In)
		return stdin, stdin, nil
	}
	text, err := previews.ReadFile("-", c.program.Streams.In)
	return options.Once(bytes.NewReader(text)), options.Once(bytes.NewReader(text)), err
}

// other returns what --diff names.
func (c *command) other(ctx context.Context, host *domain.Assumptions, stdin io.Reader) (*preview, error) {
	sources := c.sources
	if slices.Contains(platform.HypervisorNames(), c.diff) {
		sources.Hypervisor = c.diff
	} else {
		text, err := previews.ReadFile(c.diff, stdin)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(strings.TrimSpace(string(text)), "<") {
			document, err := domain.ParseElement(strings.NewReader(string(text)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.diff, err)
			}
			document.Clean()
			return &preview{document: document}, nil
		}
		sources.Filenames = []string{c.diff}
	}
	all, err := c.previews(ctx, &sources, host, stdin)
	if err == nil && len(all) != 1 {
		err = options.Usagef("--diff needs one virtual machine, and %s has %d", c.diff, len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// previews returns the domains of the virtual machines in files.
func (c *command) previews(ctx context.Context, sources *options.Sources, host *domain.Assumptions, stdin io.Reader) ([]*preview, error) {
	files, err := sources.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	if len(files.Unreadable) > 0 {
		return nil, explanation.UnreadableError(explanation.Unreadables(files.Unreadable))
	}
	facts, err := sources.ReadFacts(ctx, files, c.cluster, stdin)
	if err != nil {
		return nil, err
	}
	if facts, err = sources.Assume(facts); err != nil {
		return nil, err
	}
	w, err := sources.NewEvaluator(ctx, files, c.cluster, facts)
	if err != nil {
		return nil, err
	}
	if note := previews.GateNote(facts); c.cluster != nil && note != "" {
		fmt.Fprintln(c.program.Streams.ErrOut, "note: "+note)
		if len(c.plugins) == 0 {
			c.set = nil
		}
	}
	previewer, err := previews.New(w, host)
	if err != nil {
		return nil, err
	}
	var all []*preview
	for _, subject := range files.Subjects {
		machine, err := previewer.Machine(ctx, subject)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject.Location(), err)
		}
		p, err := c.preview(machine)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject.Location(), err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, options.Usagef("%s: there is no virtual machine", sources.Names())
	}
	return all, nil
}

// preview applies the plugins to the domain of a virtual machine.
func (c *command) preview(machine *previews.Machine) (*preview, error) {
	layers, err := layersOf(machine.Instance, machine.Verdict)
	if err != nil {
		return nil, err
	}
	p := &preview{document: machine.Document, assumed: machine.Assumed, layers: layers}
	if c.set != nil {
		result := c.set.Apply(machine.Instance, machine.Document)
		if result.Err != nil {
			return nil, result.Err
		}
		p.document, p.plugins = result.Document, result
	}
	p.document.Clean()
	return p, nil
}
