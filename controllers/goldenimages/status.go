package goldenimages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
)

// Conditions of a catalog, and their reasons.
const (
	conditionReady   = "Ready"
	conditionManaged = "Managed"

	reasonImported         = "Imported"
	reasonPending          = "Pending"
	reasonNotDeployed      = "NotDeployed"
	reasonCDIMissing       = "CDIMissing"
	reasonTooLarge         = "TooLarge"
	reasonNamespaceMissing = "NamespaceMissing"
	reasonWriteFailed      = "WriteFailed"
	reasonNotObserved      = "NotObserved"
	reasonManaged          = "Managed"
)

// notGuardedError says why a catalog is not trusted.
type notGuardedError string

// Error implements error.
func (e notGuardedError) Error() string { return string(e) }

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// progress has the part of the status that later plans read: nodes, absent architectures, images with their default architectures and
// manifests, and retired imports. report has the generation and the conditions.
type (
	progress = statuses.Memory[*v1alpha1.GoldenImageCatalog, v1alpha1.GoldenImageCatalogStatus]
	report   = statuses.Report[*v1alpha1.GoldenImageCatalog, v1alpha1.GoldenImageCatalogStatus]
)

func statusOf(catalog *v1alpha1.GoldenImageCatalog) *v1alpha1.GoldenImageCatalogStatus {
	return &catalog.Status
}

// reported is the part of the report.
func reported(s *v1alpha1.GoldenImageCatalogStatus) *v1alpha1.GoldenImageCatalogStatus {
	return &v1alpha1.GoldenImageCatalogStatus{ObservedGeneration: s.ObservedGeneration, Conditions: slices.Clone(s.Conditions)}
}

// remembers writes what later plans read, before the objects are written. The error is Stale if the catalog changed after it was
// read.
func (r *Reconciler) remembers(ctx context.Context, in *goldenimages.Input, images []v1alpha1.Image, retired []v1alpha1.RetiredImport) error {
	next := in.Catalog.Status
	next.Nodes, next.Absent, next.Images, next.Retired = in.Nodes, in.Absent, images, retired
	if _, err := r.progress.Write(ctx, in.Catalog, &next, imagesTransition); err != nil {
		return fmt.Errorf("GoldenImageCatalog %s: %w", in.Catalog.Name, err)
	}
	return nil
}

// reports writes the conditions, after the objects are written or after that failed. observed is the generation that was observed
// last.
func (r *Reconciler) reports(ctx context.Context, in *goldenimages.Input, observed int64, next []metav1.Condition) error {
	part := reported(&in.Catalog.Status)
	part.ObservedGeneration = observed
	for _, c := range next {
		c.Message = texts.Shorten(c.Message, maxMessage)
		conditions.Set(&part.Conditions, c, in.Catalog.Generation, in.Now)
	}
	shown := in.Catalog.Status
	shown.Conditions = part.Conditions
	r.ledger.note(in, &shown)
	if _, err := r.report.Write(ctx, in.Catalog, part, transition); err != nil {
		return fmt.Errorf("GoldenImageCatalog %s: %w", in.Catalog.Name, err)
	}
	return nil
}

// planned are the conditions after a plan, and after its writes.
func planned(in *goldenimages.Input, images []v1alpha1.Image, written error) []metav1.Condition {
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionFalse}
	switch ready.Reason, ready.Message = pendingOf(images); {
	case apierrors.IsNotFound(written):
		ready.Reason, ready.Message = reasonNamespaceMissing, fmt.Sprintf("the namespace %q does not exist: create it", in.Catalog.Spec.Namespace)
	case statuses.Rejected(written):
		ready.Reason, ready.Message = reasonWriteFailed, written.Error()
	case written != nil:
		ready.Reason, ready.Message = reasonWriteFailed, statuses.Failure("an object could not be written", written)
	case ready.Reason == "":
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, reasonImported, "all images are imported"
	}
	return []metav1.Condition{managed(in), ready}
}

// unwritten are the conditions after a plan that could not be remembered.
func unwritten(in *goldenimages.Input, err error) []metav1.Condition {
	return []metav1.Condition{managed(in), {
		Type: conditionReady, Status: metav1.ConditionFalse, Reason: reasonWriteFailed, Message: statuses.Failure("the status could not be written, so nothing was done", err),
	}}
}

// unplanned are the conditions without a plan. waits is false if the observation failed: then all of it is repeated.
func unplanned(in *goldenimages.Input, err error) (next []metav1.Condition, waits bool) {
	var reason string
	switch {
	case errors.Is(err, errNoCDI):
		reason = reasonCDIMissing
	case errors.Is(err, errTooLarge):
		reason = reasonTooLarge
	case errors.As(err, new(notGuardedError)):
		reason = guarded.Reason
	default:
		return []metav1.Condition{statuses.Unobserved(in.Catalog.Status.Conditions, conditionReady, reasonNotObserved, in.Catalog.Generation, statuses.Failure("the objects of the catalog could not be read", err))}, false
	}
	return []metav1.Condition{managed(in), {Type: conditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: err.Error()}}, true
}

// managed says who manages the images.
func managed(in *goldenimages.Input) metav1.Condition {
	if in.SSP == "" {
		return metav1.Condition{Type: conditionManaged, Status: metav1.ConditionTrue, Reason: reasonManaged, Message: "Virtward manages the images"}
	}
	return metav1.Condition{
		Type: conditionManaged, Status: metav1.ConditionFalse, Reason: goldenimages.ReasonManagedBySSP,
		Message: fmt.Sprintf("the SSP resource %q manages golden images: the catalog only observes", in.SSP),
	}
}

