package cdi

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

// The reasons of faults.
const (
	ReasonUnsupported = "Unsupported"
	ReasonSizeUnknown = "SizeUnknown"
	ReasonTooSmall    = "StorageTooSmall"
	ReasonTimeout     = "ImportTimeout"
)

// Annotations of CDI: the import begins without a consumer, takes no claim that exists, and the DataVolume is kept afterwards.
const (
	bindImmediately = "cdi.kubevirt.io/storage.bind.immediate.requested"
	adoptClaim      = "cdi.kubevirt.io/allowClaimAdoption"
	deleteCompleted = "cdi.kubevirt.io/storage.deleteAfterCompletion"
)

// maxRestarts is the number of failures of CDI's importer after which an attempt has failed.
const maxRestarts = 3

const gibibyte = 1 << 30

func meta(image *backend.Image, name string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Namespace: image.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelImage: string(image.UID)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: image.Name, UID: image.UID, Controller: &yes}},
	}
}

// dataVolume is the DataVolume of an image.
func dataVolume(image *backend.Image, size int64) *cdiv1beta1.DataVolume {
	spec := &image.Spec
	dv := &cdiv1beta1.DataVolume{ObjectMeta: meta(image, virtualimages.VolumeName(image.Name, image.UID))}
	dv.Annotations = map[string]string{bindImmediately: "true", adoptClaim: "false", deleteCompleted: "false"}
	dv.Spec.Source = &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{
		URL: spec.Src, SecretRef: spec.SecretRef, CertConfigMap: spec.CertConfigMap, Checksum: spec.Checksum,
	}}
	if spec.Upload != nil {
		dv.Spec.Source = &cdiv1beta1.DataVolumeSource{Upload: &cdiv1beta1.DataVolumeSourceUpload{}}
	}
	dv.Spec.ContentType = cdiv1beta1.DataVolumeKubeVirt
	dv.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI),
	}}}
	if s := spec.Storage; s != nil {
		dv.Spec.Storage.AccessModes = s.AccessModes
		if s.StorageClassName != "" {
			dv.Spec.Storage.StorageClassName = &s.StorageClassName
		}
		if s.VolumeMode != "" {
			dv.Spec.Storage.VolumeMode = &s.VolumeMode
		}
	}
	return dv
}

// dataSource is the DataSource of an image.
func dataSource(image *backend.Image) *cdiv1beta1.DataSource {
	ds := &cdiv1beta1.DataSource{ObjectMeta: meta(image, image.Name)}
	ds.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}
	return ds
}

// volumeSize is the size of the volume: what the image requests, or minDisk, or what the file states.
func volumeSize(spec *v1alpha1.VirtualImageSpec, probe *Probe) (int64, *virtualimages.Observation) {
	failed := func(reason, message string) (int64, *virtualimages.Observation) {
		return 0, &virtualimages.Observation{State: virtualimages.Failed, Permanent: true, Reason: reason, Message: message}
	}
	requested := int64(0)
	switch {
	case spec.Storage != nil && spec.Storage.Resources != nil:
		requested = spec.Storage.Resources.Requests.Storage.Value()
		if requested <= 0 {
			return failed(ReasonTooSmall, "spec.storage.resources.requests.storage must be more than 0")
		}
	case spec.MinDisk != nil && *spec.MinDisk > 0:
		requested = int64(*spec.MinDisk) * gibibyte
	}
	switch {
	case requested == 0 && probe.DiskSize == 0:
		return failed(ReasonSizeUnknown, "neither the image nor its source states the size of the disk: set spec.storage.resources.requests.storage or spec.minDisk")
	case requested > 0 && requested < probe.DiskSize:
		return failed(ReasonTooSmall, fmt.Sprintf("the disk has %s, more than the volume of %s", quantity(probe.DiskSize), quantity(requested)))
	case requested > 0:
		return requested, nil
	}
	return roundUp(probe.DiskSize), nil
}

// roundUp rounds to MiB, as storage classes do.
func roundUp(size int64) int64 {
	const mebibyte = 1 << 20
	if size > math.MaxInt64-mebibyte {
		return size
	}
	return (size + mebibyte - 1) / mebibyte * mebibyte
}

func quantity(size int64) string { return resource.NewQuantity(size, resource.BinarySI).String() }

