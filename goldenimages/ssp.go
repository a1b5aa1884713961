package goldenimages

import (
	"fmt"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
)

// Marks of the objects that SSP manages.
const (
	primaryResource     = "operator-sdk/primary-resource"
	primaryResourceType = "operator-sdk/primary-resource-type"
	managedByLabel      = "app.kubernetes.io/managed-by"
	sspOperator         = "ssp-operator"
	sspGroup            = "ssp.kubevirt.io"
)

// managedBySSP reports whether SSP manages an object.
func managedBySSP(o Object) bool {
	return o.GetLabels()[managedByLabel] == sspOperator || strings.HasSuffix(o.GetAnnotations()[primaryResourceType], sspGroup)
}

// unmarked removes the marks of SSP from an object that the catalog creates: an entry can have them because it was copied.
func unmarked(o Object) {
	if labels := o.GetLabels(); labels[managedByLabel] == sspOperator {
		delete(labels, managedByLabel)
	}
	for _, key := range []string{primaryResource, primaryResourceType} {
		delete(o.GetAnnotations(), key)
	}
}

// observed returns why the objects of an entry are only observed; empty if the catalog may write them.
func (p *plan) observed(e *entry) string {
	if p.SSP != "" {
		return fmt.Sprintf("the SSP resource %q manages golden images", p.SSP)
	}
	crons, sources := e.names()
	for _, name := range crons {
		if cron := p.Crons[name]; cron != nil && managedBySSP(cron) {
			return fmt.Sprintf("SSP manages the DataImportCron %q", name)
		}
	}
	for _, name := range sources {
		if source := p.Sources[name]; source != nil && managedBySSP(source) {
			return fmt.Sprintf("SSP manages the DataSource %q", name)
		}
	}
	return ""
}

// pointed is the architecture that the pointer of an entry has; empty if it is none of them.
func (p *plan) pointed(e *entry) string {
	if pointer := p.Sources[e.source()]; pointer != nil {
		for _, architecture := range architectures.Names() {
			if pointsTo(pointer) == Suffixed(e.source(), architecture) {
				return architecture
			}
		}
	}
	return ""
}

// observation is the condition Deployed of an entry that is only observed.
func (p *plan) observation(e *entry) (deployed bool, why problem) {
	missing := ""
	for _, t := range e.targets {
		if p.Crons[t.cron.Name] == nil && missing == "" {
			missing = t.cron.Name
		}
	}
	switch {
	case len(e.targets) == 0:
		return false, problem{ReasonManagedBySSP, e.observed + "; no node has an architecture of the image"}
	case missing != "":
		return false, problem{ReasonManagedBySSP, fmt.Sprintf("%s; the DataImportCron %q does not exist", e.observed, missing)}
	}
	return true, problem{ReasonManagedBySSP, e.observed}
}

// consent is how a user gives an object to a catalog.
const consent = "the annotation " + v1alpha1.CatalogAnnotation + " on it permits the catalog to manage it"
