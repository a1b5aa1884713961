package why

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/placements"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

const outputText = "text"

func outputs() []string {
	return []string{outputText, printers.Table, printers.JSON, printers.YAML}
}

// command has the flags of why.
type command struct {
	program options.Program
	sources options.Sources
	// nodes are files with nodes and other objects of a cluster.
	nodes  []string
	output string
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, sources: options.NewSources(), output: outputText}
	cmd := &cobra.Command{
		Use:   "why (VM | vmi/NAME | -f FILE ...)",
		Short: "Show why a virtual machine does not run, or which nodes can run it",
		Long: `Show why a virtual machine does not run, or which nodes can run it.

Of a virtual machine in the cluster, why first reads its conditions, its instance, its claims and DataVolumes, its pod and its events, in
the order in which you would. If none of these is the cause, or the pod waits for a node, why checks each node as kube-scheduler does:
taints, labels, resources with the memory that KubeVirt adds, devices, volumes, topology and affinities. It also checks what keeps the pod
from being created: networks, quotas, limit ranges, priority classes, runtime classes and Pod Security.

Each reason has the field of the virtual machine behind it, the layer that set the field, and the nearest change that would help.

With -f, why checks the nodes of the cluster for a virtual machine that does not exist yet. With --nodes, it reads nodes from files, and
needs no cluster. The files can also have Pods, ResourceQuotas, LimitRanges, PriorityClasses, RuntimeClasses, Namespaces,
NetworkAttachmentDefinitions, PersistentVolumeClaims, PersistentVolumes, StorageClasses, CSINodes, CSIDrivers, CSIStorageCapacities and
ResourceClaims.
What they lack is not checked.

why reads with your permissions, and lists what it could not read. It needs permission to list nodes, or --nodes.

The output text has the answer first, and reasons of several nodes together. The output table has a row for each reason of each node.

The exit code is 0 if the virtual machine runs or a node can run it, and 1 otherwise.`,
		Example: program.Examples(`  # Show why a virtual machine does not run
  PROGRAM why db -n shop

  # Show which nodes of the cluster can run the virtual machine in a file, and why the others cannot
  PROGRAM why -f vm.yaml -o table

  # Do the same without a cluster
  kubectl get nodes,pods -A -o yaml > nodes.yaml
  PROGRAM why -f vm.yaml --nodes nodes.yaml`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return options.CompleteNames(cmd, c.sources.Config, apikinds.VirtualMachines.GroupVersionResource())
		},
	}
	c.sources.AddFileFlags(cmd, "the virtual machines")
	options.AddClusterFlags(cmd, c.sources.Config, "", "Namespace of the virtual machine, and of objects in files that name none")
	c.sources.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&c.sources.Instancetypes, "instancetype", nil, "Files with instancetypes, or other objects that virtual machines refer to")
	flags.StringSliceVar(&c.sources.Preferences, "preference", nil, "Files with preferences, or other objects that virtual machines refer to")
	flags.StringSliceVar(&c.nodes, "nodes", nil, "Files with the nodes, and other objects of a cluster, instead of the cluster; with -f")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(outputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": outputs()})
	if err := cmd.RegisterFlagCompletionFunc("nodes", options.CompleteFiles); err != nil {
		panic(err)
	}
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	if err := options.NamesOrFiles(cmd, args, c.sources.HasFiles()); err != nil {
		return err
	}
	if len(args) > 1 {
		return options.Usagef("name one virtual machine%s", options.SeeHelp(cmd))
	}
	if len(args) == 1 {
		if _, _, err := target(args[0]); err != nil {
			return options.Usagef("%w%s", err, options.SeeHelp(cmd))
		}
		if len(c.nodes) > 0 {
			return options.Usagef("--nodes needs a virtual machine in a file, with -f%s", options.SeeHelp(cmd))
		}
	}
	if err := c.sources.ValidateFiles(cmd); err != nil {
		return err
	}
	if err := options.OneOf("output", c.output, outputs()); err != nil {
		return err
	}
	return c.sources.ValidateFacts()
}

