package goldenimages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// status has the flags of status.
type status struct{ flags }

func newStatus(program options.Program) *cobra.Command {
	s := &status{flags{program: program, sources: options.NewSources()}}
	cmd := &cobra.Command{
		Use:   "status [CATALOG]",
		Short: "Show a catalog: the architectures of the nodes, and its images",
		Long: `Show a catalog: the architectures of the nodes, its conditions, and its images. Without a name, status shows all catalogs.

The exit code is 0 if all shown catalogs are ready, 1 if one is not or the command fails, and 2 for invalid flags.`,
		Example: program.Examples(`  PROGRAM golden status site`),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return options.Usagef("accepts at most one catalog%s", options.SeeHelp(cmd))
			case len(args) == 1 && s.catalog != "":
				return options.Usagef("name the catalog once%s", options.SeeHelp(cmd))
			case len(args) == 1:
				s.catalog = args[0]
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) },
		ValidArgsFunction: s.completeCatalogs,
	}
	s.add(cmd, "Show the catalogs of this namespace only")
	return cmd
}

func (s *status) run(ctx context.Context) error {
	v, err := s.view(ctx, s.catalog)
	if err != nil {
		return err
	}
	s.writeNotes(v)
	if len(v.catalogs) == 0 {
		fmt.Fprintln(s.program.Streams.ErrOut, "No GoldenImageCatalogs found.")
		return nil
	}
	out := bufio.NewWriter(s.program.Streams.Out)
	list := v.images()
	var unready []string
	for i := range v.catalogs {
		c := &v.catalogs[i]
		if i > 0 {
			fmt.Fprintln(out)
		}
		own := slices.DeleteFunc(slices.Clone(list), func(of image) bool { return of.Catalog != c.Name })
		if err := writeCatalog(out, c, own); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, "Ready") {
			unready = append(unready, c.Name)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(unready) > 0 {
		return fmt.Errorf("not ready: %s", strings.Join(unready, ", "))
	}
	return nil
}

// writeCatalog writes a catalog in sections.
func writeCatalog(w io.Writer, c *v1alpha1.GoldenImageCatalog, list []image) error {
	fmt.Fprintf(w, "GoldenImageCatalog %s, namespace %s\n", c.Name, namespaceOf(c))
	if c.Status.ObservedGeneration != c.Generation {
		fmt.Fprintln(w, behind(c))
	}
	return errors.Join(writeNodes(w, c), writeConditions(w, c), writeImages(w, list))
}

// behind says that the status is not about the catalog as it is.
func behind(c *v1alpha1.GoldenImageCatalog) string {
	if c.Status.ObservedGeneration == 0 {
		return "Virtward has not read the catalog yet. Check that the Deployment " + processes.Images + " runs."
	}
	return "Virtward has not read the last change of the catalog yet. If this lasts, check that the Deployment " + processes.Images + " runs."
}

func writeNodes(w io.Writer, c *v1alpha1.GoldenImageCatalog) error {
	n := &c.Status.Nodes
	if len(n.WorkloadArchitectures)+len(n.ControlPlaneArchitectures)+len(n.UnknownArchitectures) == 0 {
		_, err := fmt.Fprintln(w, "No node that runs virtual machines is known.")
		return err
	}
	fmt.Fprintln(w)
	rows := [][]string{{"ARCHITECTURE", "WORKLOAD NODES", "CONTROL PLANE NODES", "NOTE"}}
	for _, architecture := range nodeArchitectures(n) {
		workloads, controlPlane := count(n.WorkloadArchitectures, architecture), count(n.ControlPlaneArchitectures, architecture)
		rows = append(rows, []string{texts.OneLine(architecture), fmt.Sprint(workloads), fmt.Sprint(controlPlane), noteOf(c, architecture)})
	}
	for _, unknown := range n.UnknownArchitectures {
		name := texts.OneLine(texts.Shorten(unknown.Architecture, maxText))
		rows = append(rows, []string{name, fmt.Sprint(unknown.Nodes), "-", "not supported by KubeVirt: no image"})
	}
	return printers.Rows(w, printers.Kubectl, rows)
}

// nodeArchitectures are those of workloads and of the control plane, sorted.
func nodeArchitectures(n *v1alpha1.NodeArchitectures) []string {
	var all []string
	for _, c := range slices.Concat(n.WorkloadArchitectures, n.ControlPlaneArchitectures) {
		all = append(all, c.Architecture)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func count(counts []v1alpha1.ArchitectureCount, architecture string) int32 {
	for _, c := range counts {
		if c.Architecture == architecture {
			return c.Nodes
		}
	}
	return 0
}

func noteOf(c *v1alpha1.GoldenImageCatalog, architecture string) string {
	since := absentSince(c, architecture)
	switch {
	case since != nil:
		return fmt.Sprintf("last node left %s ago; imports are removed after %s", ageOf(since), duration.HumanDuration(delayOf(c)))
	case architecture == c.Status.Nodes.DefaultArchitecture:
		return "default"
	case count(c.Status.Nodes.WorkloadArchitectures, architecture) == 0:
		return "runs no virtual machines"
	}
	return "-"
}

// absentSince is when the last node of an architecture left; nil if there is one.
func absentSince(c *v1alpha1.GoldenImageCatalog, architecture string) *metav1.Time {
	for i := range c.Status.Absent {
		if c.Status.Absent[i].Architecture == architecture {
			return &c.Status.Absent[i].Since
		}
	}
	return nil
}

// defaultDelay is the delay of the removal of an architecture unless the catalog has another.
const defaultDelay = 10 * time.Minute

func delayOf(c *v1alpha1.GoldenImageCatalog) time.Duration {
	if c.Spec.RemovalDelay == nil {
		return defaultDelay
	}
	return c.Spec.RemovalDelay.Duration
}

func writeConditions(w io.Writer, c *v1alpha1.GoldenImageCatalog) error {
	if len(c.Status.Conditions) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return conditionPrinter.Table(w, printers.Table, c.Status.Conditions)
}

// conditionPrinter prints the conditions of a catalog.
var conditionPrinter = printers.Printer[metav1.Condition]{
	Columns: []string{"CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"},
	Row: func(c *metav1.Condition) []string {
		message := texts.OneLine(texts.Shorten(c.Message, maxText))
		return []string{texts.OneLine(c.Type), string(c.Status), texts.OneLine(c.Reason), ageOf(&c.LastTransitionTime), message}
	},
}

// writeImages writes a row for each import.
func writeImages(w io.Writer, list []image) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	rows := [][]string{{"IMAGE", "DATASOURCE", "STATE", "REASON"}}
	for i := range list {
		of := &list[i]
		state, reason := "Deployed", "-"
		if of.Default != "" {
			state = "Points to " + suffixed(of.DataSource, of.Default)
		}
		if of.Reason != "" {
			state, reason = of.Reason, of.Message
		}
		if !of.once() || of.Reason != "" {
			rows = append(rows, []string{of.Entry, of.DataSource, state, reason})
		}
		for k := range of.Imports {
			s := &of.Imports[k]
			why := "-"
			if s.Reason != "" {
				why = strings.TrimPrefix(s.Reason+": "+s.Message, "Pending: ")
			}
			if s.State != stateAbsent && s.State != stateBlocked && s.State != statePending {
				rows = append(rows, []string{of.Entry, s.DataSource, strings.TrimSpace(s.State + " " + s.Progress), why})
			}
		}
	}
	return printers.Rows(w, printers.Kubectl, rows)
}
