package templates_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// imported is a template, and the completed import that created it.
func imported(t *testing.T) (*v1beta1.VirtualMachineTemplate, *v1beta1.VirtualMachineTemplateImport) {
	t.Helper()
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{
		Name: "db", UID: "t", Labels: map[string]string{v1beta1.LabelImportUID: "i"}, Annotations: map[string]string{v1beta1.AnnotationImport: "first"},
	}}
	template.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(`{"spec":{"running":false,"template":{}}}`)}
	digest, err := templates.SpecDigest(&template.Spec)
	if err != nil {
		t.Fatal(err)
	}
	of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Name: "first", UID: "i"}}
	of.Spec.Source.OCI = &v1beta1.ImportOCI{Reference: "oci://registry.example.com/db:1", SecretRef: "login"}
	of.Status.Conditions = []metav1.Condition{{Type: v1beta1.RequestCompleted, Status: metav1.ConditionTrue}}
	of.Status.Source = &v1beta1.ImportedSource{Digest: "sha256:2", Verified: true, Signer: "key 1 of registry.example.com", TemplateDigest: digest}
	return template, of
}

func TestSourceOf(t *testing.T) {
	template, of := imported(t)
	source, why := templates.SourceOf(template, of)
	want := &v1beta1.TemplateSource{Kind: v1beta1.SourceOCI, Reference: "oci://registry.example.com/db:1", Digest: "sha256:2", Verified: true, Signer: "key 1 of registry.example.com", Import: "first"}
	if diff := cmp.Diff(want, source); diff != "" || why != "" {
		t.Errorf("%s (-want +got):\n%s", why, diff)
	}
	for name, c := range map[string]struct {
		change func(*v1beta1.VirtualMachineTemplate, *v1beta1.VirtualMachineTemplateImport)
		want   string
	}{
		"another form of the same spec": {func(template *v1beta1.VirtualMachineTemplate, _ *v1beta1.VirtualMachineTemplateImport) {
			template.Spec.VirtualMachine.Raw = []byte(` {"spec": {"template": {}, "running": false}}`)
		}, ""},
		"a changed template": {func(template *v1beta1.VirtualMachineTemplate, _ *v1beta1.VirtualMachineTemplateImport) {
			template.Spec.Message = "x"
		}, "the template was changed after the import first created it"},
		"a changed virtual machine": {func(template *v1beta1.VirtualMachineTemplate, _ *v1beta1.VirtualMachineTemplateImport) {
			template.Spec.VirtualMachine.Raw = []byte(`{"spec":{"running":true,"template":{}}}`)
		}, "the template was changed after"},
		"a template that cannot be read": {func(template *v1beta1.VirtualMachineTemplate, _ *v1beta1.VirtualMachineTemplateImport) {
			template.Spec.VirtualMachine.Raw = []byte(`{`)
		}, "the template was changed after"},
		"a template without the label": {func(template *v1beta1.VirtualMachineTemplate, _ *v1beta1.VirtualMachineTemplateImport) {
			template.Labels = nil
		}, "no import created the template"},
		"a template without the annotation": {func(template *v1beta1.VirtualMachineTemplate, _ *v1beta1.VirtualMachineTemplateImport) {
			template.Annotations = nil
		}, "the template has lost the annotation template.virtward.io/import"},
		"another import of the name": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.UID = "later"
		}, "the import first is not the one that created the template"},
		"an import that works": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.Status.Conditions[0].Status = metav1.ConditionFalse
		}, "the import first is not completed"},
		"an import without a digest": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.Status.Source.TemplateDigest = ""
		}, "an earlier release made the import first"},
		"an import without a source": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.Status.Source = nil
		}, "an earlier release made the import first"},
		"a copy that was not verified": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.Status.Staging, of.Status.Source.Verified = &v1beta1.ImportStaged{}, false
		}, "the import first read a copy of the file, in a volume that users can write"},
		"a copy that was verified": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.Status.Staging = &v1beta1.ImportStaged{}
		}, ""},
		"another kind": {func(_ *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) {
			of.Spec.Source = v1beta1.ImportSource{Upload: &v1beta1.ImportUpload{}}
		}, "the import first has a source of an unknown kind"},
	} {
		template, of := imported(t)
		c.change(template, of)
		source, why := templates.SourceOf(template, of)
		if (source == nil) == (c.want == "") || !strings.HasPrefix(why, c.want) || c.want == "" && why != "" {
			t.Errorf("%s: got %+v, %q", name, source, why)
		}
	}
	if source, why := templates.SourceOf(template, nil); source != nil || why != "the import first does not exist any more" {
		t.Errorf("without the import: %+v, %q", source, why)
	}
}

// TestSourceText holds how sources are named, and that nothing of them is a secret.
func TestSourceText(t *testing.T) {
	for want, c := range map[string]struct {
		source v1beta1.ImportSource
		status v1beta1.ImportedSource
	}{
		"oci://r.example.com/db:1@sha256:2, signature verified: ann@example.com, not verified before the import": {
			v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://r.example.com/db:1"}}, v1beta1.ImportedSource{Digest: "sha256:2", Signer: "ann@example.com"},
		},
		"oci://r.example.com/db@sha256:2, verified before the import": {
			v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://r.example.com/db@sha256:2"}}, v1beta1.ImportedSource{Digest: "sha256:2", Verified: true},
		},
		"https://example.com:8443/a%2Fb/db%20x.ova, digest sha256:3, verified before the import": {
			v1beta1.ImportSource{HTTP: &v1beta1.ImportHTTP{URL: "https://u:p@example.com:8443/a%2Fb/db%20x.ova?X-Signature=s3cret#part"}}, v1beta1.ImportedSource{Digest: "sha256:3", Verified: true}, //nolint:gosec // an example
		},
		"https://example.com/db.ova, not verified before the import": {
			v1beta1.ImportSource{HTTP: &v1beta1.ImportHTTP{URL: "https://example.com/db.ova"}}, v1beta1.ImportedSource{},
		},
		"the claim upload, digest sha256:4, verified before the import": {
			v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "upload"}}, v1beta1.ImportedSource{Digest: "sha256:4", Verified: true},
		},
		"the claim upload/a/db.ova, not verified before the import": {
			v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "upload", Path: "a/db.ova"}}, v1beta1.ImportedSource{},
		},
	} {
		template, of := imported(t)
		c.status.TemplateDigest = of.Status.Source.TemplateDigest
		of.Spec.Source, of.Status.Source = c.source, &c.status
		source, why := templates.SourceOf(template, of)
		if source == nil {
			t.Fatalf("%s: %s", want, why)
		}
		if got := templates.SourceText(source); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
