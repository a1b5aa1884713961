package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
)

// imageOf is an entry in YAML.
func imageOf(name, source, more string) string {
	return fmt.Sprintf("{metadata: {name: %s, annotations: {ssp.kubevirt.io/dict.architectures: 'amd64,arm64'}}, spec: {managedDataSource: %s, schedule: '0 0 * * *', template: {spec: {source: {registry: {url: 'docker://a/b'}}, storage: {resources: {requests: {storage: 1Gi}}}}}%s}}", name, source, more)
}

// catalogNamed is a catalog in JSON.
func catalogNamed(t *testing.T, name string, entries ...string) []byte {
	t.Helper()
	list := []any{}
	for _, entry := range entries {
		var decoded any
		if err := yaml.Unmarshal([]byte(entry), &decoded); err != nil {
			t.Fatal(err)
		}
		list = append(list, decoded)
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"namespace": "images", "dataImportCronTemplates": list}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestCatalogsAreValidated(t *testing.T) {
	const wrong = ", garbageCollect: Sometimes"
	for name, c := range map[string]struct {
		old, object []string
		want        []string
	}{
		"a valid one": {object: []string{imageOf("fedora", "fedora", "")}},
		"all faults": {object: []string{imageOf("fedora", "fedora", wrong), imageOf("Fedora", "debian", ", importsToKeep: -1")}, want: []string{
			"FieldValueNotSupported spec.dataImportCronTemplates[0].spec.garbageCollect",
			"FieldValueInvalid spec.dataImportCronTemplates[1].metadata.name",
			"FieldValueInvalid spec.dataImportCronTemplates[1].spec.importsToKeep",
		}},
		"two with one DataSource":           {object: []string{imageOf("a", "fedora", ""), imageOf("b", "fedora", "")}, want: []string{"FieldValueInvalid spec.dataImportCronTemplates[0].metadata.name", "FieldValueInvalid spec.dataImportCronTemplates[1].metadata.name"}},
		"the image of another catalog":      {object: []string{imageOf("x", "taken", "")}, want: []string{"FieldValueInvalid spec.dataImportCronTemplates[0].spec.managedDataSource"}},
		"the suffix of another catalog":     {object: []string{imageOf("taken-arm64", "x", "")}, want: []string{"FieldValueInvalid spec.dataImportCronTemplates[0].metadata.name"}},
		"a fault that was there":            {old: []string{imageOf("fedora", "fedora", wrong)}, object: []string{imageOf("debian", "debian", ""), imageOf("fedora", "fedora", wrong)}, want: []string{"warning"}},
		"a fault that another entry had":    {old: []string{imageOf("fedora", "fedora", wrong)}, object: []string{imageOf("debian", "debian", wrong)}, want: []string{"FieldValueNotSupported spec.dataImportCronTemplates[0].spec.garbageCollect"}},
		"a name that was taken before":      {old: []string{imageOf("taken", "taken", "")}, object: []string{imageOf("taken", "taken", ", importsToKeep: 1")}, want: []string{"warning"}},
		"a fault, without a change":         {old: []string{imageOf("fedora", "fedora", wrong)}, object: []string{imageOf("fedora", "fedora", wrong)}},
		"its own names, when it is updated": {old: []string{imageOf("own", "own", "")}, object: []string{imageOf("own", "own", ", importsToKeep: 1")}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			v.Catalogs = func() []goldenimages.Claims {
				return []goldenimages.Claims{
					{Catalog: "other", Namespace: "images", Names: []goldenimages.Claim{{Cron: "taken", Source: "taken", Suffixed: true}}},
					{Catalog: "site", Namespace: "images", Names: []goldenimages.Claim{{Cron: "own", Source: "own", Suffixed: true}}},
					{Catalog: "elsewhere", Namespace: "shop", Names: []goldenimages.Claim{{Cron: "fedora", Source: "fedora", Suffixed: true}}},
				}
			}
			request := &admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind)), Operation: admissionv1.Create, Name: "site",
				Object: runtime.RawExtension{Raw: catalogNamed(t, "site", c.object...)},
			}
			if c.old != nil {
				request.Operation, request.OldObject.Raw = admissionv1.Update, catalogNamed(t, "site", c.old...)
			}
			response, _ := v.respond(t.Context(), reviewFor(v, request))
			var got []string
			if response.Result != nil && response.Result.Details != nil {
				for _, cause := range response.Result.Details.Causes {
					if cause.Field != "virtward" {
						got = append(got, fmt.Sprintf("%s %s", cause.Type, cause.Field))
					}
				}
			}
			for range response.Warnings {
				got = append(got, "warning")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%v %+v", diff, response.Warnings, response.Result)
			}
		})
	}
}

