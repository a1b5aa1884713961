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
	"github.com/virtward/virtward/goldenimages"
)

// maxStored bounds the imports that are deleted by one plan. Others are deleted by the next ones.
const maxStored = 500

// byCDI selects the objects that CDI made for DataImportCrons.
const byCDI = goldenimages.CronLabel + ",app.kubernetes.io/managed-by=cdi-controller"

var stores = []struct {
	kind     schema.GroupVersionKind
	resource schema.GroupVersionResource
}{
	{goldenimages.DataVolumeKind, apikinds.DataVolumes.GroupVersionResource()},
	{goldenimages.ClaimKind, schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}},
	{goldenimages.SnapshotKind, schema.GroupVersionResource{Group: goldenimages.SnapshotKind.Group, Version: goldenimages.SnapshotKind.Version, Resource: "volumesnapshots"}},
}

// stored reads the imports of DataImportCrons that were deleted, and what DataSources of all namespaces refer to. Without such
// imports it reads nothing.
func (r *Reconciler) stored(ctx context.Context, in *goldenimages.Input) error {
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
			if !waits(object.Labels[goldenimages.CronLabel]) {
				return nil
			}
			if len(in.Stored) == maxStored {
				in.StoredRead = false
				return nil
			}
			in.Stored = append(in.Stored, goldenimages.Stored{
				Kind: of.kind, Name: object.Name, Cron: object.Labels[goldenimages.CronLabel], UID: object.UID, ResourceVersion: object.ResourceVersion, Owned: metav1.GetControllerOf(&object) != nil,
				Deleting: object.DeletionTimestamp != nil,
			})
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading imports that are not retained: %w", err)
		}
	}
	in.InUse = map[goldenimages.Reference]bool{}
	if len(in.Stored) == 0 {
		return nil
	}
	return each(ctx, r.Pages, pages.List{Resource: apikinds.DataSources.GroupVersionResource()}, func(source *cdiv1beta1.DataSource, _ int) error {
		for _, reference := range goldenimages.References(source, in.Catalog.Spec.Namespace) {
			if slices.ContainsFunc(in.Stored, func(s goldenimages.Stored) bool { return s.Name == reference.Name }) {
				in.InUse[reference] = true
			}
		}
		return nil
	})
}
