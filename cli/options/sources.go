package options

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
)

// defaultNamespace is the namespace of objects that name none, without a cluster.
const defaultNamespace = "default"

// Sources are the flags for the files, the cluster and the facts that a command reads.
type Sources struct {
	Filenames     []string
	Recursive     bool
	KubeVirt      string
	Instancetypes []string
	Preferences   []string
	// Hypervisor and Architecture replace those of the facts.
	Hypervisor   string
	Architecture string
	FromCluster  bool
	Settings     platform.Settings
	Config       *genericclioptions.ConfigFlags
}

// NewSources returns sources without any file.
func NewSources() Sources { return Sources{Config: genericclioptions.NewConfigFlags(true)} }

// AddFactsFlags adds the flags for the facts, and --recursive.
func (s *Sources) AddFactsFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	s.AddRecursiveFlag(cmd)
	flags.StringVar(&s.KubeVirt, "kubevirt", "", "File with the KubeVirt object of the cluster, or only its spec.configuration")
	flags.StringVar(&s.Hypervisor, "hypervisor", "", "Assume this hypervisor: "+strings.Join(platform.HypervisorNames(), ", "))
	flags.StringVar(&s.Architecture, "arch", "", "Assume this default architecture of the cluster: "+strings.Join(Architectures(), ", "))
	flags.StringVar((*string)(&s.Settings.RolloutStrategy), "rollout-strategy", "", "Assume this if the KubeVirt object has no vmRolloutStrategy: "+strings.Join(RolloutStrategies(), ", ")+" (LiveUpdate if empty)")
	flags.StringVar(&s.Settings.MSHVCPUModel, "mshv-cpu-model", "", "CPU model of amd64 guests on mshv, as in the values of the Helm chart: auto, none or a model")
	CompleteFlags(cmd, map[string][]string{
		"hypervisor":       platform.HypervisorNames(),
		"arch":             Architectures(),
		"rollout-strategy": RolloutStrategies(),
		"mshv-cpu-model":   {"auto", "none"},
	})
}

// AddRecursiveFlag adds --recursive.
func (s *Sources) AddRecursiveFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.Recursive, "recursive", "R", false, "Read subdirectories too")
}

// ValidateFacts rejects flags with values that no cluster has.
func (s *Sources) ValidateFacts() error {
	if err := OptionalOneOf("architecture", s.Architecture, Architectures()); err != nil {
		return err
	}
	if err := OptionalOneOf("rollout strategy", string(s.Settings.RolloutStrategy), RolloutStrategies()); err != nil {
		return err
	}
	return Hypervisor(s.Hypervisor)
}

// Names returns the names of the files, for messages.
func (s *Sources) Names() string {
	names := make([]string, len(s.Filenames))
	for i, file := range s.Filenames {
		names[i] = manifests.Name(file)
	}
	return strings.Join(names, ", ")
}

// ReadFiles reads all files but that of --kubevirt.
func (s *Sources) ReadFiles(ctx context.Context, stdin io.Reader) (*offline.Files, error) {
	all, err := manifests.ReadAll(ctx, s.Filenames, s.Recursive, stdin)
	if err != nil {
		return nil, err
	}
	files, err := offline.Sort(all)
	if err != nil {
		return nil, err
	}
	referenced, err := manifests.ReadAll(ctx, slices.Concat(s.Instancetypes, s.Preferences), s.Recursive, stdin)
	if err != nil {
		return nil, err
	}
	for _, d := range referenced {
		if !offline.IsReference(d.Object.GroupVersionKind()) {
			return nil, fmt.Errorf("%s: %s %s: virtual machines do not refer to objects of this kind", d.Location(), d.Object.GetKind(), d.Object.GetName())
		}
	}
	extra, err := offline.Sort(referenced)
	if err != nil {
		return nil, err
	}
	files.References, files.Beside = append(files.References, extra.References...), append(files.Beside, extra.Beside...)
	files.Warnings = append(files.Warnings, extra.Warnings...)
	return files, nil
}

// ReadFacts returns the facts of --kubevirt, of a KubeVirt object that was found among the files, or of the cluster, in
// this order. Without any of these, it returns KubeVirt's own defaults. The cluster is nil if none is read.
func (s *Sources) ReadFacts(ctx context.Context, found []manifests.Document, cluster *offline.Cluster, stdin io.Reader) (*platform.Facts, error) {
	if s.KubeVirt != "" {
		given, err := manifests.ReadAll(ctx, []string{s.KubeVirt}, false, stdin)
		if err != nil {
			return nil, err
		}
		if found, err = kubevirtsIn(given); err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: has no KubeVirt object", s.KubeVirt)
		}
	}
	if err := OnlyOne(found); err != nil {
		return nil, err
	}
	switch {
	case len(found) == 1:
		return offline.FactsFrom(found[0], s.Settings)
	case cluster != nil:
		return platform.ReadFacts(ctx, cluster.Client, s.Settings)
	}
	return platform.Defaults(s.Settings), nil
}

// OnlyOne rejects a second KubeVirt object.
func OnlyOne(found []manifests.Document) error {
	if len(found) > 1 {
		return fmt.Errorf("%s: must be the only KubeVirt object, but %s is one too", found[1].Location(), found[0].Location())
	}
	return nil
}

// Namespace returns the namespace of objects that name none. The cluster is nil if none is read.
func (s *Sources) Namespace(cluster *offline.Cluster) string {
	switch {
	case cluster != nil:
		return cluster.Namespace
	case s.Config.Namespace != nil && *s.Config.Namespace != "":
		return *s.Config.Namespace
	}
	return defaultNamespace
}

// kubevirtsIn accepts KubeVirt objects and configurations without an object around them, and rejects other objects.
func kubevirtsIn(given []manifests.Document) ([]manifests.Document, error) {
	for _, d := range given {
		kind := offline.AsKubeVirt(d.Object).GroupVersionKind()
		if kind.Group != "kubevirt.io" || kind.Kind != apikinds.KubeVirt {
			return nil, fmt.Errorf("%s: %s %s is not a KubeVirt object of kubevirt.io", d.Location(), kind.Kind, d.Object.GetName())
		}
	}
	return given, nil
}

// once is a reader that can be read to its end only once.
type once struct {
	reader io.Reader
	ended  bool
}

// Once returns standard input that fails if the command line names it a second time.
func Once(r io.Reader) io.Reader { return &once{reader: r} }

// Read implements io.Reader.
func (o *once) Read(p []byte) (int, error) {
	if o.ended {
		return 0, errors.New("must be named only once on the command line")
	}
	n, err := o.reader.Read(p)
	o.ended = err != nil
	return n, err
}
