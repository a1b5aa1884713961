package offline

import (
	"context"
	"fmt"
	"time"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// DefaultNamespace is the namespace of objects that name none, without a cluster.
const DefaultNamespace = "default"

// Assumptions are what users assume about a cluster.
type Assumptions struct {
	// Hypervisor is the name of a hypervisor in the KubeVirt resource, and Architecture the default architecture of the
	// cluster. They replace those of the facts, unless they are empty.
	Hypervisor, Architecture string
	// KubeVirtVersion replaces that of the facts, and decides on the schemas.
	KubeVirtVersion string
	Settings        platform.Settings
	// MaxException and UnknownFields are those of Files.
	MaxException  time.Duration
	UnknownFields validators.Severity
}

// Facts returns the facts of the KubeVirt object of the files, nil if there is none. One that cannot be used is added to
// the unreadable documents of the files.
func (a *Assumptions) Facts(files *Files) (facts *platform.Facts) {
	for i, d := range files.KubeVirts {
		err := OnlyKubeVirt(files.KubeVirts[:i+1])
		if err == nil {
			facts, err = FactsFrom(d, a.Settings)
		}
		if err != nil {
			files.Unreadable = append(files.Unreadable, d.Unreadable(err))
		}
	}
	return facts
}

// OnlyKubeVirt rejects the last KubeVirt object if it is not the first one.
func OnlyKubeVirt(found []manifests.Document) error {
	if len(found) > 1 {
		return fmt.Errorf("must be the only KubeVirt object, but %s is one too", found[0].Location())
	}
	return nil
}

// Apply replaces the hypervisor and the architecture of the facts.
func (a *Assumptions) Apply(facts *platform.Facts) (*platform.Facts, error) {
	if a.Hypervisor != "" && a.Hypervisor != facts.Hypervisor.ConfiguredName {
		h, err := platform.HypervisorByName(a.Hypervisor)
		if err != nil {
			return nil, err
		}
		facts = facts.WithHypervisor(withModel(h, a.Settings.MSHVCPUModel))
		facts.Notes = nil // they are about the hypervisor of the KubeVirt object
		facts.Source += ", --hypervisor " + a.Hypervisor
	}
	if a.Architecture != "" && a.Architecture != facts.DefaultArchitecture {
		facts = facts.WithDefaultArchitecture(a.Architecture)
		facts.Source += ", --arch " + a.Architecture
	}
	return facts, nil
}

// withModel sets the CPU model of mshv for a hypervisor that was not read from a KubeVirt object.
func withModel(h platform.Hypervisor, model string) platform.Hypervisor {
	switch {
	case h.Name != platform.MSHV || model == "" || model == "auto":
	case model == "none":
		h.CPUModel = ""
	default:
		h.CPUModel = model
	}
	return h
}

// NewEvaluator returns an evaluator for files and a cluster, which may be nil. The namespace is that of objects that name
// none.
func (a *Assumptions) NewEvaluator(ctx context.Context, files *Files, cluster *Cluster, facts *platform.Facts, namespace string) (*Evaluator, error) {
	if a.KubeVirtVersion != "" && a.KubeVirtVersion != facts.KubeVirtVersion {
		facts = facts.WithKubeVirtVersion(a.KubeVirtVersion)
	}
	files.MaxException, files.UnknownFields = a.MaxException, a.UnknownFields
	return New(ctx, files, cluster, facts, namespace)
}
