package goldenimages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
)

func condition(kind string, status metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason}}
}

func observed() (*goldenimages.Input, *v1alpha1.GoldenImageCatalogStatus) {
	in := &goldenimages.Input{Catalog: &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}, Crons: map[string]*cdiv1beta1.DataImportCron{"fedora-cron-amd64": {}}}
	in.Crons["fedora-cron-amd64"].Status.LastImportTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
	s := &v1alpha1.GoldenImageCatalogStatus{Conditions: condition(conditionReady, metav1.ConditionFalse, reasonPending)}
	s.Nodes.WorkloadArchitectures = []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 3}}
	s.Images = []v1alpha1.Image{
		{Name: "fedora-cron", DataSource: "fedora", OriginalArchitectures: []string{"amd64", "arm64"}, Conditions: condition(goldenimages.Deployed, metav1.ConditionTrue, goldenimages.ReasonDeployed), Imports: []v1alpha1.Import{
			{Architecture: "amd64", DataImportCron: "fedora-cron-amd64", Conditions: condition(goldenimages.Imported, metav1.ConditionTrue, "Imported")},
			{Architecture: "arm64", DataImportCron: "fedora-cron-arm64", Conditions: condition(goldenimages.Imported, metav1.ConditionFalse, "Unschedulable")},
		}},
		{Name: "old-cron", DataSource: "old", Conditions: condition(goldenimages.Deployed, metav1.ConditionTrue, goldenimages.ReasonDeployed), Imports: []v1alpha1.Import{
			{DataImportCron: "old-cron", Conditions: condition(goldenimages.Imported, metav1.ConditionFalse, "SomethingElse")},
		}},
		{Name: "z-cron", DataSource: "z", OriginalArchitectures: []string{"s390x"}, Conditions: append(condition(goldenimages.Deployed, metav1.ConditionFalse, goldenimages.ReasonUnsupported), condition(goldenimages.ManifestVerified, metav1.ConditionFalse, goldenimages.ReasonMissing)...)},
	}
	return in, s
}

