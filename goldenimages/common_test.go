package goldenimages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

const commonEntry = `
- metadata: {name: NAME-cron, annotations: {ssp.kubevirt.io/dict.architectures: "amd64,arm64"}}
  spec: {schedule: "0 */12 * * *", managedDataSource: NAME, template: {spec: {source: {registry: {url: "docker://registry.example/NAME"}}, storage: {resources: {requests: {storage: 10Gi}}}}}}`

func TestParseCommon(t *testing.T) {
	text := strings.ReplaceAll(commonEntry, "NAME", "fedora") + strings.Replace(strings.ReplaceAll(commonEntry, "NAME", "debian"), "schedule:", "retentionPolicy: All, importsToKeep: 4, schedule:", 1)
	got, err := ParseCommon([]byte(text))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v %+v", err, got)
	}
	if *got[0].Spec.RetentionPolicy != cdiv1beta1.DataImportCronRetainNone || *got[0].Spec.ImportsToKeep != 1 {
		t.Errorf("the defaults: %+v", got[0].Spec)
	}
	if *got[1].Spec.RetentionPolicy != cdiv1beta1.DataImportCronRetainAll || *got[1].Spec.ImportsToKeep != 4 {
		t.Errorf("fields of the list changed: %+v", got[1].Spec)
	}
	if none, err := ParseCommon([]byte("[]\n")); err != nil || len(none) != 0 {
		t.Errorf("an empty list: %v %v", none, err)
	}
	fedora := strings.ReplaceAll(commonEntry, "NAME", "fedora")
	for text, want := range map[string]string{
		"{": "reading the list",
		strings.ReplaceAll(fedora, "schedule:", "scedule:"): `unknown field "scedule"`,
		fedora + fedora: "Duplicate value",
		strings.ReplaceAll(fedora, "0 */12", "every 12"):                                                                  "must be a schedule of cron",
		strings.ReplaceAll(fedora, `registry: {url: "docker://registry.example/fedora"}`, "pvc: {name: a, namespace: b}"): "a common image is from a registry",
		strings.ReplaceAll(fedora, "metadata: {", "metadata: {namespace: other, "):                                        "metadata.namespace: Forbidden",
		strings.Repeat(fedora, MaxCommon+1):                                                                               "51 images are more than 50",
	} {
		if _, err := ParseCommon([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestWithCommon(t *testing.T) {
	common, err := ParseCommon([]byte(strings.ReplaceAll(commonEntry, "NAME", "fedora") + strings.ReplaceAll(commonEntry, "NAME", "debian")))
	if err != nil {
		t.Fatal(err)
	}
	own := v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: "debian-cron", Annotations: map[string]string{v1alpha1.EnableAnnotation: "false"}}}
	for name, test := range map[string]struct {
		common bool
		own    []v1alpha1.DataImportCronTemplate
		want   []v1alpha1.DataImportCronTemplate
	}{
		"not wanted":                 {false, []v1alpha1.DataImportCronTemplate{own}, []v1alpha1.DataImportCronTemplate{own}},
		"no own entry":               {true, nil, common},
		"an own one of that name":    {true, []v1alpha1.DataImportCronTemplate{own}, []v1alpha1.DataImportCronTemplate{own, common[0]}},
		"neither own nor common one": {false, nil, nil},
	} {
		catalog := &v1alpha1.GoldenImageCatalog{}
		catalog.Spec.CommonImages, catalog.Spec.DataImportCronTemplates = test.common, test.own
		if diff := cmp.Diff(test.want, WithCommon(catalog, common)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
