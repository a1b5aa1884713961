package templateapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/apiserver"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// TestSignatures holds that no approval counts that a user writes while the guard of statuses is missing: as in observe mode
// of an earlier release, while Virtward is switched off by hand, or while it is not installed.
func TestSignatures(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{})
	f.namespaces("catalogue")
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}, Annotations: map[string]string{v1beta1.TrustedNamespacesAnnotation: "catalogue"},
	}})
	t.Run("written by a user", f.forged)
	t.Run("copied from another template", f.copied)
	t.Run("revoked and written again", f.replayed)
	t.Run("replaced and written again", f.superseded)
	t.Run("on a template that is not used", f.unused)
	t.Run("after a rotation of the key", f.rotated)
	t.Run("after the keys are replaced", f.replaced)
	t.Run("without the Secret", f.withoutKeys)
}

// force writes the status of a template without the guard.
func (f *fixture) force(name string, status v1beta1.VirtualMachineTemplateStatus) {
	f.t.Helper()
	f.unguarded(func() error {
		template := f.read("catalogue", name)
		template.Status = *status.DeepCopy()
		return f.templates().Status().Update(f.t.Context(), template)
	})
}

// denied expects that no VirtualMachine is created, why, and that the condition says so.
func (f *fixture) denied(name, reason, why string) {
	f.t.Helper()
	err := f.into(f.Config(), "catalogue/"+name, "strict", map[string]string{"NAME": name})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) || f.machine("strict", name) != nil {
		f.t.Errorf("%s: got %v, want %s", name, err, why)
	}
	c := meta.FindStatusCondition(f.read("catalogue", name).Status.Conditions, v1beta1.TemplateApproved)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, why) || !strings.Contains(c.Message, "kubectl virtward template approve "+name+" -n catalogue") {
		f.t.Errorf("%s: the condition is %+v", name, c)
	}
}

func (f *fixture) admitted(name, vm string) {
	f.t.Helper()
	if err := f.into(f.Config(), "catalogue/"+name, "strict", map[string]string{"NAME": vm}); err != nil {
		f.t.Errorf("%s: %v", vm, err)
	}
}

// forgery is the status that an approved template has, without a signature.
func (f *fixture) forgery(name string) v1beta1.VirtualMachineTemplateStatus {
	f.t.Helper()
	digest, err := templates.Digest(f.read("catalogue", name))
	f.must(err)
	return v1beta1.VirtualMachineTemplateStatus{
		Approval:   &v1beta1.TemplateApproval{Digest: digest, ApprovedBy: "alice", ApprovedAt: metav1.Now()},
		Conditions: []metav1.Condition{{Type: v1beta1.TemplateApproved, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonApproved, LastTransitionTime: metav1.Now()}},
	}
}

const (
	unsigned = "it has no signature of Virtward"
	invalid  = "its signature is not valid for this template and this approval"
	ended    = "it was revoked or replaced before"
)

func (f *fixture) forged(t *testing.T) {
	f.t = t
	f.make("catalogue", "forged", reviewed)
	f.force("forged", f.forgery("forged"))
	f.denied("forged", v1beta1.ReasonNotSigned, unsigned)
	shown, err := f.review(f.Config(), "catalogue", "forged", subresources.Approve, subresources.ApproveOptions{}, true)
	if err != nil || shown.Approved || shown.Approval == nil || !strings.Contains(shown.Reason, unsigned) {
		t.Errorf("the review is %+v, %v", shown, err)
	}
	for _, signature := range []string{"x", "v1.0.", "v1.1." + strings.Repeat("A", 43)} {
		status := f.forgery("forged")
		status.Approval.Signature = signature
		f.force("forged", status)
		f.denied("forged", v1beta1.ReasonSignatureInvalid, invalid)
	}
	f.approve(f.Config(), "catalogue", "forged", "SELECTOR")
	f.admitted("forged", "approved-again")
}

func (f *fixture) copied(t *testing.T) {
	f.t = t
	f.make("catalogue", "original", reviewed)
	f.make("catalogue", "copy", reviewed)
	f.approve(f.Config(), "catalogue", "original", "SELECTOR")
	status := f.read("catalogue", "original").Status
	f.force("copy", status)
	f.denied("copy", v1beta1.ReasonSignatureInvalid, invalid)
	status.Approval.Digest = f.forgery("copy").Approval.Digest
	f.force("copy", status)
	f.denied("copy", v1beta1.ReasonSignatureInvalid, invalid)
	f.admitted("original", "original")
}

func (f *fixture) replayed(t *testing.T) {
	f.t = t
	f.make("catalogue", "replayed", reviewed)
	f.approve(f.Config(), "catalogue", "replayed", "SELECTOR")
	status := f.read("catalogue", "replayed").Status
	_, err := f.review(f.Config(), "catalogue", "replayed", subresources.Revoke, subresources.RevokeOptions{}, false)
	f.must(err)
	f.force("replayed", status)
	f.denied("replayed", v1beta1.ReasonEnded, ended)
}

