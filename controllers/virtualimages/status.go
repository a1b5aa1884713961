package virtualimages

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/virtualimages"
)

// progress is the status of an image: its identifier, its attempt and the times of its conditions decide what comes next.
type progress = statuses.Memory[*v1alpha1.VirtualImage, v1alpha1.VirtualImageStatus]

// remembers writes the status before the action of a plan, and notes whether the image is being imported.
func (r *Reconciler) remembers(ctx context.Context, in *virtualimages.Input, plan *virtualimages.Result) error {
	image, before := in.Image, in.Image.Status
	r.note(image, &plan.Status)
	r.ledger.note(in.Class, image, &plan.Status)
	written, err := r.progress.Write(ctx, image, &plan.Status, transition)
	if err != nil {
		return fmt.Errorf("VirtualImage %s/%s: %w", image.Namespace, image.Name, err)
	}
	if !written {
		return nil
	}
	if image.Status.SizeBytes > 0 && before.SizeBytes == 0 {
		r.counted(image)
	}
	r.ledger.transition(in, &before)
	return nil
}

// Events are the reasons of the events on images.
var Events = events.Table{
	events.Normal(virtualimages.ReasonImporting, "the import begins"),
	events.Normal(virtualimages.ReasonImported, "the image is imported"),
	events.Warning(virtualimages.ReasonRetrying, "an attempt failed, and another one follows"),
	events.Warning(virtualimages.ReasonImportFailed, "the last attempt failed, or no attempt can succeed"),
	events.Warning(virtualimages.ReasonNameTaken, "an object with the name exists, and does not belong to the image"),
	events.Normal(virtualimages.ReasonUploadPending, "the backend waits for the file"),
	events.Warning(virtualimages.ReasonUploadExpired, "the file was not uploaded in time"),
	events.Warning(reasonNoClass, "no class has the name"),
	events.Warning(ReasonLimit, "a limit of the namespace does not permit the import"),
	events.Warning(virtualimages.ReasonRemoved, "the image was deleted in its backend"),
	events.Warning(virtualimages.ReasonDeactivated, "the backend does not serve the image"),
	events.Normal(virtualimages.ReasonInUse, "the deletion waits for users of the image"),
	events.Warning(virtualimages.ReasonBlocked, "the backend does not delete the image"),
	events.Warning(virtualimages.ReasonUsersUnknown, "the deletion waits until the users in the cloud can be read"),
}

// told are the reasons of each condition that an event reports.
var told = map[string][]string{
	v1alpha1.ConditionImported: {
		virtualimages.ReasonImporting, virtualimages.ReasonImported, virtualimages.ReasonRetrying, virtualimages.ReasonImportFailed,
		virtualimages.ReasonNameTaken, virtualimages.ReasonUploadPending, virtualimages.ReasonUploadExpired, reasonNoClass, ReasonLimit,
	},
	v1alpha1.ConditionReady:    {virtualimages.ReasonRemoved, virtualimages.ReasonDeactivated},
	v1alpha1.ConditionDeleting: {virtualimages.ReasonInUse, virtualimages.ReasonBlocked, virtualimages.ReasonUsersUnknown},
}

// transition returns an event for each condition with a new reason.
func transition(before, after *v1alpha1.VirtualImageStatus) (all []events.Event) {
	for _, c := range after.Conditions {
		was := meta.FindStatusCondition(before.Conditions, c.Type)
		if slices.Contains(told[c.Type], c.Reason) && (was == nil || was.Reason != c.Reason) {
			all = append(all, Events.Event(c.Reason, c.Message))
		}
	}
	return all
}