// TestCommonImagesAreCompared compares the names of common images with those of the catalog itself and of others.
func TestCommonImagesAreCompared(t *testing.T) {
	common, err := goldenimages.ParseCommon([]byte("[" + imageOf("base", "base", "") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string, withCommon bool, entries ...string) goldenimages.Claims {
		c := &v1alpha1.GoldenImageCatalog{}
		if err := json.Unmarshal(catalogNamed(t, name, entries...), c); err != nil {
			t.Fatal(err)
		}
		c.Spec.CommonImages = withCommon
		return goldenimages.ClaimsOf(c, common)
	}
	for name, test := range map[string]struct {
		others     []goldenimages.Claims
		withCommon bool
		entries    []string
		want       []string
	}{
		"the name of a common image of another catalog": {
			others: []goldenimages.Claims{other("other", true)}, entries: []string{imageOf("mine", "base", "")},
			want: []string{`FieldValueInvalid spec.dataImportCronTemplates[0].spec.managedDataSource: Invalid value: "base": the catalog "other" uses the DataSource "base"`},
		},
		"with the suffix of an architecture": {
			others: []goldenimages.Claims{other("other", true)}, entries: []string{imageOf("base-arm64", "mine", "")},
			want: []string{`FieldValueInvalid spec.dataImportCronTemplates[0].metadata.name: Invalid value: "base-arm64": the catalog "other" uses the DataImportCron "base-arm64"`},
		},
		"a common image that another catalog has as an entry": {
			others: []goldenimages.Claims{other("other", false, imageOf("mine", "base", ""))}, withCommon: true,
			want: []string{`FieldValueInvalid spec.commonImages: Invalid value: true: the catalog "other" uses the DataSource "base" of the common image "base"`},
		},
		"the common images of two catalogs": {
			others: []goldenimages.Claims{other("other", true)}, withCommon: true,
			want: []string{`FieldValueInvalid spec.commonImages: Invalid value: true: the catalog "other" uses the DataImportCron "base" of the common image "base"`},
		},
		"a common image of the catalog itself": {
			withCommon: true, entries: []string{imageOf("mine", "base", "")},
			want: []string{`FieldValueInvalid spec.dataImportCronTemplates[0].metadata.name: Invalid value: "mine": the entries "mine" and "base" both use the DataSource "base"`},
		},
		"an entry that replaces a common image": {withCommon: true, entries: []string{imageOf("base", "base", "")}},
		"without the common images":             {others: []goldenimages.Claims{other("other", false)}, entries: []string{imageOf("mine", "base", "")}},
		"itself":                                {others: []goldenimages.Claims{other("site", true)}, withCommon: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			v.CommonImages, v.Catalogs = common, func() []goldenimages.Claims { return test.others }
			var object map[string]any
			if err := json.Unmarshal(catalogNamed(t, "site", test.entries...), &object); err != nil {
				t.Fatal(err)
			}
			object["spec"].(map[string]any)["commonImages"] = test.withCommon
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			response, _ := v.respond(t.Context(), reviewFor(v, &admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind)), Operation: admissionv1.Create, Name: "site", Object: runtime.RawExtension{Raw: raw},
			}))
			var got []string
			if response.Result != nil && response.Result.Details != nil {
				for _, cause := range response.Result.Details.Causes {
					if cause.Field != "virtward" {
						message, _, _ := strings.Cut(cause.Message, " [virtward/")
						got = append(got, fmt.Sprintf("%s %s: %s", cause.Type, cause.Field, message))
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
