package webhooks

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/validators"
)

var catalogKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.Kind}

// catalog rejects a GoldenImageCatalog with images that CDI would reject, or that use the names of other images. What was
// wrong with an entry before is a warning, so that the others can change.
func (e *examination) catalog() error {
	object, ok := decoded[v1alpha1.GoldenImageCatalog](e)
	if !ok {
		return nil
	}
	old := &v1alpha1.GoldenImageCatalog{}
	if e.updates() {
		if err := evaluator.DecodeStored(e.request.OldObject.Raw, old); err == nil && equality.Semantic.DeepEqual(old.Spec, object.Spec) {
			return nil
		}
	}
	var others []goldenimages.Claims
	if e.Catalogs != nil {
		others = e.Catalogs()
	}
	before := map[string]bool{}
	for _, wrong := range e.faultsOf(old, others) {
		before[faultIn(old, wrong)] = true
	}
	for _, wrong := range e.faultsOf(object, others) {
		finding := validators.Finding{Rule: validators.RuleCatalog, Severity: validators.Deny, Error: wrong, Remedy: validators.RemedyCatalog}
		if before[faultIn(object, wrong)] {
			finding.Severity, finding.PreExisting = validators.Warn, true
		}
		e.findings = append(e.findings, finding)
	}
	return nil
}

func (e *examination) faultsOf(catalog *v1alpha1.GoldenImageCatalog, others []goldenimages.Claims) field.ErrorList {
	return append(goldenimages.Validate(catalog), goldenimages.Conflicts(catalog, e.CommonImages, others)...)
}

// faultIn identifies a fault by the name of its entry, whose index can change.
func faultIn(catalog *v1alpha1.GoldenImageCatalog, wrong *field.Error) string {
	var index int
	name, rest, found := "", "", false
	if _, err := fmt.Sscanf(wrong.Field, "spec.dataImportCronTemplates[%d]", &index); err == nil && index < len(catalog.Spec.DataImportCronTemplates) {
		name = catalog.Spec.DataImportCronTemplates[index].Name
		_, rest, found = strings.Cut(wrong.Field, "]")
	}
	if !found {
		rest = wrong.Field
	}
	return strings.Join([]string{name, rest, wrong.ErrorBody()}, "\x00")
}
