package simulators

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/virtward/virtward/api/claims"
	"github.com/virtward/virtward/test/controlplane"
)

// NoSnapshots is the storage class whose volumes cannot be snapshotted.
const NoSnapshots = "no-snapshots"

// VolumeSnapshotKind is the kind of snapshots of volumes, which a CSI driver would make.
var VolumeSnapshotKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}

// The finalizers that KubeVirt sets.
const (
	snapshotFinalizer = "snapshot.kubevirt.io/vmsnapshot-protection"
	contentFinalizer  = "snapshot.kubevirt.io/vmsnapshotcontent-protection"
)

// poll is the interval at which a simulator looks again at an object that a Script holds.
const poll = 100 * time.Millisecond

// Verdict is how a simulated operation goes on.
type Verdict struct {
	// Wait holds it.
	Wait bool
	// Failure fails it with this message.
	Failure string
}

// Script decides about the operations of a simulator; a nil one lets all of them succeed.
type Script func(object client.Object) Verdict

// scripted is a script that tests can replace at any time.
type scripted struct {
	mu     sync.Mutex
	script Script
}

// Follow replaces the script.
func (s *scripted) Follow(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *scripted) verdict(object client.Object) Verdict {
	s.mu.Lock()
	script := s.script
	s.mu.Unlock()
	if script == nil {
		return Verdict{}
	}
	return script(object)
}

// Snapshots simulates KubeVirt's controller of VirtualMachineSnapshots, and the CSI driver behind it.
type Snapshots struct {
	scripted
	background
}

// StartSnapshots runs the simulation under KubeVirt's own service account, until Stop.
func StartSnapshots(ctx context.Context, c *controlplane.ControlPlane) (*Snapshots, error) {
	if err := errors.Join(ensureAccounts(ctx, c), c.InstallCRDs(ctx, volumeSnapshots())); err != nil {
		return nil, err
	}
	config, err := c.ServiceAccountConfig(ctx, Namespace, ControllerAccount)
	if err != nil {
		return nil, err
	}
	s := &Snapshots{}
	manager, err := s.manager(ctx, c, "snapshots", config, &snapshotv1beta1.VirtualMachineSnapshotList{})
	if err != nil {
		return nil, err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&snapshotv1beta1.VirtualMachineSnapshot{}).Complete(&snapshotReconciler{client: manager.GetClient(), live: manager.GetAPIReader(), verdict: s.verdict})
	if err != nil {
		return nil, fmt.Errorf("simulating snapshots: %w", err)
	}
	s.run(ctx, manager)
	return s, nil
}

// volumeSnapshots is a definition with the name and the kind of that of the CSI project, and without its schema.
func volumeSnapshots() *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "volumesnapshots." + VolumeSnapshotKind.Group,
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a simulation"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: VolumeSnapshotKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "volumesnapshots", Singular: "volumesnapshot", Kind: VolumeSnapshotKind.Kind, ListKind: "VolumeSnapshotList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: VolumeSnapshotKind.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	}
}

type snapshotReconciler struct {
	client  client.Client
	live    client.Reader
	verdict func(client.Object) Verdict
}

// Reconcile snapshots one VirtualMachine.
func (r *snapshotReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	snapshot := &snapshotv1beta1.VirtualMachineSnapshot{}
	if err := r.live.Get(ctx, request.NamespacedName, snapshot); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if snapshot.DeletionTimestamp != nil {
		return ctrl.Result{}, r.release(ctx, snapshot)
	}
	base := snapshot.DeepCopy()
	if controllerutil.AddFinalizer(snapshot, snapshotFinalizer) {
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, snapshot, client.MergeFrom(base)))
	}
	if snapshot.Status != nil && (snapshot.Status.Phase == snapshotv1beta1.Succeeded || snapshot.Status.Phase == snapshotv1beta1.Failed) {
		return ctrl.Result{}, nil
	}
	snapshot.Status = &snapshotv1beta1.VirtualMachineSnapshotStatus{Phase: snapshotv1beta1.InProgress, ReadyToUse: new(false)}
	vm := &kubevirtv1.VirtualMachine{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: snapshot.Namespace, Name: snapshot.Spec.Source.Name}, vm)
	verdict := r.verdict(snapshot)
	switch {
	case apierrors.IsNotFound(err):
		snapshot.Status.Conditions = []snapshotv1beta1.Condition{{Type: snapshotv1beta1.ConditionProgressing, Status: corev1.ConditionFalse, Reason: "Source does not exist"}}
	case err != nil:
		return ctrl.Result{}, err
	case verdict.Failure != "":
		snapshot.Status.Phase, snapshot.Status.Error = snapshotv1beta1.Failed, &snapshotv1beta1.Error{Message: &verdict.Failure}
		snapshot.Status.Conditions = []snapshotv1beta1.Condition{{Type: snapshotv1beta1.ConditionFailure, Status: corev1.ConditionTrue, Reason: "Failed"}}
	case verdict.Wait:
		snapshot.Status.Conditions = []snapshotv1beta1.Condition{{Type: snapshotv1beta1.ConditionProgressing, Status: corev1.ConditionTrue, Reason: "Source locked and operation in progress"}}
	default:
		if err := r.complete(ctx, snapshot, vm); err != nil {
			return ctrl.Result{}, err
		}
	}
	again := ctrl.Result{}
	if snapshot.Status.Phase == snapshotv1beta1.InProgress {
		again.RequeueAfter = poll
	}
	return again, client.IgnoreNotFound(r.client.Status().Patch(ctx, snapshot, client.MergeFrom(base)))
}

