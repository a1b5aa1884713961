package templateapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// TestSources holds that an approval names the source of an imported template only where Virtward wrote it, and that the source is
// signed. The account of the controller of imports writes what the controller writes.
func TestSources(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{"imports": map[string]any{"enabled": true}})
	f.namespaces("catalogue")
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}, Annotations: map[string]string{v1beta1.TrustedNamespacesAnnotation: "catalogue"},
	}})
	i := importsOf(f)
	t.Run("approved with its source", i.approved)
	t.Run("changed after the import", i.changed)
	t.Run("forged by users", i.forged)
	t.Run("edited in the approval", i.edited)
	t.Run("without the guard", i.unguarded) // last: no import is trusted afterwards
}

// importing has the account of the controller of imports.
type importing struct {
	*fixture

	account client.Client
}

// importsOf waits until imports are trusted.
func importsOf(f *fixture) *importing {
	f.t.Helper()
	f.afterGuards()
	config, err := f.ServiceAccountConfig(f.t.Context(), controlplane.VirtwardNamespace, controlplane.VirtwardImports)
	f.must(err)
	account, err := client.New(config, client.Options{Scheme: f.templates().Scheme()})
	f.must(err)
	return &importing{fixture: f, account: account}
}

// afterGuards waits until new imports are younger than their guards.
func (f *fixture) afterGuards() {
	f.t.Helper()
	await.Until(f.t, func() error {
		for _, guard := range admissionpolicies.ImportGuards() {
			policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			f.must(f.Client().Get(f.t.Context(), client.ObjectKey{Name: guard.Name}, policy))
			f.must(f.Client().Get(f.t.Context(), client.ObjectKey{Name: guard.Name}, binding))
			if since := guard.ActiveSince(policy, binding); since.IsZero() || time.Now().Before(since.Add(time.Second)) {
				return fmt.Errorf("%s is active since %s", guard.Name, since)
			}
		}
		return nil
	})
}

// create creates an import as an admin.
func (i *importing) create(namespace, name string) *v1beta1.VirtualMachineTemplateImport {
	i.t.Helper()
	of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	of.Spec.Source.OCI = &v1beta1.ImportOCI{Reference: "oci://registry.example.com/" + name + ":1"}
	i.must(i.templates().Create(i.t.Context(), of))
	return of
}

// templateOf is what the controller creates for an import.
func templateOf(of *v1beta1.VirtualMachineTemplateImport, spec string) (*v1beta1.VirtualMachineTemplate, error) {
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name, Labels: map[string]string{v1beta1.LabelImportUID: string(of.UID)}, Annotations: map[string]string{v1beta1.AnnotationImport: of.Name},
	}}
	return template, yaml.UnmarshalStrict([]byte(spec), &template.Spec)
}

// statusOf is the status of a completed import of a spec.
func statusOf(of *v1beta1.VirtualMachineTemplateImport, spec *v1beta1.VirtualMachineTemplateSpec) (v1beta1.VirtualMachineTemplateImportStatus, error) {
	digest, err := templates.SpecDigest(spec)
	return v1beta1.VirtualMachineTemplateImportStatus{
		Conditions: []metav1.Condition{{Type: v1beta1.RequestCompleted, Status: metav1.ConditionTrue, Reason: "Reconciled", LastTransitionTime: metav1.Now()}},
		Source: &v1beta1.ImportedSource{
			Digest: "sha256:" + strings.Repeat("2", 64), Signer: "key 1 of registry.example.com", Plan: "p", Verified: true, TemplateDigest: digest,
		},
		TemplateRef: &v1beta1.TemplateReference{Name: of.Name},
	}, err
}

// plain is the spec of a template without a parameter of type object.
const plain = `
virtualMachine:
  metadata: {name: "${NAME}"}
  spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}
parameters: [{name: NAME, required: true}]
`