// target reads NAME, vm/NAME or vmi/NAME.
func target(arg string) (resource schema.GroupVersionResource, name string, err error) {
	kind, name, slash := strings.Cut(arg, "/")
	if !slash {
		kind, name = "vm", arg
	}
	for short, r := range map[string]apikinds.Resource{"vm": apikinds.VirtualMachines, "vmi": apikinds.VirtualMachineInstances} {
		known := kind == short || strings.EqualFold(kind, r.Kind) || kind == r.Plural
		if known && name != "" && !strings.Contains(name, "/") {
			return r.GroupVersionResource(), name, nil
		}
	}
	return resource, "", fmt.Errorf("%q: name a virtual machine, as NAME, vm/NAME or vmi/NAME", arg)
}

func (c *command) run(ctx context.Context, args []string) error {
	reports, err := c.reports(ctx, args)
	if err != nil {
		return err
	}
	if err := c.write(reports); err != nil {
		return err
	}
	var stuck []string
	for _, r := range reports {
		if r.State == CannotRun {
			stuck = append(stuck, r.Object.String())
		}
	}
	switch len(stuck) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s cannot run", stuck[0])
	}
	return fmt.Errorf("%d virtual machines cannot run, the first one is %s", len(stuck), stuck[0])
}

// reports evaluates and places all virtual machines.
func (c *command) reports(ctx context.Context, args []string) ([]*Report, error) {
	stdin := options.Once(c.program.Streams.In)
	files, err := c.sources.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	if len(files.Unreadable) > 0 {
		return nil, explanation.UnreadableError(explanation.Unreadables(files.Unreadable))
	}
	var cluster *offline.Cluster
	if len(c.nodes) == 0 {
		if cluster, err = options.Connect(c.sources.Config); err != nil {
			return nil, err
		}
	}
	subjects := files.Subjects
	if len(args) == 1 {
		resource, name, err := target(args[0])
		if err != nil {
			return nil, err
		}
		object, err := cluster.Client.Resource(resource).Namespace(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", resource.Resource, cluster.Namespace, name, err)
		}
		subjects = []manifests.Document{{Source: offline.SourceCluster, Object: object}}
	}
	if len(subjects) == 0 {
		return nil, options.Usagef("%s: there is no virtual machine", c.sources.Names())
	}
	facts, err := c.sources.ReadFacts(ctx, files, cluster, stdin)
	if err != nil {
		return nil, err
	}
	if facts, err = c.sources.Assume(facts); err != nil {
		return nil, err
	}
	e, err := c.sources.NewEvaluator(ctx, files, cluster, facts)
	if err != nil {
		return nil, err
	}
	p := &placer{evaluator: e, cluster: cluster, files: c.nodes, stdin: stdin, known: map[string]*snapshot{}}
	if cluster == nil {
		if _, err := p.snapshot(ctx, ""); err != nil {
			return nil, err
		}
	}
	reports := make([]*Report, 0, len(subjects))
	for _, subject := range subjects {
		r, err := p.report(ctx, subject)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", subject.Location(), err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// placer places virtual machines.
type placer struct {
	evaluator *offline.Evaluator
	cluster   *offline.Cluster // nil with --nodes
	files     []string
	stdin     io.Reader
	// known are the snapshots that were read, by namespace; empty for files.
	known map[string]*snapshot
}

func (c *command) write(reports []*Report) error {
	out := bufio.NewWriter(c.program.Streams.Out)
	err := c.writeAll(out, reports)
	return errors.Join(err, out.Flush())
}

func (c *command) writeAll(out io.Writer, reports []*Report) error {
	switch c.output {
	case printers.JSON, printers.YAML:
		if len(reports) == 1 {
			return printers.Document(out, c.output, reports[0])
		}
		return printers.Document(out, c.output, reports)
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := r.write(out, c.output == printers.Table); err != nil {
			return err
		}
	}
	return nil
}

// read reads the nodes, once for each namespace.
func (p *placer) read(ctx context.Context, namespace string) (*placements.Found, error) {
	if p.cluster == nil {
		return placements.FromFiles(ctx, p.files, p.stdin)
	}
	return placements.Read(ctx, p.cluster.Client, namespace)
}
