package labels

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/platform"
)

// command has the flags of nodelabels.
type command struct {
	program options.Program
	sources options.Sources
	// documents and cpuInfo are files. The others replace what no document has.
	documents             []string
	cpuInfo, architecture string
	hypervFeatures        []string
	realtimeRuntime       string
	output                string
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, sources: options.NewSources(), output: printers.Table}
	cmd := &cobra.Command{
		Use:   "nodelabels -f FILE ...",
		Short: "Show the labels of a node before it joins the cluster",
		Long: `Show the labels of a node before it joins the cluster.

The files are libvirt's documents about the machine. KubeVirt needs all three, and arm64 has no baseline:

  virsh domcapabilities --virttype kvm > domcapabilities.xml
  virsh hypervisor-cpu-baseline --features domcapabilities.xml > baseline.xml
  virsh capabilities > capabilities.xml

The labels of KubeVirt are those that its virt-handler sets. Remarks are about labels that mislead, and about those that no API server
accepts. The labels of Virtward are those of its node labeller, if the devices of the hypervisor are offered to pods.

The exit code is 1 if KubeVirt could not label the node.`,
		Example: program.Examples(`  # Show the labels of a machine
  PROGRAM nodelabels -f domcapabilities.xml -f baseline.xml -f capabilities.xml

  # Show them with the settings of a cluster
  PROGRAM nodelabels -f domcapabilities.xml -f baseline.xml -f capabilities.xml --kubevirt kubevirt.yaml`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.documents, "filename", "f", nil, "Files with documents of libvirt, in XML")
	flags.StringVar(&c.sources.KubeVirt, "kubevirt", "", "File with the KubeVirt object of the cluster, or only its spec.configuration")
	flags.StringVar(&c.cpuInfo, "cpuinfo", "", "File with the node's /proc/cpuinfo")
	flags.StringVar(&c.architecture, "arch", "", "Architecture of the node, instead of that of the documents")
	flags.StringSliceVar(&c.hypervFeatures, "hyperv-feature", nil, "Enlightenments of Hyper-V that KVM reports on the node, such as vpindex")
	flags.StringVar(&c.realtimeRuntime, "sched-rt-runtime", "", "The node's kernel.sched_rt_runtime_us, such as -1")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+fmt.Sprint(printer().Formats()))
	options.CompleteFlags(cmd, map[string][]string{"output": printer().Formats(), "arch": options.Architectures()})
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	if len(args) > 0 || len(c.documents) == 0 {
		return options.Usagef("add libvirt's documents with -f%s", options.SeeHelp(cmd))
	}
	if err := options.OptionalOneOf("architecture", c.architecture, options.Architectures()); err != nil {
		return err
	}
	return options.OneOf("output", c.output, printer().Formats())
}

// label is a row of the output.
type label struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	SetBy  string `json:"setBy"`
	Remark string `json:"remark,omitempty"`
}

func printer() *printers.Printer[label] {
	return &printers.Printer[label]{
		Columns:  []string{"LABEL", "VALUE", "SET BY", "REMARK"},
		Row:      func(l *label) []string { return []string{l.Key, l.Value, l.SetBy, l.Remark} },
		Document: printers.List[label]("labels"),
	}
}

func (c *command) run(ctx context.Context) error {
	stdin := options.Once(c.program.Streams.In)
	facts, err := c.sources.ReadFacts(ctx, &offline.Files{}, nil, stdin)
	if err != nil {
		return err
	}
	node, err := c.node(stdin)
	if err != nil {
		return err
	}
	kubeVirt, err := nodelabels.KubeVirt(node, facts)
	if err != nil {
		return fmt.Errorf("%w: add the document as --help shows", err)
	}
	own, err := c.own(node, stdin)
	if err != nil {
		return err
	}
	return printer().Print(c.program.Streams.Out, c.output, rows(kubeVirt, own))
}

// rows are the labels, and then the remarks about what is no label.
func rows(kubeVirt *nodelabels.KubeVirtLabels, own map[string]string) []label {
	remarks := map[string]string{}
	for _, r := range kubeVirt.Remarks {
		remarks[r.Subject] = r.Text
	}
	var all []label
	for _, key := range slices.Sorted(maps.Keys(kubeVirt.Labels)) {
		all = append(all, label{Key: key, Value: kubeVirt.Labels[key], SetBy: "KubeVirt", Remark: remarks[key]})
	}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		all = append(all, label{Key: key, Value: own[key], SetBy: "Virtward"})
	}
	for _, r := range kubeVirt.Remarks {
		if _, isLabel := kubeVirt.Labels[r.Subject]; !isLabel {
			all = append(all, label{Key: r.Subject, SetBy: "none", Remark: r.Text})
		}
	}
	return all
}

// node reads the documents.
func (c *command) node(stdin io.Reader) (*nodelabels.Node, error) {
	node := &nodelabels.Node{Architecture: c.architecture, HypervFeatures: c.hypervFeatures, RealtimeRuntime: c.realtimeRuntime}
	for _, name := range c.documents {
		text, err := read(name, stdin, nodelabels.MaxDocument)
		if err != nil {
			return nil, err
		}
		document, err := nodelabels.ParseDocument(text)
		if err == nil {
			err = node.Add(document)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if node.Architecture == "" {
		architecture, err := node.Documents.Architecture()
		if err != nil {
			return nil, err
		}
		node.Architecture = architecture
	}
	return node, nil
}

// own computes Virtward's labels of a node with all devices but those of other hypervisors than that of the documents.
func (c *command) own(node *nodelabels.Node, stdin io.Reader) (map[string]string, error) {
	facts := &nodelabels.Facts{Architecture: node.Architecture, Documents: node.Documents, Devices: map[string]nodelabels.Device{}}
	if c.cpuInfo != "" {
		text, err := read(c.cpuInfo, stdin, 16<<20)
		if err != nil {
			return nil, err
		}
		facts.CPU = nodelabels.ParseCPUInfo(text)
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	labellers, err := registry.Labellers(node.Architecture)
	if err != nil {
		return nil, err
	}
	others := map[string]bool{}
	for _, name := range platform.HypervisorNames() {
		if form, err := platform.HypervisorByName(name); err == nil && form.VirtType != node.DomainType() {
			others[form.Device] = true
		}
	}
	for _, l := range labellers {
		for _, d := range l.Labeller.Devices() {
			facts.Devices[nodelabels.DeviceName(d.Resource)] = nodelabels.Device{Present: !others[string(d.Resource)]}
		}
	}
	return nodelabels.Own(facts, labellers), nil
}

// read reads a file, or standard input for -.
func read(name string, stdin io.Reader, most int64) ([]byte, error) {
	reader := stdin
	if name != "-" {
		file, err := manifests.OpenFound(name, "")
		if err != nil {
			return nil, err
		}
		defer file.Close()
		reader = file
	}
	text, err := io.ReadAll(io.LimitReader(reader, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return text, err
}
