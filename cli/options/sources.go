package options

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/validators"
)

// Sources are the flags for the files, the cluster and the facts that a command reads.
type Sources struct {
	Filenames []string
	Recursive bool
	// Kustomize is a directory with a kustomization, instead of files.
	Kustomize string
	// Selector selects virtual machines by their labels.
	Selector string
	// RequireObjects makes it an error that there is no virtual machine.
	RequireObjects bool
	KubeVirt       string
	Instancetypes  []string
	Preferences    []string
	// Hypervisor and Architecture replace those of the facts.
	Hypervisor   string
	Architecture string
	FromCluster  bool
	// KubeVirtVersion replaces that of the facts, and decides on the schemas.
	KubeVirtVersion string
	// UnknownFields is one of UnknownFieldsModes.
	UnknownFields string
	// ExceptionDays is the policies.exceptions.maxDays of the chart, for exceptions of files.
	ExceptionDays int
	// Strict makes unknown objects an error.
	Strict   bool
	Settings platform.Settings
	Config   *genericclioptions.ConfigFlags
}

const day = 24 * time.Hour

// NewSources returns sources without any file.
func NewSources() Sources {
	return Sources{Config: genericclioptions.NewConfigFlags(true), UnknownFields: unknownFieldsError, ExceptionDays: int(offline.DefaultMaxException / day)}
}

// AddFactsFlags adds the flags for the facts.
func (s *Sources) AddFactsFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.KubeVirt, "kubevirt", "", "File with the KubeVirt object of the cluster, or only its spec.configuration")
	flags.StringVar(&s.Hypervisor, "hypervisor", "", "Assume this hypervisor: "+strings.Join(platform.HypervisorNames(), ", "))
	flags.StringVar(&s.Architecture, "arch", "", "Assume this default architecture of the cluster: "+strings.Join(Architectures(), ", "))
	flags.StringVar((*string)(&s.Settings.RolloutStrategy), "rollout-strategy", "", "Assume this if the KubeVirt object has no vmRolloutStrategy: "+strings.Join(RolloutStrategies(), ", ")+" (LiveUpdate if empty)")
	flags.StringVar(&s.Settings.MSHVCPUModel, "mshv-cpu-model", "", "CPU model of amd64 guests on mshv, as in the values of the Helm chart: auto, none or a model")
	flags.StringVar(&s.KubeVirtVersion, "kubevirt-version", "", "Assume this version of KubeVirt, whose schemas validate files: "+strings.Join(schemas.Minors(), ", "))
	s.AddSchemaFlags(cmd, "Fail if an object that a virtual machine refers to is unknown: not in the files, without a cluster")
	flags.IntVar(&s.ExceptionDays, "exception-max-days", s.ExceptionDays, "Assume that a VirtualMachinePolicyException of a file ends within these days, as policies.exceptions.maxDays of the Helm chart; 0 for no bound")
	CompleteFlags(cmd, map[string][]string{
		"kubevirt-version": schemas.Minors(),
		"hypervisor":       platform.HypervisorNames(),
		"arch":             Architectures(),
		"rollout-strategy": RolloutStrategies(),
		"mshv-cpu-model":   {"auto", "none"},
	})
}

// AddSchemaFlags adds --strict, with its description, and --unknown-fields.
func (s *Sources) AddSchemaFlags(cmd *cobra.Command, strictUsage string) {
	cmd.Flags().BoolVar(&s.Strict, "strict", false, strictUsage)
	cmd.Flags().StringVar(&s.UnknownFields, "unknown-fields", unknownFieldsError, "What a field is that the schema does not have: "+strings.Join(UnknownFieldsModes(), ", "))
	CompleteFlags(cmd, map[string][]string{"unknown-fields": UnknownFieldsModes()})
}

// ValidateSchemas rejects other modes of unknown fields.
func (s *Sources) ValidateSchemas() error {
	return OneOf("mode of --unknown-fields", s.UnknownFields, UnknownFieldsModes())
}

// ValidateFacts rejects flags with values that no cluster has.
func (s *Sources) ValidateFacts() error {
	if err := OptionalOneOf("architecture", s.Architecture, Architectures()); err != nil {
		return err
	}
	if err := OptionalOneOf("rollout strategy", string(s.Settings.RolloutStrategy), RolloutStrategies()); err != nil {
		return err
	}
	if _, known := schemas.MinorOf(s.KubeVirtVersion); s.KubeVirtVersion != "" && !known {
		return OneOf("version of KubeVirt", s.KubeVirtVersion, schemas.Minors())
	}
	if err := s.ValidateSchemas(); err != nil {
		return err
	}
	if s.ExceptionDays < 0 || s.ExceptionDays > maxExceptionDays {
		return Usagef("--exception-max-days %d: must be from 0 to %d", s.ExceptionDays, maxExceptionDays)
	}
	return Hypervisor(s.Hypervisor)
}

// maxExceptionDays is the maximum of --exception-max-days, as in the schema of the chart's values.
const maxExceptionDays = 3650