// complete creates an import, and its template as the controller does.
func (i *importing) complete(namespace, name, spec string) {
	i.t.Helper()
	of := i.create(namespace, name)
	template, err := templateOf(of, spec)
	i.must(err)
	of.Status, err = statusOf(of, &template.Spec)
	i.must(err)
	i.must(i.account.Status().Update(i.t.Context(), of))
	i.must(i.account.Create(i.t.Context(), template))
}

func (i *importing) approved(t *testing.T) {
	i.t = t
	i.complete("catalogue", "shop", reviewed)
	i.make("catalogue", "handmade", reviewed)
	want := &v1beta1.TemplateSource{
		Kind: v1beta1.SourceOCI, Reference: "oci://registry.example.com/shop:1", Digest: "sha256:" + strings.Repeat("2", 64), Verified: true,
		Signer: "key 1 of registry.example.com", Import: "shop",
	}
	shown, err := i.review(i.Config(), "catalogue", "shop", subresources.Approve, subresources.ApproveOptions{}, true)
	i.must(err)
	if diff := cmp.Diff(want, shown.Source); diff != "" || shown.SourceReason != "" {
		t.Errorf("the review: %s (-want +got):\n%s", shown.SourceReason, diff)
	}
	i.user("approver", []rbacv1.PolicyRule{rule("create", subresources.Group, "virtualmachinetemplates/approve")}, "catalogue")
	approver, err := i.UserConfig("approver")
	i.must(err)
	answer := i.approve(approver, "catalogue", "shop", "SELECTOR") // the approver may not read imports
	stored := i.read("catalogue", "shop").Status.Approval
	if diff := cmp.Diff(want, stored.Source); diff != "" || !strings.HasPrefix(stored.Signature, "v2.") || stored.ApprovedBy != "approver" || answer.Approval.Source == nil {
		t.Errorf("stored %+v (-want +got):\n%s", stored, diff)
	}
	i.awaitEvent("catalogue", "shop", "Approved", "approver approved the digest "+shown.Digest+" from oci://registry.example.com/shop:1@sha256:2222")
	i.admitted("shop", "of-an-import")
	answer = i.approve(i.Config(), "catalogue", "handmade", "SELECTOR")
	if stored := i.read("catalogue", "handmade").Status.Approval; stored.Source != nil || !strings.HasPrefix(stored.Signature, "v1.") || answer.SourceReason != "no import created the template" {
		t.Errorf("stored %+v, answered %+v", stored, answer)
	}
	i.admitted("handmade", "of-no-import")
	of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "shop"}}
	i.must(i.templates().Delete(t.Context(), of)) // the approval keeps what it names
	i.admitted("shop", "after-the-import")
	i.noSource("shop", "the import shop does not exist any more")
	i.create("catalogue", "shop")
	i.noSource("shop", "the import shop is not the one that created the template")
}

// noSource expects that a review has no source, and why.
func (i *importing) noSource(name, why string) {
	i.t.Helper()
	shown, err := i.review(i.Config(), "catalogue", name, subresources.Approve, subresources.ApproveOptions{}, true)
	i.must(err)
	if shown.Source != nil || !strings.HasPrefix(shown.SourceReason, why) {
		i.t.Errorf("%s: got %+v, %q; want %s", name, shown.Source, shown.SourceReason, why)
	}
}

func (i *importing) changed(t *testing.T) {
	i.t = t
	i.complete("catalogue", "changed", reviewed)
	i.approve(i.Config(), "catalogue", "changed", "SELECTOR")
	template := i.read("catalogue", "changed")
	template.Spec.Message = "changed"
	i.must(i.templates().Update(t.Context(), template))
	i.noSource("changed", "the template was changed after the import changed created it")
	i.approve(i.Config(), "catalogue", "changed", "SELECTOR")
	if stored := i.read("catalogue", "changed").Status.Approval; stored.Source != nil || !strings.HasPrefix(stored.Signature, "v1.") {
		t.Errorf("stored %+v", stored)
	}
	i.admitted("changed", "changed")
}