func TestMetrics(t *testing.T) {
	l := &ledger{clock: testclock.NewFakePassiveClock(time.Unix(1090, 0)), catalogs: map[string]*catalogRecord{}}
	in, s := observed()
	l.note(in, s)
	own := `
# HELP virtward_golden_image_catalog_ready Whether all images of a catalog are imported (1) or not (0), by the reason.
# TYPE virtward_golden_image_catalog_ready gauge
virtward_golden_image_catalog_ready{catalog="site",reason="Pending"} 0
# HELP virtward_golden_image_import_age_seconds Time since the last import of an image, by its architecture.
# TYPE virtward_golden_image_import_age_seconds gauge
virtward_golden_image_import_age_seconds{architecture="amd64",catalog="site",image="fedora-cron"} 90
# HELP virtward_golden_image_import_failing Imports of images that fail, by the reason: ImagePullFailed, Unschedulable, Error.
# TYPE virtward_golden_image_import_failing gauge
virtward_golden_image_import_failing{architecture="arm64",catalog="site",image="fedora-cron",reason="Unschedulable"} 1
# HELP virtward_golden_image_imported Whether an image is imported (1) or not (0), by its architecture.
# TYPE virtward_golden_image_imported gauge
virtward_golden_image_imported{architecture="amd64",catalog="site",image="fedora-cron"} 1
virtward_golden_image_imported{architecture="arm64",catalog="site",image="fedora-cron"} 0
virtward_golden_image_imported{architecture="any",catalog="site",image="old-cron"} 0
# HELP virtward_golden_image_manifest_verified Whether an entry and the manifest of its image have the same architectures (1) or not (0), by the reason of the condition ManifestVerified.
# TYPE virtward_golden_image_manifest_verified gauge
virtward_golden_image_manifest_verified{catalog="site",image="z-cron",reason="ArchitecturesMissing"} 0
# HELP virtward_golden_image_nodes Nodes on which virtual machines run, by their architecture.
# TYPE virtward_golden_image_nodes gauge
virtward_golden_image_nodes{architecture="amd64",catalog="site"} 3
# HELP virtward_golden_images_uncounted Images without metrics, because there are too many.
# TYPE virtward_golden_images_uncounted gauge
virtward_golden_images_uncounted 0
`
	hco := `
# HELP kubevirt_hco_dataimportcrontemplate_with_architecture_annotation Whether the entry of an image lists architectures (1) or not (0).
# TYPE kubevirt_hco_dataimportcrontemplate_with_architecture_annotation gauge
kubevirt_hco_dataimportcrontemplate_with_architecture_annotation{catalog="site",data_import_cron_name="fedora-cron",managed_data_source_name="fedora"} 1
kubevirt_hco_dataimportcrontemplate_with_architecture_annotation{catalog="site",data_import_cron_name="old-cron",managed_data_source_name="old"} 0
kubevirt_hco_dataimportcrontemplate_with_architecture_annotation{catalog="site",data_import_cron_name="z-cron",managed_data_source_name="z"} 1
# HELP kubevirt_hco_dataimportcrontemplate_with_supported_architectures Whether nodes have an architecture of an image (1) or not (0).
# TYPE kubevirt_hco_dataimportcrontemplate_with_supported_architectures gauge
kubevirt_hco_dataimportcrontemplate_with_supported_architectures{catalog="site",data_import_cron_name="fedora-cron",managed_data_source_name="fedora"} 1
kubevirt_hco_dataimportcrontemplate_with_supported_architectures{catalog="site",data_import_cron_name="old-cron",managed_data_source_name="old"} 1
kubevirt_hco_dataimportcrontemplate_with_supported_architectures{catalog="site",data_import_cron_name="z-cron",managed_data_source_name="z"} 0
# HELP kubevirt_hco_multi_arch_boot_images_enabled Whether a catalog imports its images for all architectures of the nodes (1) or not (0).
# TYPE kubevirt_hco_multi_arch_boot_images_enabled gauge
kubevirt_hco_multi_arch_boot_images_enabled{catalog="site"} 1
`
	if err := testutil.CollectAndCompare(l, strings.NewReader(own+hco)); err != nil {
		t.Error(err)
	}
	in.SSP = "kubevirt/ssp"
	l.note(in, s)
	if err := testutil.CollectAndCompare(l, strings.NewReader(own)); err != nil {
		t.Errorf("beside SSP: %v", err)
	}
	l.forget("site")
	if count := testutil.CollectAndCount(l); count != 1 {
		t.Errorf("%d metrics of no catalog", count)
	}
}

// The metrics of many catalogs are bounded. What is above the bound is counted.
func TestMetricsAreBounded(t *testing.T) {
	l := &ledger{clock: testclock.NewFakePassiveClock(time.Unix(1090, 0)), catalogs: map[string]*catalogRecord{}}
	for i := range 15 {
		in := &goldenimages.Input{Catalog: &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}}}
		s := &v1alpha1.GoldenImageCatalogStatus{}
		for k := range 200 {
			s.Images = append(s.Images, v1alpha1.Image{Name: fmt.Sprint(k)})
		}
		l.note(in, s)
		l.note(in, s)
	}
	want := `
# HELP virtward_golden_images_uncounted Images without metrics, because there are too many.
# TYPE virtward_golden_images_uncounted gauge
virtward_golden_images_uncounted 1000
`
	if err := testutil.CollectAndCompare(l, strings.NewReader(want), "virtward_golden_images_uncounted"); err != nil {
		t.Error(err)
	}
	if count := testutil.CollectAndCount(l, "kubevirt_hco_dataimportcrontemplate_with_supported_architectures"); count != maxImages {
		t.Errorf("%d images, want %d", count, maxImages)
	}
}
