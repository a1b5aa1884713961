package goldenimages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/images"
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
	reasonManaged          = "Managed"
)

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// status is that after a plan, and after its writes.
func status(in *images.Input, result *images.Result, written error) *v1alpha1.GoldenImageCatalogStatus {
	s := initial(in)
	s.Images, s.Retired = result.Images, result.Retired
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionFalse}
	switch ready.Reason, ready.Message = pendingOf(s.Images); {
	case apierrors.IsNotFound(written):
		ready.Reason, ready.Message = reasonNamespaceMissing, fmt.Sprintf("the namespace %q does not exist: create it", in.Catalog.Spec.Namespace)
	case written != nil:
		ready.Reason, ready.Message = reasonWriteFailed, written.Error()
	case ready.Reason == "":
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, reasonImported, "all images are imported"
	}
	set(in, s, ready)
	return s
}

// unplanned is the reason of an error of the observation with which there is no plan; empty for others.
func unplanned(err error) string {
	switch {
	case errors.Is(err, errNoCDI):
		return reasonCDIMissing
	case errors.Is(err, errTooLarge):
		return reasonTooLarge
	}
	return ""
}

// incomplete is the status without a plan. The images stay as they were.
func incomplete(in *images.Input, reason string, err error) *v1alpha1.GoldenImageCatalogStatus {
	s := initial(in)
	s.Images, s.Retired = in.Catalog.Status.Images, in.Catalog.Status.Retired
	set(in, s, metav1.Condition{Type: conditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: err.Error()})
	return s
}

// initial is a status with the nodes, and with who manages the images.
func initial(in *images.Input) *v1alpha1.GoldenImageCatalogStatus {
	s := &v1alpha1.GoldenImageCatalogStatus{ObservedGeneration: in.Catalog.Generation, Nodes: in.Nodes, Absent: in.Absent, Conditions: slices.Clone(in.Catalog.Status.Conditions)}
	managed := metav1.Condition{Type: conditionManaged, Status: metav1.ConditionTrue, Reason: reasonManaged, Message: "Virtward manages the images"}
	if in.SSP != "" {
		managed.Status, managed.Reason = metav1.ConditionFalse, images.ReasonManagedBySSP
		managed.Message = fmt.Sprintf("the SSP resource %q manages golden images: the catalog only observes", in.SSP)
	}
	set(in, s, managed)
	return s
}

func set(in *images.Input, s *v1alpha1.GoldenImageCatalogStatus, c metav1.Condition) {
	c.Message, c.ObservedGeneration, c.LastTransitionTime = texts.Shorten(c.Message, maxMessage), in.Catalog.Generation, in.Now
	meta.SetStatusCondition(&s.Conditions, c)
}

// pendingOf is the first image that is not deployed, or the first import that is not done; empty if there is none. An image
// that is disabled, or that no node has an architecture of, has no imports.
func pendingOf(list []v1alpha1.Image) (reason, message string) {
	waits := ""
	for i := range list {
		c := meta.FindStatusCondition(list[i].Conditions, images.Deployed)
		if c != nil && c.Status != metav1.ConditionTrue && c.Reason != images.ReasonDisabled && c.Reason != images.ReasonUnsupported {
			if c.Reason == images.ReasonManifestPending {
				waits = fmt.Sprintf("%s: %s", list[i].Name, c.Message)
				continue
			}
			return reasonNotDeployed, fmt.Sprintf("%s: %s", list[i].Name, c.Message)
		}
	}
	for i := range list {
		for k := range list[i].Imports {
			of := &list[i].Imports[k]
			if c := meta.FindStatusCondition(of.Conditions, images.Imported); c != nil && c.Status != metav1.ConditionTrue {
				return reasonPending, fmt.Sprintf("DataSource %s: %s", of.DataSource, c.Message)
			}
		}
	}
	if waits != "" {
		return reasonPending, waits
	}
	return "", ""
}

func (r *Reconciler) writeStatus(ctx context.Context, in *images.Input, status *v1alpha1.GoldenImageCatalogStatus) error {
	catalog := in.Catalog
	r.ledger.note(in, status)
	if equality.Semantic.DeepEqual(&catalog.Status, status) {
		return nil
	}
	before := catalog.Status
	catalog.Status = *status
	if err := r.Client.Status().Update(ctx, catalog, client.FieldOwner(Owner)); err != nil {
		return fmt.Errorf("writing the status of GoldenImageCatalog %s: %w", catalog.Name, err)
	}
	r.transition(&before, catalog)
	return nil
}

// reported are the reasons of conditions of a catalog that are events.
var reported = []string{reasonCDIMissing, reasonTooLarge, reasonNamespaceMissing, reasonWriteFailed, images.ReasonManagedBySSP}

// transition creates events for catalogs that cannot be managed, for images that cannot be deployed or imported, and for another default architecture.
func (r *Reconciler) transition(before *v1alpha1.GoldenImageCatalogStatus, catalog *v1alpha1.GoldenImageCatalog) {
	for _, kind := range []string{conditionManaged, conditionReady} {
		was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(catalog.Status.Conditions, kind)
		if is != nil && slices.Contains(reported, is.Reason) && (was == nil || was.Reason != is.Reason || was.Message != is.Message) {
			r.Tell(catalog, corev1.EventTypeWarning, is.Reason, is.Message)
		}
	}
	for i := range catalog.Status.Images {
		image := &catalog.Status.Images[i]
		var was v1alpha1.Image
		if k := slices.IndexFunc(before.Images, func(b v1alpha1.Image) bool { return b.Name == image.Name }); k >= 0 {
			was = before.Images[k]
		}
		if reason, message := faulty(image.Conditions); reason != "" {
			if earlier, text := faulty(was.Conditions); earlier != reason || text != message {
				r.Tell(catalog, corev1.EventTypeWarning, reason, image.Name+": "+message)
			}
		}
		if was.DefaultArchitecture != "" && image.DefaultArchitecture != "" && was.DefaultArchitecture != image.DefaultArchitecture {
			r.Tell(catalog, corev1.EventTypeNormal, "DefaultArchitectureChanged", fmt.Sprintf("%s: the default architecture is %s instead of %s", image.Name, image.DefaultArchitecture, was.DefaultArchitecture))
		}
	}
}

// quiet are the reasons of images that are not deployed without a fault.
var quiet = []string{images.ReasonDisabled, images.ReasonManagedBySSP, images.ReasonManifestPending}

// faulty returns the first condition that names a fault.
func faulty(conditions []metav1.Condition) (reason, message string) {
	for _, c := range conditions {
		if c.Type == images.Deployed && c.Status == metav1.ConditionFalse && !slices.Contains(quiet, c.Reason) || c.Type == images.ManifestVerified && c.Status == metav1.ConditionFalse || c.Type == images.MissingArchitecture && c.Status == metav1.ConditionTrue {
			return c.Reason, c.Message
		}
	}
	return "", ""
}
