package goldenimages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/images"
)

// maxStored bounds the imports that are deleted by one plan. Others are deleted by the next ones.
const maxStored = 500

// byCDI selects the objects that CDI made for DataImportCrons.
const byCDI = images.CronLabel + ",app.kubernetes.io/managed-by=cdi-controller"

var stores = []struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
}{
	{images.DataVolumeKind, apikinds.DataVolumes.GroupVersionResource()},
	{images.ClaimKind, schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}},
	{images.SnapshotKind, schema.GroupVersionResource{Group: images.SnapshotKind.Group, Version: images.SnapshotKind.Version, Resource: "volumesnapshots"}},
}

// stored reads the imports of DataImportCrons that were deleted, and what DataSources of all namespaces refer to. Without such
// imports it reads nothing.
func (r *Reconciler) stored(ctx context.Context, in *images.Input) error {
	in.StoredRead = true
	waits := func(cron string) bool {
		return in.Crons[cron] == nil && slices.ContainsFunc(in.Catalog.Status.Retired, func(r v1alpha1.RetiredImport) bool { return r.DataImportCron == cron })
	}
	if !slices.ContainsFunc(in.Catalog.Status.Retired, func(r v1alpha1.RetiredImport) bool { return waits(r.DataImportCron) }) {
		return nil
	}
	for _, of := range stores {
		_, err := r.Pages.Each(ctx, pages.List{Resource: of.resource, Namespace: in.Catalog.Spec.Namespace, LabelSelector: byCDI, Form: pages.Metadata}, func(o pages.Object) error {
			var object metav1.PartialObjectMetadata
			if o.JSON != nil { // else it is too large, and stays
				if err := json.Unmarshal(o.JSON, &object); err != nil {
					return err
				}
			}
			if !waits(object.Labels[images.CronLabel]) {
				return nil
			}
			if len(in.Stored) == maxStored {
				in.StoredRead = false
				return nil
			}
			in.Stored = append(in.Stored, images.Stored{
				Kind: of.kind, Name: object.Name, Cron: object.Labels[images.CronLabel], UID: object.UID, ResourceVersion: object.ResourceVersion, Owned: metav1.GetControllerOf(&object) != nil,
				Deleting: object.DeletionTimestamp != nil,
			})
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading imports that are not retained: %w", err)
		}
	}
	in.InUse = map[images.Reference]bool{}
	if len(in.Stored) == 0 {
		return nil
	}
	return each(ctx, r.Pages, pages.List{Resource: apikinds.DataSources.GroupVersionResource()}, func(source *cdiv1beta1.DataSource, _ int) error {
		for _, reference := range images.References(source, in.Catalog.Spec.Namespace) {
			if slices.ContainsFunc(in.Stored, func(s images.Stored) bool { return s.Name == reference.Name }) {
				in.InUse[reference] = true
			}
		}
		return nil
	})
}
