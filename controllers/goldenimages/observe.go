package goldenimages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/texts"
)

// Resources that are read.
var (
	crons = cdiv1beta1.SchemeGroupVersion.WithResource("dataimportcrons")
	ssps  = schema.GroupVersionResource{Group: "ssp.kubevirt.io", Version: "v1beta3", Resource: "ssps"}
)

// errNoCDI is the error of a cluster without CDI.
var errNoCDI = errors.New("the kinds of cdi.kubevirt.io are missing: install CDI (Containerized Data Importer) 1.62 or later")

// observe reads what a plan needs. delay is the time until an architecture is removed, or a manifest is read again; 0 for
// neither. After an error, in has at least the catalog and the time.
func (r *Reconciler) observe(ctx context.Context, catalog *v1alpha1.GoldenImageCatalog) (in *goldenimages.Input, delay time.Duration, err error) {
	manifests, due := r.Manifests.of(catalog)
	in = &goldenimages.Input{
		Catalog: catalog, Now: metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second)),
		Crons: map[string]*cdiv1beta1.DataImportCron{}, Sources: map[string]*cdiv1beta1.DataSource{}, Failures: map[string]goldenimages.Failure{},
	}
	nodes := &corev1.NodeList{}
	if err := r.Nodes.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil { // they are only read
		return in, 0, fmt.Errorf("reading the nodes: %w", err)
	}
	in.SingleNode = len(nodes.Items) == 1
	after := removal
	if catalog.Spec.RemovalDelay != nil {
		after = catalog.Spec.RemovalDelay.Duration
	}
	in.Nodes, in.Absent, delay = goldenimages.Keep(goldenimages.Survey(nodes.Items, catalog.Spec.Workloads), &catalog.Status, in.Now, after)
	if in.SSP, err = r.ssp(ctx); err != nil {
		return in, 0, err
	}
	if in.Others, err = r.others(ctx, catalog); err != nil {
		return in, 0, err
	}
	if err := r.objects(ctx, in); err != nil {
		return in, 0, err
	}
	in.Manifests = manifests
	if due > 0 && (delay == 0 || due < delay) {
		delay = due
	}
	return in, delay, r.stored(ctx, in)
}

// ssp returns the resource of SSP; empty if there is none.
func (r *Reconciler) ssp(ctx context.Context) (found string, err error) {
	_, err = r.Pages.Each(ctx, pages.List{Resource: ssps, Form: pages.Metadata}, func(o pages.Object) error {
		var object metav1.PartialObjectMetadata
		if o.JSON != nil {
			if err := json.Unmarshal(o.JSON, &object); err != nil {
				return err
			}
			o.Namespace, o.Name = object.Namespace, object.Name
		}
		if found == "" {
			found = o.Namespace + "/" + o.Name
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading who manages golden images: %w", err)
	}
	return found, nil
}

// objects reads the crons, the DataSources and the failed imports of the namespace.
func (r *Reconciler) objects(ctx context.Context, in *goldenimages.Input) error {
	namespace := in.Catalog.Spec.Namespace
	var kept budget
	relevant := goldenimages.Relevant(in)
	err := each(ctx, r.Pages, pages.List{Resource: crons, Namespace: namespace}, func(cron *cdiv1beta1.DataImportCron, size int) error {
		if !relevant(cron) {
			return nil
		}
		cron.ManagedFields = nil
		in.Crons[cron.Name] = cron
		return kept.take(size)
	})
	if err != nil {
		return err
	}
	err = each(ctx, r.Pages, pages.List{Resource: apikinds.DataSources.GroupVersionResource(), Namespace: namespace}, func(source *cdiv1beta1.DataSource, size int) error {
		if !relevant(source) {
			return nil
		}
		source.ManagedFields = nil
		in.Sources[source.Name] = source
		return kept.take(size)
	})
	if err != nil {
		return err
	}
	return each(ctx, r.Pages, pages.List{Resource: apikinds.DataVolumes.GroupVersionResource(), Namespace: namespace, LabelSelector: goldenimages.CronLabel}, func(volume *cdiv1beta1.DataVolume, _ int) error {
		cron := in.Crons[volume.Labels[goldenimages.CronLabel]]
		if failure, fails := failureOf(volume); fails && cron != nil && current(cron, volume.Name) {
			in.Failures[cron.Name] = failure
		}
		return nil
	})
}

// each decodes the objects of a list. found gets the size of their JSON, too.
func each[T any](ctx context.Context, reader *pages.Reader, list pages.List, found func(object *T, size int) error) error {
	list.Form = pages.JSON
	_, err := reader.Each(ctx, list, func(o pages.Object) error {
		decoded := new(T)
		if o.JSON == nil {
			return fmt.Errorf("%w: %s %s", errTooLarge, list.Resource.Resource, o.Name)
		}
		if err := json.Unmarshal(o.JSON, decoded); err != nil {
			return fmt.Errorf("decoding %s: %w", list.Resource.Resource, err)
		}
		return found(decoded, len(o.JSON))
	})
	if apierrors.IsNotFound(err) {
		return errNoCDI
	}
	return err
}

// current reports whether a cron imports a DataVolume now. Those of earlier images can have failed.
func current(cron *cdiv1beta1.DataImportCron, volume string) bool {
	return slices.ContainsFunc(cron.Status.CurrentImports, func(i cdiv1beta1.ImportStatus) bool { return i.DataVolumeName == volume })
}

// failing are the reasons of CDI's condition Running for an import that does not end by itself.
var failing = []string{"ImagePullFailed", "Unschedulable", "Error"}

// failureOf returns why an import fails.
func failureOf(volume *cdiv1beta1.DataVolume) (goldenimages.Failure, bool) {
	if volume.Status.Phase == cdiv1beta1.Succeeded {
		return goldenimages.Failure{}, false
	}
	for _, c := range volume.Status.Conditions {
		if c.Type == cdiv1beta1.DataVolumeRunning && c.Status == corev1.ConditionFalse && slices.Contains(failing, c.Reason) {
			return goldenimages.Failure{Reason: c.Reason, Message: texts.Shorten(c.Message, maxMessage)}, true
		}
	}
	return goldenimages.Failure{}, false
}