// state is that of a DataVolume. An import that takes longer than the timeout has failed for good: it takes a place from others.
func state(dv *cdiv1beta1.DataVolume, now time.Time, timeout time.Duration) virtualimages.Observation {
	found := virtualimages.Observation{State: virtualimages.Importing, SizeBytes: requested(dv)}
	if percent, err := strconv.ParseFloat(strings.TrimSuffix(string(dv.Status.Progress), "%"), 64); err == nil && percent >= 0 && percent <= 100 {
		found.Done, found.Total = int64(percent*10), 1000
	}
	reason, message := running(dv)
	switch dv.Status.Phase {
	case cdiv1beta1.Succeeded:
		found.State = virtualimages.Ready
	case cdiv1beta1.Failed:
		found.State, found.Message = virtualimages.Failed, cmp.Or(message, "CDI's import failed")
	case cdiv1beta1.PendingPopulation, cdiv1beta1.WaitForFirstConsumer, cdiv1beta1.Pending:
		found.Message = cmp.Or(message, "waiting for the volume")
	case cdiv1beta1.Paused:
		found.Message = "the import is paused"
	default:
		found.Message = cmp.Or(message, "CDI imports the image")
		if reason == "Error" && dv.Status.RestartCount >= maxRestarts {
			found.State = virtualimages.Failed
		}
	}
	if found.State == virtualimages.Importing && uploaded(dv) {
		awaited(dv, &found)
	}
	if found.State == virtualimages.Importing && now.Sub(dv.CreationTimestamp.Time) > timeout {
		found.State, found.Reason, found.Permanent = virtualimages.Failed, ReasonTimeout, true
		found.Message = fmt.Sprintf("the import took longer than %s: %s", timeout, found.Message)
		if uploaded(dv) {
			found.Reason = virtualimages.ReasonUploadExpired
			found.Message = fmt.Sprintf("the file was not uploaded within %s: delete the VirtualImage and create it again", timeout)
		}
	}
	switch {
	case dv.DeletionTimestamp != nil:
		found.State, found.Message = virtualimages.Importing, "the DataVolume is deleted"
	case requests.HasAdopted(dv):
		return foreign(&found, requests.Adopted(dv))
	}
	return found
}

// foreign is the observation of a DataVolume whose claim CDI did not create. Another attempt has the same name, so it has failed for good.
func foreign(found *virtualimages.Observation, message string) virtualimages.Observation {
	return virtualimages.Observation{
		State: virtualimages.Failed, Permanent: true, Reason: virtualimages.ReasonNameTaken, SizeBytes: found.SizeBytes,
		Message: message + ": delete the VirtualImage and create it again",
	}
}

// uploaded reports whether users upload the content of a DataVolume.
func uploaded(dv *cdiv1beta1.DataVolume) bool {
	return dv.Spec.Source != nil && dv.Spec.Source.Upload != nil
}

// awaited completes the observation of a DataVolume whose file is not complete. It takes no place from imports: CDI reads nothing.
func awaited(dv *cdiv1beta1.DataVolume, found *virtualimages.Observation) {
	found.Done, found.Total = 0, 0
	if dv.Status.Phase == cdiv1beta1.UploadReady {
		found.Reason, found.Message = virtualimages.ReasonUploadPending, "CDI waits for the file: upload it with kubectl virtward image upload"
		return
	}
	_, message := running(dv)
	found.Reason, found.Message = virtualimages.ReasonPending, cmp.Or(message, "CDI prepares the volume for the upload")
}

// requested is the size of the volume that a DataVolume requests. It counts for the limit of the namespace from the start.
func requested(dv *cdiv1beta1.DataVolume) int64 {
	if dv.Spec.Storage == nil {
		return 0
	}
	size := dv.Spec.Storage.Resources.Requests[corev1.ResourceStorage]
	return size.Value()
}

// running is what CDI says about its importer, if it does not run.
func running(dv *cdiv1beta1.DataVolume) (reason, message string) {
	for _, c := range dv.Status.Conditions {
		if c.Type == cdiv1beta1.DataVolumeRunning && c.Status != corev1.ConditionTrue && c.Message != "" {
			return c.Reason, "CDI: " + c.Message
		}
	}
	return "", ""
}
