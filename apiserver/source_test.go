package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// registry is a cluster with the import of a template.
type registry struct {
	backend

	of    *v1beta1.VirtualMachineTemplateImport
	since map[string]time.Time
	fails error
}

func (r *registry) Import(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplateImport, error) {
	switch {
	case r.fails != nil:
		return nil, r.fails
	case r.of == nil || r.of.Name != name || namespace != "a":
		return r.backend.Import(ctx, namespace, name)
	}
	return r.of, nil
}

func (r *registry) GuardedSince(_ context.Context, guard *admissionpolicies.Guard) (time.Time, error) {
	return r.since[guard.Name], nil
}

// TestSource holds that an approval names a source only where each guard of imports is older than the import.
func TestSource(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*v1beta1.VirtualMachineTemplate, *registry)
		why    string
		err    func(error) bool
	}{
		"guarded": {func(*v1beta1.VirtualMachineTemplate, *registry) {}, "", nil},
		"no import": {func(template *v1beta1.VirtualMachineTemplate, _ *registry) {
			template.Labels = nil
		}, "no import created the template", nil},
		"a changed template": {func(template *v1beta1.VirtualMachineTemplate, _ *registry) {
			template.Spec.Message = "x"
		}, "the template was changed after the import first created it", nil},
		"the import is gone": {func(_ *v1beta1.VirtualMachineTemplate, r *registry) { r.of = nil }, "the import first does not exist any more", nil},
		"no guard of statuses": {func(_ *v1beta1.VirtualMachineTemplate, r *registry) {
			delete(r.since, admissionpolicies.TemplateImportStatus)
		}, "users can write the statuses of imports: the ValidatingAdmissionPolicy virtward-template-import-status is not active", nil},
		"a younger guard of labels": {func(_ *v1beta1.VirtualMachineTemplate, r *registry) {
			r.since[admissionpolicies.TemplateImportLabels] = began.Add(time.Hour)
		}, "a user can have written the status of the import first: the ValidatingAdmissionPolicy virtward-template-import-labels is active since 2026-11-21T13:00:00Z", nil},
		"not permitted": {func(_ *v1beta1.VirtualMachineTemplate, r *registry) {
			r.fails = apierrors.NewForbidden(templateResource, "first", errors.New("no"))
		}, "Virtward's API server may not read imports: templates.imports.enabled of the chart is false", nil},
		"not answered": {func(_ *v1beta1.VirtualMachineTemplate, r *registry) { r.fails = errors.New("not today") }, "", apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "db", UID: "t", Labels: map[string]string{v1beta1.LabelImportUID: "i"}, Annotations: map[string]string{v1beta1.AnnotationImport: "first"},
			}}
			template.Spec.VirtualMachine = &kruntime.RawExtension{Raw: []byte(minimal)}
			digest, err := templates.SpecDigest(&template.Spec)
			must(t, err)
			of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "first", UID: "i", CreationTimestamp: metav1.NewTime(began)}}
			of.Spec.Source.HTTP = &v1beta1.ImportHTTP{URL: "https://example.com/db.ova"}
			of.Status.Conditions = []metav1.Condition{{Type: v1beta1.RequestCompleted, Status: metav1.ConditionTrue}}
			of.Status.Source = &v1beta1.ImportedSource{TemplateDigest: digest}
			r := &registry{of: of, since: map[string]time.Time{}}
			for _, guard := range admissionpolicies.ImportGuards() {
				r.since[guard.Name] = began
			}
			c.change(template, r)
			s := &storage{Services: &Services{Cluster: r, memory: newGates(defaultInFlight)}}
			source, why, err := s.source(t.Context(), template)
			if c.err == nil && err != nil || c.err != nil && !c.err(err) {
				t.Errorf("the error %v", err)
			}
			if (source != nil) != (c.why == "" && c.err == nil) || !strings.HasPrefix(why, c.why) || c.why == "" && why != "" {
				t.Errorf("got %+v, %q", source, why)
			}
			if err := s.memory.returned(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
