package goldenimages

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// MaxCommon bounds the common images.
const MaxCommon = 50

// ParseCommon reads the list of common images: entries as those of a catalog, in YAML. Entries without a retention policy
// keep one import, as HCO's common images do. Only images of registries are common: a claim could be one that the author of a
// catalog cannot clone.
func ParseCommon(data []byte) ([]v1alpha1.DataImportCronTemplate, error) {
	var common []v1alpha1.DataImportCronTemplate
	if err := yaml.UnmarshalStrict(data, &common); err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	if len(common) > MaxCommon {
		return nil, fmt.Errorf("%d images are more than %d", len(common), MaxCommon)
	}
	for i := range common {
		if err := completeCommon(&common[i]); err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
	}
	catalog := &v1alpha1.GoldenImageCatalog{}
	catalog.Spec.DataImportCronTemplates = common
	if errs := Validate(catalog); len(errs) > 0 {
		return nil, errs.ToAggregate() //nolint:forbidigo // the list comes from a file, and has no causes
	}
	return common, nil
}

func completeCommon(e *v1alpha1.DataImportCronTemplate) error {
	switch source := field.NewPath("spec", "template", "spec", "source"); {
	case e.Namespace != "":
		return field.Forbidden(field.NewPath("metadata", "namespace"), "a common image has the namespace of each catalog")
	case e.Spec == nil || e.Spec.Template.Spec.Source == nil || e.Spec.Template.Spec.Source.Registry == nil:
		return field.Required(source.Child("registry"), "a common image is from a registry")
	}
	if e.Spec.RetentionPolicy == nil {
		none := cdiv1beta1.DataImportCronRetainNone
		e.Spec.RetentionPolicy = &none
	}
	if e.Spec.ImportsToKeep == nil {
		one := int32(1)
		e.Spec.ImportsToKeep = &one
	}
	return nil
}

// WithCommon returns the entries of a catalog, with the common images if it has these. An entry of the catalog replaces the
// common one of its name.
func WithCommon(catalog *v1alpha1.GoldenImageCatalog, common []v1alpha1.DataImportCronTemplate) []v1alpha1.DataImportCronTemplate {
	entries := slices.Clone(catalog.Spec.DataImportCronTemplates)
	if !catalog.Spec.CommonImages {
		return entries
	}
	for i := range common {
		if !slices.ContainsFunc(catalog.Spec.DataImportCronTemplates, func(own v1alpha1.DataImportCronTemplate) bool { return own.Name == common[i].Name }) {
			entries = append(entries, *common[i].DeepCopy())
		}
	}
	return entries
}
