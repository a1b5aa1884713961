package goldenimages

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

// ManifestVerified is the type of the condition of images whose manifests are read, and these are its reasons beside those of
// failed reads.
const (
	ManifestVerified = "ManifestVerified"

	ReasonVerified = "Verified"
	// ReasonMissing: the entry lists architectures that the manifest does not have.
	ReasonMissing = "ArchitecturesMissing"
	// ReasonNotListed: the manifest has architectures of KubeVirt that the entry does not list.
	ReasonNotListed = "ArchitecturesNotListed"
	// ReasonManifestPending: the registry has not answered yet.
	ReasonManifestPending = "ManifestPending"
)

// Manifest is the result of the last reads of the manifest of an image.
type Manifest struct {
	// Architectures are those of the last read that succeeded; empty if none did. Variants are the platforms of that read with a
	// variant, such as arm64/v8.
	Architectures, Variants []string
	// Failure is why the last read failed; nil if it did not.
	Failure *Failure
}

// manifest is what is known of the manifest of an entry.
type manifest struct {
	url string
	// architectures and variants are those of the last answer for the URL; empty if there is none.
	architectures, variants []string
	failure                 *Failure
	// last is what the status has: the last answer, for this URL or an earlier one.
	last *v1alpha1.ImageManifest
}

// known reports whether the architectures are known.
func (m *manifest) known() bool { return m != nil && len(m.architectures) > 0 }

// status is what the status of the image remembers.
func (m *manifest) status() *v1alpha1.ImageManifest {
	switch {
	case m == nil:
		return nil
	case m.known():
		return &v1alpha1.ImageManifest{URL: m.url, Architectures: m.architectures, Variants: m.variants}
	}
	return m.last
}

// Registry returns the registry source of an entry whose manifest is read; nil if it is not read.
func Registry(catalog *v1alpha1.GoldenImageCatalog, t *v1alpha1.DataImportCronTemplate) *cdiv1beta1.DataVolumeSourceRegistry {
	if !catalog.Spec.VerifyManifest || disabled(t) || t.Spec == nil || t.Spec.Template.Spec.Source == nil {
		return nil
	}
	registry := t.Spec.Template.Spec.Source.Registry
	if registry == nil || registry.URL == nil || !strings.HasPrefix(*registry.URL, cdiv1beta1.RegistrySchemeDocker+"://") {
		return nil
	}
	return registry
}

// fillsIn reports whether the manifest of an entry decides about its architectures: it lists none itself.
func fillsIn(catalog *v1alpha1.GoldenImageCatalog, t *v1alpha1.DataImportCronTemplate) bool {
	_, listed := Listed(t)
	registry := Registry(catalog, t)
	return registry != nil && !listed && multiArch(catalog) && platformOf(registry) == ""
}

func multiArch(catalog *v1alpha1.GoldenImageCatalog) bool {
	return catalog.Spec.MultiArch == nil || *catalog.Spec.MultiArch
}

// platformOf is the architecture that an entry itself sets.
func platformOf(registry *cdiv1beta1.DataVolumeSourceRegistry) string {
	if registry.Platform == nil {
		return ""
	}
	return registry.Platform.Architecture
}

// supported are the architectures of KubeVirt.
func supported(listed []string) []string {
	return slices.DeleteFunc(slices.Clone(listed), func(a string) bool { return !architectures.Known(a) })
}

// manifestOf returns what is known of the manifest of an entry: the last answer, or what the status remembers of it. It is nil
// if the manifest is not read.
func (in *Input) manifestOf(t *v1alpha1.DataImportCronTemplate) *manifest {
	registry := Registry(in.Catalog, t)
	if registry == nil {
		return nil
	}
	read := in.Manifests[t.Name]
	m := &manifest{url: *registry.URL, architectures: read.Architectures, variants: read.Variants, failure: read.Failure}
	if i := slices.IndexFunc(in.Catalog.Status.Images, func(i v1alpha1.Image) bool { return i.Name == t.Name }); i >= 0 {
		m.last = in.Catalog.Status.Images[i].Manifest
	}
	if !m.known() && m.last != nil && m.last.URL == m.url {
		m.architectures, m.variants = m.last.Architectures, m.last.Variants
	}
	return m
}

