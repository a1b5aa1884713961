package templateimport

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf"
)

// checkQuota reads the ResourceQuotas of the namespace.
func (r *Reconciler) checkQuota(ctx context.Context, o *observed) error {
	list := &corev1.ResourceQuotaList{}
	if err := r.Client.List(ctx, list, client.InNamespace(o.request.Namespace)); err != nil {
		return fmt.Errorf("listing ResourceQuotas: %w", err)
	}
	o.quota = exceeded(list.Items, o.request, o.volumeSizes())
	return nil
}

// volumeSizes are the sizes of the volumes that do not exist: of the copy before the disks are known, and then of the disks.
func (o *observed) volumeSizes() (sizes []int64) {
	if o.staging() != nil && o.copy == nil {
		return []int64{ovf.VolumeSize(o.request.Spec.Staging.Size.Value())}
	}
	existing := o.existing()
	for i := range o.request.Status.Disks {
		if disk := &o.request.Status.Disks[i]; !slices.Contains(existing, disk.Name) {
			sizes = append(sizes, ovf.VolumeSize(disk.Size))
		}
	}
	return sizes
}

// existing are the names of the disks that have a DataVolume: quotas count it.
func (o *observed) existing() []string {
	var names []string
	for _, v := range o.volumes {
		if v != nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// exceeded says which quota does not permit volumes of some sizes of an import; empty if all do. File systems and the space in which CDI converts
// need more than this.
func exceeded(quotas []corev1.ResourceQuota, of *v1beta1.VirtualMachineTemplateImport, sizes []int64) string {
	bytes, count := int64(0), int64(len(sizes))
	for _, size := range sizes {
		bytes += size
	}
	wanted := map[corev1.ResourceName]int64{corev1.ResourceRequestsStorage: bytes, corev1.ResourcePersistentVolumeClaims: count}
	if s := of.Spec.Storage; s != nil && s.Class != "" {
		const class = ".storageclass.storage.k8s.io/"
		wanted[corev1.ResourceName(s.Class+class+"requests.storage")] = bytes
		wanted[corev1.ResourceName(s.Class+class+"persistentvolumeclaims")] = count
	}
	var found []string
	for i := range quotas {
		q := &quotas[i]
		for name, need := range wanted {
			hard, limited := q.Status.Hard[name]
			if !limited || need == 0 {
				continue
			}
			used := q.Status.Used[name]
			if left := hard.Value() - used.Value(); need > left {
				format := resource.BinarySI
				found = append(found, fmt.Sprintf("ResourceQuota %s: the volumes need %s of %s, and %s are left", q.Name,
					resource.NewQuantity(need, format), name, resource.NewQuantity(max(0, left), format)))
			}
		}
	}
	slices.Sort(found)
	return strings.Join(found[:min(len(found), 3)], "; ")
}
