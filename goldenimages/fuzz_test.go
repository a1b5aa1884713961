package goldenimages

import (
	"encoding/json"
	"testing"

	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// FuzzPlan validates and plans any catalog beside any objects and manifests. It never panics, and a plan has at most as many writes as
// there are objects and imports.
func FuzzPlan(f *testing.F) {
	catalog, err := json.Marshal(catalogOf(image("fedora", "amd64, arm64"), image("debian", "-")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(catalog, []byte(`{"fedora-cron":{"metadata":{"name":"fedora-cron","annotations":{"image.virtward.io/catalog":"site"}}}}`), []byte(`{"fedora":{"metadata":{"name":"fedora"},"spec":{"source":{"dataSource":{"name":"x","namespace":"y"}}}}}`), []byte(`{}`))
	verified := catalogOf(image("fedora", "-"), image("debian", "arm64"))
	verified.Spec.VerifyManifest = true
	verified.Status.Images = []v1alpha1.Image{{Name: "fedora-cron", Manifest: &v1alpha1.ImageManifest{URL: "docker://registry.example/fedora", Architectures: []string{"amd64"}}}}
	if catalog, err = json.Marshal(verified); err != nil {
		f.Fatal(err)
	}
	f.Add(catalog, []byte(`{"fedora-cron-amd64":{"metadata":{"name":"fedora-cron-amd64","annotations":{"image.virtward.io/catalog":"site"}}}}`), []byte(`{}`), []byte(`{"fedora-cron":{"Failure":{"Reason":"X","Message":"y"}},"debian-cron":{"Architectures":["amd64",""]}}`))
	f.Add([]byte(`{"spec":{"dataImportCronTemplates":[{"metadata":{"name":"a"},"spec":{"schedule":"TZ=","template":{"spec":{"source":{"registry":{}}}}}}]}}`), []byte(`{}`), []byte(`{}`), []byte(`{"a":{}}`))
	f.Fuzz(func(t *testing.T, catalog, crons, sources, manifests []byte) {
		in := Input{Catalog: &v1alpha1.GoldenImageCatalog{}, Nodes: v1alpha1.NodeArchitectures{WorkloadArchitectures: []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 1}}}}
		if json.Unmarshal(catalog, in.Catalog) != nil || json.Unmarshal(crons, &in.Crons) != nil || json.Unmarshal(sources, &in.Sources) != nil || json.Unmarshal(manifests, &in.Manifests) != nil {
			t.Skip()
		}
		for name, cron := range in.Crons {
			if cron == nil {
				in.Crons[name] = &cdiv1beta1.DataImportCron{}
			}
		}
		for name, source := range in.Sources {
			if source == nil {
				in.Sources[name] = &cdiv1beta1.DataSource{}
			}
		}
		Validate(in.Catalog)
		result := Plan(&in)
		if most := len(in.Crons) + len(in.Sources) + 5*len(in.Catalog.Spec.DataImportCronTemplates); len(result.Writes) > most {
			t.Errorf("%d writes", len(result.Writes))
		}
	})
}
