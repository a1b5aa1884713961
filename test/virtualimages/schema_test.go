// Package virtualimages has the end-to-end tests of VirtualImages: on a real API server, with simulated controllers of CDI,
// and with Glance where it is installed.
package virtualimages

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sample is that of the design document, and all has every field.
const (
	sample = `{src: "https://some-url.com", format: raw, containerFormat: bare, minDisk: 0, minRam: 0}`
	all    = `
src: https://example.com:8443/images/f.qcow2?version=41
format: qcow2
containerFormat: bare
minDisk: 10
minRam: 2048
imageClassName: glance
checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
secretRef: credentials
certConfigMap: authorities
storage: {resources: {requests: {storage: 10Gi}}, storageClassName: fast, accessModes: [ReadWriteMany], volumeMode: Block}
`
)

// TestSchema: what the definition accepts can be read, what it rejects names the field, and nothing can be changed.
func TestSchema(t *testing.T) {
	plane := pool.Take(t)
	must(t, plane.InstallVirtwardCRDs(t.Context()))

	object := func(t *testing.T, spec string) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{}}
		var fields map[string]any
		must(t, yaml.Unmarshal([]byte(spec), &fields))
		object.Object["spec"] = fields
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VirtualImage"))
		object.SetNamespace(metav1.NamespaceDefault)
		object.SetGenerateName("schema-")
		return object
	}
	strict := client.FieldValidation("Strict")
	for name, spec := range map[string]string{
		"design document": sample,
		"all":             all,
		"smallest":        `{src: "http://10.0.0.1/a", format: iso}`,
		"upload":          `{upload: {}, format: qcow2, storage: {resources: {requests: {storage: 10Gi}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, spec)
			must(t, plane.Client().Create(t.Context(), o, strict))
			must(t, plane.Client().Get(t.Context(), client.ObjectKeyFromObject(o), &v1alpha1.VirtualImage{}))
		})
	}
	for name, s := range map[string]struct{ spec, want string }{
		"no source":           {`{format: raw}`, "spec.src: Invalid value: set either src or upload"},
		"both sources":        {`{src: "https://example.com/a", upload: {}, format: raw}`, "set either src or upload"},
		"checksum of upload":  {`{upload: {}, format: raw, checksum: "sha256:` + strings.Repeat("0", 64) + `"}`, "only for src"},
		"secret of upload":    {`{upload: {}, format: raw, secretRef: a}`, "spec.upload: Invalid value: checksum, secretRef and certConfigMap are only for src"},
		"field of upload":     {`{upload: {file: a}, format: raw}`, `unknown field "spec.upload.file"`},
		"no format":           {`{src: "https://example.com/a"}`, "spec.format: Required value"},
		"not a URL":           {`{src: "fedora", format: raw}`, "must be a URL such as"},
		"file":                {`{src: "file:///etc/passwd", format: raw}`, "must be a URL such as"},
		"no host":             {`{src: "https:///a", format: raw}`, "must be a URL such as"},
		"credentials":         {`{src: "https://me:secret@example.com/a", format: raw}`, "must not contain credentials"},
		"unknown format":      {`{src: "https://example.com/a", format: img}`, "spec.format: Unsupported value"},
		"unknown container":   {`{src: "https://example.com/a", format: raw, containerFormat: docker}`, "spec.containerFormat: Unsupported value"},
		"negative disk":       {`{src: "https://example.com/a", format: raw, minDisk: -1}`, "spec.minDisk"},
		"fraction of memory":  {`{src: "https://example.com/a", format: raw, minRam: 1.5}`, "spec.minRam"},
		"unknown checksum":    {`{src: "https://example.com/a", format: raw, checksum: "crc:12"}`, "spec.checksum"},
		"size is no quantity": {`{src: "https://example.com/a", format: raw, storage: {resources: {requests: {storage: ten}}}}`, "spec.storage.resources.requests.storage"},
		"unknown field":       {`{src: "https://example.com/a", format: raw, source: a}`, `unknown field "spec.source"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := plane.Client().Create(t.Context(), object(t, s.spec), strict); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), s.want) {
				t.Errorf("error %v, want %s", err, s.want)
			}
		})
	}
	swapped := object(t, `{upload: {}, format: raw}`)
	must(t, plane.Client().Create(t.Context(), swapped, strict))
	unstructured.RemoveNestedField(swapped.Object, "spec", "upload")
	must(t, unstructured.SetNestedField(swapped.Object, "https://example.com/a", "spec", "src"))
	if err := plane.Client().Update(t.Context(), swapped); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.upload: Invalid value: cannot be changed: create another VirtualImage") {
		t.Errorf("upload replaced by src: %v", err)
	}
	others := map[string]any{
		"src": "https://example.com/b", "format": "raw", "containerFormat": "ovf", "minDisk": int64(11), "minRam": int64(1), "imageClassName": "cluster",
		"checksum": "sha256:" + strings.Repeat("0", 64), "secretRef": "other", "certConfigMap": "other", "storage": map[string]any{"storageClassName": "slow"},
	}
	written := object(t, all)
	must(t, plane.Client().Create(t.Context(), written, strict))
	small := object(t, `{src: "http://10.0.0.1/a", format: iso}`)
	must(t, plane.Client().Create(t.Context(), small, strict))
	for field, value := range others {
		t.Run("change of "+field, func(t *testing.T) {
			for what, to := range map[string]struct {
				object *unstructured.Unstructured
				value  any
			}{"changed": {written, value}, "removed": {written, nil}, "added": {small, value}} {
				if what == "removed" && (field == "src" || field == "format") || what == "removed" && field == "containerFormat" {
					continue // required, or has the default again
				}
				changed := to.object.DeepCopy()
				unstructured.RemoveNestedField(changed.Object, "spec", field)
				if to.value != nil {
					must(t, unstructured.SetNestedField(changed.Object, to.value, "spec", field))
				}
				err := plane.Client().Update(t.Context(), changed)
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+field) || !strings.Contains(err.Error(), "cannot be changed: create another VirtualImage") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
