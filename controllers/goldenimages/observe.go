package goldenimages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/images"
)

// cronLabel is CDI's label of the DataVolumes of a cron.
const cronLabel = "cdi.kubevirt.io/dataImportCron"

var crons = cdiv1beta1.SchemeGroupVersion.WithResource("dataimportcrons")

// observe reads what a plan needs. delay is the time until an architecture is removed; 0 if none is about to be.
func (r *Reconciler) observe(ctx context.Context, catalog *v1alpha1.GoldenImageCatalog) (in *images.Input, delay time.Duration, err error) {
	nodes := &corev1.NodeList{}
	if err := r.Nodes.List(ctx, nodes); err != nil {
		return nil, 0, fmt.Errorf("reading the nodes: %w", err)
	}
	in = &images.Input{
		Catalog: catalog, SingleNode: len(nodes.Items) == 1,
		Crons: map[string]*cdiv1beta1.DataImportCron{}, Sources: map[string]*cdiv1beta1.DataSource{}, Failures: map[string]images.Failure{},
	}
	after := removal
	if catalog.Spec.RemovalDelay != nil {
		after = catalog.Spec.RemovalDelay.Duration
	}
	now := metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second))
	in.Nodes, in.Absent, delay = images.Keep(images.Survey(nodes.Items, catalog.Spec.Workloads), &catalog.Status, now, after)
	return in, delay, r.objects(ctx, in)
}

// objects reads the crons, the DataSources and the failed imports of the namespace.
func (r *Reconciler) objects(ctx context.Context, in *images.Input) error {
	namespace := in.Catalog.Spec.Namespace
	if _, err := r.Pages.Each(ctx, pages.List{Resource: crons, Form: pages.JSON, Namespace: namespace}, func(o pages.Object) error {
		cron := &cdiv1beta1.DataImportCron{}
		err := decode(o, cron)
		in.Crons[cron.Name] = cron
		return err
	}); err != nil {
		return err
	}
	if _, err := r.Pages.Each(ctx, pages.List{Resource: apikinds.DataSources.GroupVersionResource(), Form: pages.JSON, Namespace: namespace}, func(o pages.Object) error {
		source := &cdiv1beta1.DataSource{}
		err := decode(o, source)
		in.Sources[source.Name] = source
		return err
	}); err != nil {
		return err
	}
	_, err := r.Pages.Each(ctx, pages.List{Resource: apikinds.DataVolumes.GroupVersionResource(), Form: pages.JSON, Namespace: namespace, LabelSelector: cronLabel}, func(o pages.Object) error {
		volume := &cdiv1beta1.DataVolume{}
		if err := decode(o, volume); err != nil {
			return err
		}
		if failure, fails := failureOf(volume); fails {
			in.Failures[volume.Labels[cronLabel]] = failure
		}
		return nil
	})
	return err
}

// decode decodes an object of a page. Of one that is too large, only the name is known.
func decode(o pages.Object, into metav1.Object) error {
	if o.JSON == nil {
		into.SetName(o.Name)
		into.SetNamespace(o.Namespace)
		return nil
	}
	if err := json.Unmarshal(o.JSON, into); err != nil {
		return fmt.Errorf("decoding %s: %w", o.Name, err)
	}
	return nil
}

// failing are the reasons of CDI's condition Running for an import that does not end by itself.
var failing = []string{"ImagePullFailed", "Unschedulable", "Error"}

// failureOf returns why an import fails.
func failureOf(volume *cdiv1beta1.DataVolume) (images.Failure, bool) {
	if volume.Status.Phase == cdiv1beta1.Succeeded {
		return images.Failure{}, false
	}
	for _, c := range volume.Status.Conditions {
		if c.Type == cdiv1beta1.DataVolumeRunning && c.Status == corev1.ConditionFalse && slices.Contains(failing, c.Reason) {
			return images.Failure{Reason: c.Reason, Message: c.Message}, true
		}
	}
	return images.Failure{}, false
}
