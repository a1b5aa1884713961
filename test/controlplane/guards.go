package controlplane

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
)

// guardsOf are the guards of the objects for whose authors a Deployment acts.
func guardsOf(deployment string) []admissionpolicies.Guard {
	return map[string][]admissionpolicies.Guard{
		VirtwardTemplates: admissionpolicies.CaptureGuards(), VirtwardRollouts: admissionpolicies.RolloutGuards(), VirtwardImages: admissionpolicies.CatalogGuards(),
		VirtwardVirtualImages: admissionpolicies.VirtualImageGuards(), VirtwardImports: admissionpolicies.ImportGuards(),
		VirtwardExports: append(admissionpolicies.ExportGuards(), admissionpolicies.ExportCloneGuards()...),
	}[deployment]
}

// awaitGuards waits until new objects are trusted by the process of a Deployment: those that are younger than their guards. It
// does not wait for guards that are not installed.
func (c *ControlPlane) awaitGuards(ctx context.Context, deployment string) error {
	for _, guard := range guardsOf(deployment) {
		policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		for _, object := range []client.Object{policy, binding} {
			if err := c.client.Get(ctx, client.ObjectKey{Name: guard.Name}, object); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading the guard %s: %w", guard.Name, err)
			}
		}
		since := guard.ActiveSince(policy, binding)
		if since.IsZero() {
			continue
		}
		select {
		case <-time.After(time.Until(since.Add(time.Second))): // creations have whole seconds
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
