package golden

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
)

// validated validates a DataImportCron as the entry of a catalog. Cases about controllers are for the simulators, and
// updates of the spec do not concern a catalog, which may change.
func validated(c *Case) (Outcome, error) {
	var input struct {
		Webhook   bool                       `json:"webhook"`
		Operation string                     `json:"operation"`
		Object    *cdiv1beta1.DataImportCron `json:"object"`
		OldObject *cdiv1beta1.DataImportCron `json:"oldObject"`
	}
	var expect struct {
		Allowed bool `json:"allowed"`
	}
	if err := json.Unmarshal(c.Input, &input); err != nil {
		return Outcome{}, fmt.Errorf("input: %w", err)
	}
	if err := json.Unmarshal(c.Expect, &expect); err != nil {
		return Outcome{}, fmt.Errorf("expect: %w", err)
	}
	if !input.Webhook || input.Operation != "CREATE" || input.Object == nil {
		return Outcome{Class: NotApplicable}, nil
	}
	entry := v1alpha1.DataImportCronTemplate{Spec: &input.Object.Spec}
	entry.Name, entry.Annotations = input.Object.Name, input.Object.Annotations
	catalog := &v1alpha1.GoldenImageCatalog{}
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry}
	errs := goldenimages.Validate(catalog)
	switch {
	case (len(errs) == 0) == expect.Allowed:
		return equal()
	case expect.Allowed && unchecked(input.Object):
		return better("CDI does not validate " + errs[0].Field)
	}
	return different(fmt.Sprintf("allowed %t, want %t: %v", len(errs) == 0, expect.Allowed, errs))
}

// unchecked reports whether a cron has a value that CDI accepts and that nothing can use: a name that the API server
// rejects, an unknown architecture, or a policy that does not exist.
func unchecked(cron *cdiv1beta1.DataImportCron) bool {
	for _, name := range []string{cron.Name, cron.Spec.ManagedDataSource} {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return true
		}
	}
	if source := cron.Spec.Template.Spec.Source; source != nil && source.Registry != nil && source.Registry.Platform != nil {
		if a := source.Registry.Platform.Architecture; a != "" && !architectures.Known(a) {
			return true
		}
	}
	retention := cron.Spec.RetentionPolicy
	return retention != nil && !strings.Contains("All None", string(*retention)) || equality.Semantic.DeepEqual(cron.Spec, cdiv1beta1.DataImportCronSpec{}) ||
		cron.Spec.ImportsToKeep != nil && *cron.Spec.ImportsToKeep < 0
}