// shown returns the architectures with their variants, and the variants that CDI does not import.
func (m *manifest) shown() string {
	var names, others []string
	for _, variant := range m.variants {
		if !ParsePlatform(variant).ImportedByCDI() {
			others = append(others, variant)
		}
	}
	for _, architecture := range m.architectures {
		if i := slices.IndexFunc(m.variants, func(v string) bool {
			return ParsePlatform(v).ImportedByCDI() && ParsePlatform(v).Architecture == architecture
		}); i >= 0 {
			architecture = m.variants[i]
		}
		names = append(names, architecture)
	}
	text := fmt.Sprint(names)
	if len(others) > 0 {
		text += fmt.Sprintf(", and the variants %v, which CDI does not import", others)
	}
	return text
}

// filled returns the architectures of an entry that lists none. If its registry does not answer, they are those of its last
// URL, and those that it is imported for. none is true if the image is imported once.
func (in *Input) filled(e *entry) (architectures []string, none bool) {
	m := e.manifest
	switch {
	case m.known():
		return supported(m.architectures), false
	case m.failure == nil:
		return nil, true
	}
	all := in.importedFor(e)
	if m.last != nil {
		all = append(all, m.last.Architectures...)
	}
	slices.Sort(all)
	return supported(slices.Compact(all)), len(all) == 0
}

// unread is why an entry that lists no architectures is not planned: its registry has not answered yet. What exists stays.
func (in *Input) unread(e *entry) *problem {
	if !fillsIn(in.Catalog, e.DataImportCronTemplate) || e.manifest.known() || e.manifest.failure != nil || !e.suffixes {
		return nil
	}
	if cron := in.Crons[e.Name]; cron != nil && in.owns(cron) && !in.applied(e) {
		return nil // it is imported once
	}
	return &problem{ReasonManifestPending, "the registry has not answered yet"}
}

// verify sets the condition of the manifest.
func (p *plan) verify(e *entry, conditions *[]metav1.Condition) {
	if e.manifest == nil {
		meta.RemoveStatusCondition(conditions, ManifestVerified)
		return
	}
	listed, _ := Listed(e.DataImportCronTemplate)
	if one := platformOf(e.Spec.Template.Spec.Source.Registry); len(listed) == 0 && one != "" {
		listed = []string{one}
	}
	status, why := verified(listed, e.manifest)
	p.setStatus(conditions, ManifestVerified, status, why)
}

// verified compares the architectures of an entry with those of its manifest. An entry that lists none has those of its
// manifest.
func verified(listed []string, m *manifest) (metav1.ConditionStatus, problem) {
	if !m.known() {
		why := problem{ReasonManifestPending, "the registry has not answered yet"}
		if m.failure != nil {
			why = problem{m.failure.Reason, m.failure.Message}
		}
		if m.last != nil {
			why.message += fmt.Sprintf("; before, %s had %v", m.last.URL, m.last.Architectures)
		}
		return metav1.ConditionUnknown, why
	}
	status, why := metav1.ConditionTrue, problem{ReasonVerified, "the manifest has " + m.shown()}
	missing, added := without(listed, m.architectures), without(supported(m.architectures), listed)
	switch {
	case len(missing) > 0:
		status, why = metav1.ConditionFalse, problem{ReasonMissing, fmt.Sprintf("the entry lists %v, which the manifest does not have: it has %s", missing, m.shown())}
	case len(listed) > 0 && len(added) > 0:
		status, why = metav1.ConditionFalse, problem{ReasonNotListed, fmt.Sprintf("the manifest has %v, which the entry does not list: it lists %v", added, listed)}
	}
	if m.failure != nil {
		why.message += "; the last read failed: " + m.failure.Message
	}
	return status, why
}

// without returns the elements of a list that another one does not have.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