// UnknownError returns an error about unknown objects with --strict, or nil. Each text names the object that refers to it.
func (s *Sources) UnknownError(unknown []string) error {
	switch {
	case !s.Strict || len(unknown) == 0:
		return nil
	case len(unknown) == 1:
		return fmt.Errorf("%s is not in the files", unknown[0])
	}
	return fmt.Errorf("%d objects are not in the files, the first one %s", len(unknown), unknown[0])
}

// NewEvaluator returns an evaluator for files and a cluster, which may be nil. It has the modes of the flags.
func (s *Sources) NewEvaluator(ctx context.Context, files *offline.Files, cluster *offline.Cluster, facts *platform.Facts) (*offline.Evaluator, error) {
	return s.assumptions().NewEvaluator(ctx, files, cluster, facts, s.Namespace(cluster))
}

// UnknownFieldsSeverity returns the severity of unknown fields.
func (s *Sources) UnknownFieldsSeverity() validators.Severity {
	if s.UnknownFields == unknownFieldsWarn {
		return validators.Warn
	}
	return validators.Deny
}

// Names returns the names of the files, for messages.
func (s *Sources) Names() string {
	names := make([]string, 0, len(s.Filenames)+1)
	for _, file := range s.Filenames {
		names = append(names, manifests.Name(file))
	}
	if s.Kustomize != "" {
		names = append(names, s.Kustomize)
	}
	return strings.Join(names, ", ")
}

// ReadFiles reads all files but that of --kubevirt, and selects virtual machines.
func (s *Sources) ReadFiles(ctx context.Context, stdin io.Reader) (*offline.Files, error) {
	all, err := s.readAll(ctx, stdin)
	if err != nil {
		return nil, err
	}
	files := offline.Sort(all)
	s.Select(files)
	referenced, err := manifests.ReadEach(ctx, slices.Concat(s.Instancetypes, s.Preferences), s.Recursive, stdin)
	if err != nil {
		return nil, err
	}
	for _, d := range referenced.Documents {
		if !offline.IsReference(d.Object.GroupVersionKind()) {
			return nil, fmt.Errorf("%s: %s %s: virtual machines do not refer to objects of this kind", d.Location(), d.Object.GetKind(), d.Object.GetName())
		}
	}
	extra := offline.Sort(referenced)
	files.Unreadable = append(files.Unreadable, extra.Unreadable...)
	files.References, files.Beside = append(files.References, extra.References...), append(files.Beside, extra.Beside...)
	files.Warnings = append(files.Warnings, extra.Warnings...)
	return files, nil
}

// ReadFacts returns the facts of --kubevirt, of a KubeVirt object that was found among the files, or of the cluster, in
// this order. Without any of these, it returns KubeVirt's own defaults. The cluster is nil if none is read.
func (s *Sources) ReadFacts(ctx context.Context, files *offline.Files, cluster *offline.Cluster, stdin io.Reader) (*platform.Facts, error) {
	facts, err := s.givenFacts(ctx, stdin)
	if facts != nil || err != nil {
		return facts, err
	}
	switch facts := s.FactsIn(files); {
	case facts != nil:
		return facts, nil
	case cluster != nil:
		return ClusterFacts(ctx, cluster, s.Settings)
	}
	return platform.Defaults(s.Settings), nil
}

// ClusterFacts returns the facts of a cluster. A user who may not read the KubeVirt resource gets KubeVirt's defaults with
// a warning.
func ClusterFacts(ctx context.Context, cluster *offline.Cluster, settings platform.Settings) (*platform.Facts, error) {
	facts, err := platform.ReadFacts(ctx, cluster.Client, settings)
	if apierrors.IsForbidden(err) {
		facts = platform.Defaults(settings)
		facts.Warnings = append(facts.Warnings, "you may not list kubevirts.kubevirt.io: KubeVirt's defaults are assumed for the hypervisor, the feature gates and the architecture, unless you use --kubevirt FILE")
		return facts, nil
	}
	return facts, err
}

// FactsIn returns the facts of the KubeVirt object of the files, nil if there is none. One that cannot be used is added
// to the unreadable documents of the files.
func (s *Sources) FactsIn(files *offline.Files) (facts *platform.Facts) {
	return s.assumptions().Facts(files)
}

// givenFacts returns the facts of --kubevirt, nil without it.
func (s *Sources) givenFacts(ctx context.Context, stdin io.Reader) (*platform.Facts, error) {
	if s.KubeVirt == "" {
		return nil, nil
	}
	given, err := manifests.ReadAll(ctx, []string{s.KubeVirt}, false, stdin)
	if err != nil {
		return nil, err
	}
	found, err := kubevirtsIn(given)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("%s: has no KubeVirt object", s.KubeVirt)
	}
	last := found[len(found)-1]
	if err := offline.OnlyKubeVirt(found); err != nil {
		return nil, fmt.Errorf("%s: %w", last.Location(), err)
	}
	facts, err := offline.FactsFrom(last, s.Settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", last.Location(), err)
	}
	return facts, nil
}

// Namespace returns the namespace of objects that name none. The cluster is nil if none is read.
func (s *Sources) Namespace(cluster *offline.Cluster) string {
	switch {
	case cluster != nil:
		return cluster.Namespace
	case s.Config.Namespace != nil && *s.Config.Namespace != "":
		return *s.Config.Namespace
	}
	return offline.DefaultNamespace
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