// indications are what KubeVirt notes about a VM that runs.
func indications(vm *kubevirtv1.VirtualMachine) []snapshotv1beta1.SourceIndication {
	if !vm.Status.Created {
		return nil
	}
	agent := snapshotv1beta1.VMSnapshotNoGuestAgentIndication
	for _, c := range vm.Status.Conditions {
		if string(c.Type) == string(kubevirtv1.VirtualMachineInstanceAgentConnected) && c.Status == corev1.ConditionTrue {
			agent = snapshotv1beta1.VMSnapshotGuestAgentIndication
		}
	}
	return []snapshotv1beta1.SourceIndication{
		{Indication: snapshotv1beta1.VMSnapshotOnlineSnapshotIndication, Message: "the VM runs"}, {Indication: agent, Message: "whether the guest agent froze the file systems"},
	}
}

// complete makes the content, and then marks both as ready.
func (r *snapshotReconciler) complete(ctx context.Context, snapshot *snapshotv1beta1.VirtualMachineSnapshot, vm *kubevirtv1.VirtualMachine) error {
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.Namespace, Name: "vmsnapshot-content-" + string(snapshot.UID), Finalizers: []string{contentFinalizer}},
		Spec: snapshotv1beta1.VirtualMachineSnapshotContentSpec{
			VirtualMachineSnapshotName: &snapshot.Name,
			Source:                     snapshotv1beta1.SourceSpec{VirtualMachine: &snapshotv1beta1.VirtualMachine{ObjectMeta: vm.ObjectMeta, Spec: vm.Spec, Status: vm.Status}},
		},
	}
	content.Spec.Source.VirtualMachine.ManagedFields = nil
	snapshot.Status.SourceIndications = indications(vm)
	included, excluded := r.backups(ctx, snapshot, vm, content)
	err := r.client.Create(ctx, content)
	if apierrors.IsAlreadyExists(err) {
		err = r.live.Get(ctx, client.ObjectKeyFromObject(content), content)
	}
	if err != nil {
		return err
	}
	for i := range content.Spec.VolumeBackups {
		if err := r.snapshotVolume(ctx, content, &content.Spec.VolumeBackups[i]); err != nil {
			return err
		}
	}
	base := content.DeepCopy()
	content.Status = &snapshotv1beta1.VirtualMachineSnapshotContentStatus{ReadyToUse: new(true), CreationTime: new(metav1.Now())}
	if err := r.client.Status().Patch(ctx, content, client.MergeFrom(base)); err != nil {
		return err
	}
	snapshot.Status.Phase, snapshot.Status.ReadyToUse = snapshotv1beta1.Succeeded, new(true)
	snapshot.Status.VirtualMachineSnapshotContentName = &content.Name
	snapshot.Status.SnapshotVolumes = &snapshotv1beta1.SnapshotVolumesLists{IncludedVolumes: included, ExcludedVolumes: excluded}
	snapshot.Status.Conditions = []snapshotv1beta1.Condition{{Type: snapshotv1beta1.ConditionReady, Status: corev1.ConditionTrue, Reason: "Operation complete"}}
	return nil
}

// backups adds the volumes of a VirtualMachine to the content of its snapshot.
func (r *snapshotReconciler) backups(ctx context.Context, snapshot *snapshotv1beta1.VirtualMachineSnapshot, vm *kubevirtv1.VirtualMachine, content *snapshotv1beta1.VirtualMachineSnapshotContent) (included, excluded []string) {
	for _, v := range vm.Spec.Template.Spec.Volumes {
		name := claims.OfVolume(&v)
		claim := &corev1.PersistentVolumeClaim{}
		if name == "" || r.live.Get(ctx, client.ObjectKey{Namespace: vm.Namespace, Name: name}, claim) != nil ||
			claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == NoSnapshots {
			excluded = append(excluded, v.Name)
			continue
		}
		included = append(included, v.Name)
		content.Spec.VolumeBackups = append(content.Spec.VolumeBackups, snapshotv1beta1.VolumeBackup{
			VolumeName: v.Name, VolumeSnapshotName: new(fmt.Sprintf("vmsnapshot-%s-volume-%s", snapshot.UID, v.Name)),
			PersistentVolumeClaim: snapshotv1beta1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}, Spec: claim.Spec},
		})
	}
	return included, excluded
}

// snapshotVolume makes the snapshot of one volume, which belongs to the content.
func (r *snapshotReconciler) snapshotVolume(ctx context.Context, content *snapshotv1beta1.VirtualMachineSnapshotContent, backup *snapshotv1beta1.VolumeBackup) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"source": map[string]any{"persistentVolumeClaimName": backup.PersistentVolumeClaim.Name}},
		"status": map[string]any{"readyToUse": true},
	}}
	object.SetGroupVersionKind(VolumeSnapshotKind)
	object.SetNamespace(content.Namespace)
	object.SetName(*backup.VolumeSnapshotName)
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(content, snapshotv1beta1.SchemeGroupVersion.WithKind("VirtualMachineSnapshotContent"))})
	if err := r.client.Create(ctx, object.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return r.client.Status().Patch(ctx, object, client.Merge)
}

// release deletes the content of a snapshot, and then lets the snapshot go.
func (r *snapshotReconciler) release(ctx context.Context, snapshot *snapshotv1beta1.VirtualMachineSnapshot) error {
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: snapshot.Namespace, Name: "vmsnapshot-content-" + string(snapshot.UID)}, content)
	if err == nil {
		base := content.DeepCopy()
		controllerutil.RemoveFinalizer(content, contentFinalizer)
		err = errors.Join(client.IgnoreNotFound(r.client.Patch(ctx, content, client.MergeFrom(base))), client.IgnoreNotFound(r.client.Delete(ctx, content)))
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	base := snapshot.DeepCopy()
	if !controllerutil.RemoveFinalizer(snapshot, snapshotFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, snapshot, client.MergeFrom(base)))
}
