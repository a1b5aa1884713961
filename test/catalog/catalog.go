package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ImagesNamespace is the namespace of the golden images.
const ImagesNamespace = "kubevirt-os-images"

// Install creates the instancetypes, the preferences, the golden images and the nodes. The DataSources become ready where CDI's
// controller of DataSources, or its simulator, runs.
func Install(ctx context.Context, admin client.Client) error {
	objects, err := shared()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := applied(object); err != nil {
			return err
		}
		if err := admin.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	for _, family := range Images() {
		if err := installImage(ctx, admin, family); err != nil {
			return fmt.Errorf("creating the image %s: %w", family, err)
		}
	}
	for _, node := range [][2]string{{"sandbox", "amd64"}, {"sandbox-2", "amd64"}, {"sandbox-arm64", "arm64"}} {
		if err := installNode(ctx, admin, node[0], node[1]); err != nil {
			return fmt.Errorf("creating the node %s: %w", node[0], err)
		}
	}
	return nil
}

// applied adds the annotation that kubectl apply adds, so that an example of the same name can be applied without a warning.
func applied(object client.Object) error {
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(content)})
	return nil
}

// shared are the objects without a status.
func shared() ([]client.Object, error) {
	presets, err := Presets()
	if err != nil {
		return nil, err
	}
	return append([]client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ImagesNamespace}}}, presets...), nil
}

// Images are the names of the golden images: those of the DataSources that the common templates clone.
func Images() []string {
	return []string{
		"fedora", "centos-stream9", "centos-stream10", "rhel8", "rhel9", "rhel10", "ubuntu", "debian", "opensuse-leap", "sles",
		"win10", "win11", "win2k19", "win2k22", "win2k25",
	}
}

// installImage creates a bound volume and the DataSource that refers to it.
func installImage(ctx context.Context, admin client.Client, name string) error {
	meta := metav1.ObjectMeta{Namespace: ImagesNamespace, Name: name}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	if err := admin.Create(ctx, claim); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.AccessModes, size
	if err := admin.Status().Update(ctx, claim); err != nil {
		return err
	}
	source := &cdiv1beta1.DataSource{ObjectMeta: meta}
	source.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: ImagesNamespace, Name: name}
	return client.IgnoreAlreadyExists(admin.Create(ctx, source))
}

// installNode creates a node, which has no kubelet.
func installNode(ctx context.Context, admin client.Client, name, architecture string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelArchStable: architecture, corev1.LabelOSStable: "linux", "kubevirt.io/schedulable": "true",
	}}}
	if err := admin.Create(ctx, node); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	node.Status.NodeInfo.Architecture, node.Status.NodeInfo.OperatingSystem = architecture, "linux"
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Sandbox", Message: "The node has no kubelet.",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	return admin.Status().Update(ctx, node)
}