// forged: a user with every right on templates and imports, and an admin of the cluster, cannot write the status of an import, so they
// cannot name the source of their own template. An author without rights on statuses cannot set the label either.
func (i *importing) forged(t *testing.T) {
	i.t = t
	everything := i.user("mallory", []rbacv1.PolicyRule{rule("*", "template.kubevirt.io", "*"), rule("*", "cdi.kubevirt.io", "*")}, "catalogue")
	author := i.user("author", []rbacv1.PolicyRule{rule("*", "template.kubevirt.io", "virtualmachinetemplates,virtualmachinetemplateimports"), rule("*", "cdi.kubevirt.io", "*")}, "catalogue")
	of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "forged"}}
	of.Spec.Source.OCI = &v1beta1.ImportOCI{Reference: "oci://registry.example.com/trusted:1"}
	mallory, err := client.New(everything, client.Options{Scheme: i.templates().Scheme()})
	i.must(err)
	other, err := client.New(author, client.Options{Scheme: i.templates().Scheme()})
	i.must(err)
	i.must(mallory.Create(t.Context(), of))
	template, err := templateOf(of, reviewed)
	i.must(err)
	if err := other.Create(t.Context(), template.DeepCopy()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only Virtward sets this label") {
		t.Errorf("the label: %v", err)
	}
	i.must(mallory.Create(t.Context(), template))
	of.Status, err = statusOf(of, &template.Spec)
	i.must(err)
	for name, c := range map[string]client.Client{"mallory": mallory, "an admin": i.templates()} {
		err := c.Status().Update(t.Context(), of.DeepCopy())
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only Virtward's controller writes the statuses of imports") {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.noSource("forged", "the import forged is not completed")
	i.complete("catalogue", "genuine", reviewed)
	unlabelled := i.read("catalogue", "genuine")
	unlabelled.ObjectMeta = metav1.ObjectMeta{Namespace: "catalogue", Name: "copy", Annotations: unlabelled.Annotations}
	i.must(other.Create(t.Context(), unlabelled))
	i.noSource("copy", "no import created the template")
}

// edited: a source that is changed, removed or added ends the approval.
func (i *importing) edited(t *testing.T) {
	i.t = t
	i.complete("catalogue", "edited", reviewed)
	i.approve(i.Config(), "catalogue", "edited", "SELECTOR")
	signed := i.read("catalogue", "edited").Status
	for name, change := range map[string]func(*v1beta1.TemplateApproval){
		"another digest": func(a *v1beta1.TemplateApproval) { a.Source.Digest = "sha256:" + strings.Repeat("3", 64) },
		"another signer": func(a *v1beta1.TemplateApproval) { a.Source.Signer = "" },
		"none":           func(a *v1beta1.TemplateApproval) { a.Source = nil },
		"none, in the earlier version": func(a *v1beta1.TemplateApproval) {
			a.Source, a.Signature = nil, strings.Replace(a.Signature, "v2.", "v1.", 1)
		},
	} {
		status := signed.DeepCopy()
		change(status.Approval)
		i.force("edited", *status)
		t.Log(name)
		i.denied("edited", v1beta1.ReasonSignatureInvalid, invalid)
	}
	i.force("edited", signed)
	i.admitted("edited", "edited")
	earlier := i.read("catalogue", "handmade").Status
	added := earlier.DeepCopy()
	added.Approval.Source = signed.Approval.Source
	i.force("handmade", *added)
	i.denied("handmade", v1beta1.ReasonSignatureInvalid, invalid)
	i.force("handmade", earlier)
	i.admitted("handmade", "handmade-again")
}

// unguarded: while the guard of the statuses is missing, a user can write them, so no approval names a source.
func (i *importing) unguarded(t *testing.T) {
	i.t = t
	i.complete("catalogue", "late", reviewed)
	i.must(i.Client().Delete(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: admissionpolicies.TemplateImportStatus}}))
	i.noSource("late", "users can write the statuses of imports: the ValidatingAdmissionPolicy virtward-template-import-status is not active")
}
