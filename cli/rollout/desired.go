package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

// fieldManager names the program in dry runs.
const fieldManager = "kubectl-virtward"

// applied returns a VM of the cluster as kubectl apply would leave it.
func applied(ctx context.Context, cluster *offline.Cluster, current, manifest *unstructured.Unstructured) (*unstructured.Unstructured, string, error) {
	patch, err := applyPatch(current, manifest)
	if err != nil {
		return nil, "", err
	}
	return patched(ctx, cluster, current, patch)
}

// patched returns a VM of the cluster with a merge patch: the cluster patches it as a dry run, with all webhooks. If the user
// may not, it is patched here, and a note says so.
func patched(ctx context.Context, cluster *offline.Cluster, current *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, string, error) {
	resource := cluster.Client.Resource(apikinds.VirtualMachines.GroupVersionResource()).Namespace(current.GetNamespace())
	desired, err := resource.Patch(ctx, current.GetName(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	switch {
	case err == nil:
		return desired, "", nil
	case !apierrors.IsForbidden(err):
		return nil, "", fmt.Errorf("the cluster rejects the change of VirtualMachine %s/%s: %w", current.GetNamespace(), current.GetName(), err)
	}
	note := fmt.Sprintf("the dry run is forbidden (%v): what webhooks would change is missing", err)
	before, err := json.Marshal(current.Object)
	if err != nil {
		return nil, "", err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, "", fmt.Errorf("applying the change: %w", err)
	}
	desired = &unstructured.Unstructured{}
	if err := json.Unmarshal(after, &desired.Object); err != nil {
		return nil, "", fmt.Errorf("applying the change: %w", err)
	}
	return desired, note, nil
}

// applyPatch is the patch of kubectl apply: what the manifest sets, and without what only the last applied one has.
func applyPatch(current, manifest *unstructured.Unstructured) ([]byte, error) {
	before, err := json.Marshal(current.Object)
	if err != nil {
		return nil, err
	}
	wanted := manifest.DeepCopy()
	unstructured.RemoveNestedField(wanted.Object, "status")
	wanted.SetNamespace(cmp.Or(wanted.GetNamespace(), current.GetNamespace()))
	modified, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(current.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), modified, before)
	if err != nil {
		return nil, fmt.Errorf("comparing the file with the cluster: %w", err)
	}
	return patch, nil
}

// virtualMachines selects the VMs of files. The notes name what is skipped.
func virtualMachines(documents []manifests.Document) (found []manifests.Document, notes []string) {
	for _, d := range documents {
		kind := d.Object.GroupVersionKind()
		if kind.Group == apikinds.VirtualMachines.Group && kind.Kind == apikinds.VirtualMachine {
			found = append(found, d)
			continue
		}
		notes = append(notes, fmt.Sprintf("%s: %s %s is skipped: it is not a VirtualMachine", d.Location(), kind.Kind, d.Object.GetName()))
	}
	return found, notes
}
