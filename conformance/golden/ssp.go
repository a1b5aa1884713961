package golden

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/conformance/imports"
	"github.com/virtward/virtward/goldenimages"
)

// ssp compares the crons and the pointers after each step. A case ends with the first step whose answer is better.
func ssp(c *Case) (Outcome, error) {
	var input sspInput
	var expect struct {
		Steps []struct {
			Error   any               `json:"error"`
			Objects []json.RawMessage `json:"objects"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(c.Input, &input); err != nil {
		return Outcome{}, fmt.Errorf("input: %w", err)
	}
	if err := json.Unmarshal(c.Expect, &expect); err != nil {
		return Outcome{}, fmt.Errorf("expect: %w", err)
	}
	if input.Webhook || len(input.Steps) == 0 || len(input.Steps) != len(expect.Steps) {
		return Outcome{Class: NotApplicable}, nil
	}
	w := newCluster()
	for _, object := range input.Existing {
		if err := w.add(object); err != nil {
			return Outcome{}, err
		}
	}
	for i := range input.Steps {
		if err := w.take(&input.Steps[i]); err != nil {
			return Outcome{}, err
		}
		if input.bundled(w) {
			return Outcome{Class: NotApplicable}, nil
		}
		if err := w.settle(); err != nil {
			return different(fmt.Sprintf("step %d: %v", i+1, err))
		}
		if expect.Steps[i].Error != nil {
			return rejected(w, i)
		}
		recorded := newCluster()
		for _, object := range expect.Steps[i].Objects {
			if err := recorded.add(object); err != nil {
				return Outcome{}, err
			}
		}
		want, got := input.own(recorded.state()), input.own(w.state())
		difference := differ(want, got)
		if difference == "" {
			continue
		}
		if why := fault(w, want, got); why != "" {
			return better(fmt.Sprintf("step %d: %s", i+1, why))
		}
		return different(fmt.Sprintf("step %d: %s", i+1, difference))
	}
	if input.WithCDI && len(w.interrupted) > 0 {
		return different(fmt.Sprintf("the DataSources %v stop to be ready", w.interrupted))
	}
	return equal()
}

// rejected compares a resource that SSP rejects whole. An architecture that it does not know is no error of a catalog.
func rejected(w *cluster, step int) (Outcome, error) {
	if errs := goldenimages.Validate(w.catalog); len(errs) > 0 {
		return equal()
	}
	if slices.ContainsFunc(w.nodes.WorkloadArchitectures, func(c v1alpha1.ArchitectureCount) bool {
		return !architectures.Known(c.Architecture)
	}) {
		return better(fmt.Sprintf("step %d: SSP rejects everything because of one unknown architecture", step+1))
	}
	return Outcome{Class: NotApplicable}, nil
}

// bundled reports whether SSP treats an entry as part of its bundle of VM templates: it has rules for an entry without
// architectures, and for a claim with the name of the DataSource.
func (i *sspInput) bundled(w *cluster) bool {
	for k := range w.catalog.Spec.DataImportCronTemplates {
		t := &w.catalog.Spec.DataImportCronTemplates[k]
		if t.Spec == nil || i.CommonTemplateDataSources[t.Spec.ManagedDataSource] == nil {
			continue
		}
		list, listed := goldenimages.Listed(t)
		if w.objects.Claims[imports.Name{Namespace: namespace, Name: t.Spec.ManagedDataSource}] != nil || *w.catalog.Spec.MultiArch && (!listed || len(list) == 0) {
			return true
		}
	}
	return len(w.catalog.Spec.DataImportCronTemplates) == 0 && len(i.CommonTemplateDataSources) > 0
}

// own leaves out the DataSources of the bundle that no entry imports, and objects of other namespaces.
func (i *sspInput) own(state map[string]string) map[string]string {
	kept := maps.Clone(state)
	for key := range state {
		name := strings.TrimPrefix(key, "source "+namespace+"/")
		if i.CommonTemplateDataSources[name] != nil && !strings.Contains(fmt.Sprint(slices.Collect(maps.Values(state))), "image \""+name+"\"") && !strings.Contains(fmt.Sprint(slices.Collect(maps.Values(state))), "manages "+name+",") {
			delete(kept, key)
		}
	}
	return kept
}

// fault returns the documented fault of SSP that explains a difference, or "".
func fault(w *cluster, want, got map[string]string) string {
	if errs := goldenimages.Validate(w.catalog); len(errs) > 0 {
		return "SSP does not validate: " + errs[0].Error()
	}
	taken := slices.ContainsFunc(w.catalog.Status.Images, func(image v1alpha1.Image) bool {
		return slices.ContainsFunc(image.Conditions, func(c metav1.Condition) bool {
			return c.Type == goldenimages.Deployed && c.Reason == goldenimages.ReasonNameTaken
		})
	})
	if taken {
		return "SSP overwrites objects of other owners"
	}
	if waits(w, want, got) {
		return "the pointer of SSP stays on an architecture whose import fails"
	}
	if differ(corrected(w, want), got) == "" {
		return "SSP imports for architectures without a workload, or for an empty list"
	}
	return ""
}

// waits reports whether the only difference is a pointer that is ready, where the one of SSP waits for a failed import.
func waits(w *cluster, want, got map[string]string) bool {
	others := false
	for key := range want {
		if got[key] == want[key] {
			continue
		}
		name, pointer := strings.CutPrefix(key, "source "+namespace+"/")
		failing := w.objects.Sources[imports.Name{Namespace: namespace, Name: strings.TrimPrefix(want[key], "points to ")}]
		others = others || !pointer || ready(failing) || !ready(w.objects.Sources[imports.Name{Namespace: namespace, Name: name}])
	}
	return !others && len(want) == len(got)
}

// corrected is the recorded state without crons for architectures on which no virtual machine runs, and with pointers to
// an architecture that is imported.
func corrected(w *cluster, recorded map[string]string) map[string]string {
	right := maps.Clone(recorded)
	for k := range w.catalog.Spec.DataImportCronTemplates {
		t := &w.catalog.Spec.DataImportCronTemplates[k]
		list, listed := goldenimages.Listed(t)
		if !listed || !*w.catalog.Spec.MultiArch {
			continue
		}
		if len(list) == 0 {
			delete(right, "cron "+namespace+"/"+t.Name)
		}
		var workloads []string
		for _, c := range w.nodes.WorkloadArchitectures {
			if slices.Contains(list, c.Architecture) {
				workloads = append(workloads, c.Architecture)
			}
		}
		for _, architecture := range architectures.Names() {
			if !slices.Contains(workloads, architecture) {
				delete(right, "cron "+namespace+"/"+t.Name+"-"+architecture)
			}
		}
		pointer := "source " + namespace + "/" + t.Spec.ManagedDataSource
		target := strings.TrimPrefix(right[pointer], "points to "+t.Spec.ManagedDataSource+"-")
		switch {
		case len(workloads) == 0:
			delete(right, pointer)
		case !slices.Contains(workloads, target):
			right[pointer] = "points to " + t.Spec.ManagedDataSource + "-" + workloads[0]
		}
	}
	return right
}

// differ lists the lines that differ.
func differ(want, got map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			lines = append(lines, fmt.Sprintf("%s: %q, want %q", key, got[key], want[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, found := want[key]; !found {
			lines = append(lines, fmt.Sprintf("%s: %q, want none", key, got[key]))
		}
	}
	return strings.Join(lines, "; ")
}
