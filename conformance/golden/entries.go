package golden

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
)

// entriesInput are the architectures of the nodes, and the entries that HCO ships and those of its resource.
type entriesInput struct {
	Architectures struct {
		Workloads    []string `json:"workloads"`
		ControlPlane []string `json:"controlPlane"`
	} `json:"architectures"`
	CommonTemplates []v1alpha1.DataImportCronTemplate `json:"commonTemplates"`
	HyperConverged  struct {
		Spec struct {
			WorkloadSources struct {
				Templates []v1alpha1.DataImportCronTemplate `json:"dataImportCronTemplates"`
				MultiArch *bool                             `json:"enableMultiArchBootImageImport"`
				Namespace string                            `json:"commonBootImageNamespace"`
			} `json:"workloadSources"`
			FeatureGates []struct {
				Name  string `json:"name"`
				State string `json:"state"`
			} `json:"featureGates"`
		} `json:"spec"`
	} `json:"hyperConverged"`
}

// entriesAnswer is what HCO gives to SSP.
type entriesAnswer struct {
	SSP struct {
		Templates []v1alpha1.DataImportCronTemplate `json:"dataImportCronTemplates"`
	} `json:"ssp"`
	Error     any `json:"error"`
	Panic     any `json:"panic"`
	LoadError any `json:"loadError"`
}

// multiArch is the switch of HCO, or its older feature gate.
func (i *entriesInput) multiArch() bool {
	spec := &i.HyperConverged.Spec
	if spec.WorkloadSources.MultiArch != nil {
		return *spec.WorkloadSources.MultiArch
	}
	for _, gate := range spec.FeatureGates {
		if gate.Name == "enableMultiArchBootImageImport" {
			return gate.State != "Disabled"
		}
	}
	return false
}

// catalog has the entries of both lists. applicable is false if HCO merges two of them by rules of its own.
func (i *entriesInput) catalog() (catalog *v1alpha1.GoldenImageCatalog, applicable bool) {
	on := i.multiArch()
	catalog = &v1alpha1.GoldenImageCatalog{}
	catalog.Spec.MultiArch = &on
	catalog.Spec.DataImportCronTemplates = slices.Clone(i.CommonTemplates)
	for _, custom := range i.HyperConverged.Spec.WorkloadSources.Templates {
		same := slices.IndexFunc(i.CommonTemplates, func(t v1alpha1.DataImportCronTemplate) bool { return t.Name == custom.Name })
		enable, switched := custom.Annotations[v1alpha1.EnableAnnotation]
		switch {
		case same < 0:
			catalog.Spec.DataImportCronTemplates = append(catalog.Spec.DataImportCronTemplates, custom)
		case switched && custom.Spec == nil:
			entry := catalog.Spec.DataImportCronTemplates[same].DeepCopy()
			if entry.Annotations == nil {
				entry.Annotations = map[string]string{}
			}
			entry.Annotations[v1alpha1.EnableAnnotation] = enable
			catalog.Spec.DataImportCronTemplates[same] = *entry
		default:
			return catalog, false
		}
	}
	return catalog, i.HyperConverged.Spec.WorkloadSources.Namespace == ""
}

// entries compares the entries that remain, and their architectures.
func entries(c *Case) (Outcome, error) {
	var input entriesInput
	var expect entriesAnswer
	if err := json.Unmarshal(c.Input, &input); err != nil {
		return Outcome{}, fmt.Errorf("input: %w", err)
	}
	if err := json.Unmarshal(c.Expect, &expect); err != nil {
		return Outcome{}, fmt.Errorf("expect: %w", err)
	}
	catalog, applicable := input.catalog()
	if !applicable || expect.Error != nil || expect.LoadError != nil {
		return Outcome{Class: NotApplicable}, nil
	}
	if expect.Panic != nil {
		if errs := goldenimages.Validate(catalog); len(errs) > 0 {
			return better("an error instead of a crash: " + errs[0].Error())
		}
		return different("HCO crashes, and the catalog is valid")
	}
	in := &goldenimages.Input{Catalog: catalog, Nodes: architecturesOf(input.Architectures.Workloads, input.Architectures.ControlPlane)}
	got, want := planned(in), map[string]string{}
	for i := range expect.SSP.Templates {
		t := &expect.SSP.Templates[i]
		want[t.Name] = "once"
		if value, found := t.Annotations[v1alpha1.ArchitecturesAnnotation]; found {
			want[t.Name] = value
		}
	}
	fault := ""
	for i := range catalog.Spec.DataImportCronTemplates {
		entry := &catalog.Spec.DataImportCronTemplates[i]
		if got[entry.Name] == want[entry.Name] {
			continue
		}
		if right := cleaned(entry.Annotations[v1alpha1.ArchitecturesAnnotation], input.Architectures.Workloads); right == got[entry.Name] && cleaned(want[entry.Name], input.Architectures.Workloads) != want[entry.Name] || right == got[entry.Name] && !tidy(entry.Annotations[v1alpha1.ArchitecturesAnnotation]) {
			fault = "HCO does not trim, keeps duplicates and case, and knows no variants"
			continue
		}
		return different(fmt.Sprintf("%s is imported for %q, want %q", entry.Name, got[entry.Name], want[entry.Name]))
	}
	if fault != "" {
		return better(fault)
	}
	return equal()
}

// planned returns what is created for each entry: its architectures, or once.
func planned(in *goldenimages.Input) map[string]string {
	result := goldenimages.Plan(in)
	created := map[string][]string{}
	for _, write := range result.Writes {
		if cron, isCron := write.Object.(*cdiv1beta1.DataImportCron); isCron && write.Verb == goldenimages.Create {
			architecture := cron.Labels[v1alpha1.ArchitectureLabel]
			name := strings.TrimSuffix(cron.Name, "-"+architecture)
			if architecture == "" {
				architecture = "once"
			}
			created[name] = append(created[name], architecture)
		}
	}
	answers := map[string]string{}
	for name, architectures := range created {
		answers[name] = strings.Join(architectures, ",")
	}
	return answers
}

// cleaned is a list of architectures without spaces, duplicates and upper case, and without those that no node has.
func cleaned(list string, workloads []string) string {
	var clean []string
	for _, item := range strings.Split(list, ",") {
		item = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(item)), "linux/")
		if architecture, known := map[string]string{"arm64/v8": "arm64", "arm64/8": "arm64", "amd64/v1": "amd64"}[item]; known {
			item = architecture
		}
		if slices.Contains(workloads, item) && !slices.Contains(clean, item) {
			clean = append(clean, item)
		}
	}
	return strings.Join(clean, ",")
}

// tidy reports whether a list has no space, no upper case, and no variants.
func tidy(list string) bool {
	return !strings.ContainsAny(list, " \t/") && strings.ToLower(list) == list
}

// architecturesOf are nodes of the architectures. Those that are first in a list have the most nodes, because SSP prefers
// the first.
func architecturesOf(workloads, controlPlane []string) v1alpha1.NodeArchitectures {
	count := func(names []string) (counts []v1alpha1.ArchitectureCount) {
		for i, name := range names {
			counts = append(counts, v1alpha1.ArchitectureCount{Architecture: name, Nodes: int32(len(names) - i)}) //nolint:gosec // at most three
		}
		return counts
	}
	return v1alpha1.NodeArchitectures{WorkloadArchitectures: count(workloads), ControlPlaneArchitectures: count(controlPlane)}
}