func (f *fixture) superseded(t *testing.T) {
	f.t = t
	f.make("catalogue", "superseded", reviewed)
	f.approve(f.Config(), "catalogue", "superseded", "SELECTOR")
	first := f.read("catalogue", "superseded")
	edited := first.DeepCopy()
	edited.Spec.Message = "a newer image"
	f.must(f.templates().Update(t.Context(), edited))
	f.approve(f.Config(), "catalogue", "superseded", "SELECTOR")
	edited = f.read("catalogue", "superseded")
	edited.Spec = first.Spec
	f.must(f.templates().Update(t.Context(), edited))
	f.force("superseded", first.Status)
	f.denied("superseded", v1beta1.ReasonEnded, ended)
}

// unused holds that the conditions of templates that no user uses are corrected, also those of an earlier release.
func (f *fixture) unused(t *testing.T) {
	f.t = t
	f.make("catalogue", "unused", reviewed)
	f.force("unused", f.forgery("unused"))
	f.restart()
	await.Until(t, func() error {
		c := meta.FindStatusCondition(f.read("catalogue", "unused").Status.Conditions, v1beta1.TemplateApproved)
		if c == nil || c.Reason != v1beta1.ReasonNotSigned || !strings.Contains(c.Message, "kubectl virtward template approve unused -n catalogue") {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// restart restarts the server, which checks all approvals when it starts.
func (f *fixture) restart() {
	f.t.Helper()
	server := f.VirtwardAPIServerProcess()
	f.must(server.Stop())
	f.must(server.Start(f.t.Context()))
	await.Until(f.t, func() error {
		if _, err := f.post(f.Config(), "default", "none", subresources.Process, nil, ""); !apierrors.IsNotFound(err) {
			return fmt.Errorf("not served yet: %w", err)
		}
		return nil
	})
}

func (f *fixture) keys() *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.must(f.Client().Get(f.t.Context(), client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: apiserver.ApprovalKeys}, secret))
	return secret
}

// change changes the Secret as docs/template-api.md says.
func (f *fixture) change(patch map[string]any) {
	f.t.Helper()
	body, err := json.Marshal(patch)
	f.must(err)
	f.must(f.Client().Patch(f.t.Context(), f.keys(), client.RawPatch(types.MergePatchType, body)))
}

// rotated holds that approvals stay valid, and that all are signed again with the new key.
func (f *fixture) rotated(t *testing.T) {
	f.t = t
	f.make("catalogue", "rotated", reviewed)
	f.approve(f.Config(), "catalogue", "rotated", "SELECTOR")
	before := f.read("catalogue", "rotated").Status.Approval
	f.change(map[string]any{"metadata": map[string]any{"annotations": map[string]any{apiserver.RotateAnnotation: "true"}}})
	f.admitted("rotated", "still-valid")
	if keys := f.keys(); keys.Annotations[apiserver.RotateAnnotation] != "" || len(keys.Data["key.1"]) == 0 || len(keys.Data["key.2"]) == 0 {
		t.Errorf("annotations %v, %d data", keys.Annotations, len(keys.Data))
	}
	f.restart()
	await.Until(t, func() error {
		after := f.read("catalogue", "rotated").Status.Approval
		if after == nil || after.Signature == before.Signature || after.ApprovedBy != before.ApprovedBy || !after.ApprovedAt.Equal(&before.ApprovedAt) {
			return fmt.Errorf("the approval is %+v", after)
		}
		return nil
	})
	f.admitted("rotated", "signed-again")
}

// replaced holds that a stolen key ends all approvals when it is removed.
func (f *fixture) replaced(t *testing.T) {
	f.t = t
	f.change(map[string]any{"data": nil})
	f.denied("rotated", v1beta1.ReasonSignatureInvalid, invalid)
	f.approve(f.Config(), "catalogue", "rotated", "SELECTOR")
	f.admitted("rotated", "another-key")
}

// withoutKeys holds that the API fails closed, and that templates work where no approval is required.
func (f *fixture) withoutKeys(t *testing.T) {
	f.t = t
	f.must(f.Client().Delete(t.Context(), f.keys()))
	const want = "the Secret virtward-approval-keys is missing, and helm upgrade creates it"
	if err := f.into(f.Config(), "catalogue/rotated", "strict", map[string]string{"NAME": "keyless"}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), want) || f.machine("strict", "keyless") != nil {
		t.Errorf("created: %v", err)
	}
	if _, err := f.review(f.Config(), "catalogue", "rotated", subresources.Approve, subresources.ApproveOptions{}, true); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("reviewed: %v", err)
	}
	if err := f.into(f.Config(), "catalogue/rotated", "catalogue", map[string]string{"NAME": "free"}); err != nil {
		t.Errorf("where no approval is required: %v", err)
	}
}
