package virtualimages

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

// drainedSince is when the wait for requests that were admitted before began.
func drainedSince(image *v1alpha1.VirtualImage) metav1.Time {
	if c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionDeleting); c != nil {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

// lastLook is the time from which the users are read before an image is deleted: requests that were admitted before are complete.
func (r *Reconciler) lastLook(image *v1alpha1.VirtualImage) time.Time {
	since := drainedSince(image).Time
	if c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionDeleting); c != nil && c.Reason == virtualimages.ReasonDraining {
		return since.Add(r.Settings.Admission)
	}
	return since
}

// look reads all users before an image is deleted. It returns the time until it is repeated; 0 if they are read.
func (r *Reconciler) look(ctx context.Context, in *virtualimages.Input, store backend.Backend) time.Duration {
	if in.CloudCounts && in.Imported() {
		var fresh bool
		if in.Cloud, fresh = r.cloudUsers(ctx, in, store, r.lastLook(in.Image), true); !fresh {
			return deletionInterval // the image is requested before
		}
	}
	if in.Live = r.census.users(ctx, in.Image, drainedSince(in.Image)); in.Live == nil { // it is returned once
		return again
	}
	return 0
}