// pendingOf is the first image that is not deployed, or the first import that is not done; empty if there is none. An image
// that is disabled, or that no node has an architecture of, has no imports.
func pendingOf(list []v1alpha1.Image) (reason, message string) {
	waits := ""
	for i := range list {
		c := meta.FindStatusCondition(list[i].Conditions, goldenimages.Deployed)
		if c != nil && c.Status != metav1.ConditionTrue && c.Reason != goldenimages.ReasonDisabled && c.Reason != goldenimages.ReasonUnsupported {
			if c.Reason == goldenimages.ReasonManifestPending {
				waits = fmt.Sprintf("%s: %s", list[i].Name, c.Message)
				continue
			}
			return reasonNotDeployed, fmt.Sprintf("%s: %s", list[i].Name, c.Message)
		}
	}
	for i := range list {
		for k := range list[i].Imports {
			of := &list[i].Imports[k]
			if c := meta.FindStatusCondition(of.Conditions, goldenimages.Imported); c != nil && c.Status != metav1.ConditionTrue {
				return reasonPending, fmt.Sprintf("DataSource %s: %s", of.DataSource, c.Message)
			}
		}
	}
	if waits != "" {
		return reasonPending, waits
	}
	return "", ""
}

// Events are the reasons of the events on catalogs.
var Events = events.Table{
	events.Warning(reasonCDIMissing, "the cluster has no CDI"),
	events.Warning(reasonTooLarge, "the objects of the catalog are too large to be read"),
	events.Warning(reasonNamespaceMissing, "the namespace of the catalog does not exist"),
	events.Warning(reasonWriteFailed, "an object, or the status of the catalog, could not be written"),
	events.Warning(goldenimages.ReasonManagedBySSP, "SSP manages golden images, and the catalog only observes"),
	events.Warning(goldenimages.ReasonInvalid, "an entry is invalid"),
	events.Warning(goldenimages.ReasonDuplicate, "an entry has the name of another one"),
	events.Warning(goldenimages.ReasonNameTaken, "an object with the name exists, and does not belong to the catalog"),
	events.Warning(goldenimages.ReasonChained, "a pointer leads to another pointer, which CDI does not follow"),
	events.Warning(goldenimages.ReasonUnsupported, "no node has an architecture of the image"),
	events.Warning(goldenimages.ReasonRetentionNone, "a DataImportCron cannot be replaced without deleting its images"),
	events.Warning(goldenimages.ReasonMissing, "an entry lists architectures that its image does not have"),
	events.Warning(goldenimages.ReasonNotListed, "an image has architectures that its entry does not list"),
	events.Warning("ImagePullFailed", "an import fails: the reason that CDI gives, also `Unschedulable` and `Error`"),
	events.Warning(web.ReasonUnreachable, "the manifest of an image cannot be read: one of the reasons of [sources](virtual-images.md), or `ManifestInvalid`, `ManifestTooLarge` and `NoArchitecture`"),
	events.Normal(reasonDefaultChanged, "the default architecture of an image is another one"),
}

// reasonDefaultChanged is the reason of the event for another default architecture.
const reasonDefaultChanged = "DefaultArchitectureChanged"

// told are the reasons of conditions of a catalog that are events.
var told = []string{reasonCDIMissing, reasonTooLarge, reasonNamespaceMissing, reasonWriteFailed, goldenimages.ReasonManagedBySSP}

// transition returns events for a catalog that cannot be managed.
func transition(before, after *v1alpha1.GoldenImageCatalogStatus) (all []events.Event) {
	for _, kind := range []string{conditionManaged, conditionReady} {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if is != nil && slices.Contains(told, is.Reason) && (was == nil || was.Reason != is.Reason || was.Message != is.Message) {
			all = append(all, Events.Event(is.Reason, is.Message))
		}
	}
	return all
}

// imagesTransition returns events for images that cannot be deployed or imported, and for another default architecture.
func imagesTransition(before, after *v1alpha1.GoldenImageCatalogStatus) (all []events.Event) {
	for i := range after.Images {
		image := &after.Images[i]
		var was v1alpha1.Image
		if k := slices.IndexFunc(before.Images, func(b v1alpha1.Image) bool { return b.Name == image.Name }); k >= 0 {
			was = before.Images[k]
		}
		if reason, message := faulty(image.Conditions); reason != "" {
			if earlier, text := faulty(was.Conditions); earlier != reason || text != message {
				all = append(all, Events.Event(reason, image.Name+": "+message))
			}
		}
		if was.DefaultArchitecture != "" && image.DefaultArchitecture != "" && was.DefaultArchitecture != image.DefaultArchitecture {
			all = append(all, Events.Event(reasonDefaultChanged, fmt.Sprintf("%s: the default architecture is %s instead of %s", image.Name, image.DefaultArchitecture, was.DefaultArchitecture)))
		}
	}
	return all
}

// quiet are the reasons of images that are not deployed without a fault.
var quiet = []string{goldenimages.ReasonDisabled, goldenimages.ReasonManagedBySSP, goldenimages.ReasonManifestPending}

// faulty returns the first condition that names a fault.
func faulty(of []metav1.Condition) (reason, message string) {
	for _, c := range of {
		if c.Type == goldenimages.Deployed && c.Status == metav1.ConditionFalse && !slices.Contains(quiet, c.Reason) || c.Type == goldenimages.ManifestVerified && c.Status == metav1.ConditionFalse || c.Type == goldenimages.MissingArchitecture && c.Status == metav1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}
