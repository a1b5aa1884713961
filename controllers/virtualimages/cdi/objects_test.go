package cdi

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

func TestVolumeSize(t *testing.T) {
	storage := func(size string) *v1alpha1.VirtualImageStorage {
		return &v1alpha1.VirtualImageStorage{Resources: &v1alpha1.VirtualImageResources{Requests: v1alpha1.VirtualImageRequests{Storage: resource.MustParse(size)}}}
	}
	for name, test := range map[string]struct {
		spec   v1alpha1.VirtualImageSpec
		disk   int64
		want   int64
		reason string
	}{
		"header":          {v1alpha1.VirtualImageSpec{}, 5<<30 + 1, 5<<30 + 1<<20, ""},
		"minDisk":         {v1alpha1.VirtualImageSpec{MinDisk: new(int32(10))}, 5 << 30, 10 << 30, ""},
		"storage":         {v1alpha1.VirtualImageSpec{MinDisk: new(int32(10)), Storage: storage("20Gi")}, 5 << 30, 20 << 30, ""},
		"minDisk of none": {v1alpha1.VirtualImageSpec{MinDisk: new(int32(0))}, 1 << 20, 1 << 20, ""},
		"unknown":         {v1alpha1.VirtualImageSpec{}, 0, 0, ReasonSizeUnknown},
		"too small":       {v1alpha1.VirtualImageSpec{Storage: storage("1Gi")}, 5 << 30, 0, ReasonTooSmall},
		"negative":        {v1alpha1.VirtualImageSpec{Storage: storage("-1Gi")}, 0, 0, ReasonTooSmall},
		"largest":         {v1alpha1.VirtualImageSpec{}, 1<<63 - 1, 1<<63 - 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, fault := volumeSize(&test.spec, &Probe{DiskSize: test.disk})
			if got != test.want || (fault == nil) != (test.reason == "") || fault != nil && (fault.Reason != test.reason || !fault.Permanent) {
				t.Errorf("%d, %+v, want %d, %s", got, fault, test.want, test.reason)
			}
		})
	}
}

func TestState(t *testing.T) {
	condition := func(reason, message string) []cdiv1beta1.DataVolumeCondition {
		return []cdiv1beta1.DataVolumeCondition{{Type: cdiv1beta1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
	}
	created := time.Unix(1_700_000_000, 0)
	for name, test := range map[string]struct {
		status cdiv1beta1.DataVolumeStatus
		state  virtualimages.State
		within string
		done   int64
		after  time.Duration
	}{
		"new":           {cdiv1beta1.DataVolumeStatus{}, virtualimages.Importing, "CDI imports", 0, 0},
		"progress":      {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.ImportInProgress, Progress: "42.50%"}, virtualimages.Importing, "", 425, 0},
		"no progress":   {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.ImportInProgress, Progress: "N/A"}, virtualimages.Importing, "", 0, 0},
		"unschedulable": {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.Pending, Conditions: condition("Unschedulable", "no node")}, virtualimages.Importing, "CDI: no node", 0, 0},
		"first failure": {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.ImportInProgress, RestartCount: 1, Conditions: condition("Error", "no route")}, virtualimages.Importing, "CDI: no route", 0, 0},
		"many failures": {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.ImportInProgress, RestartCount: 3, Conditions: condition("Error", "no route")}, virtualimages.Failed, "CDI: no route", 0, 0},
		"failed":        {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.Failed}, virtualimages.Failed, "failed", 0, 0},
		"succeeded":     {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.Succeeded}, virtualimages.Ready, "", 0, 0},
		"slow":          {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.ImportInProgress}, virtualimages.Failed, "the import took longer than 1h0m0s", 0, time.Hour + time.Second},
		"slow, done":    {cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.Succeeded}, virtualimages.Ready, "", 0, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			got := state(&cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}, Status: test.status}, created.Add(test.after), time.Hour)
			if got.State != test.state || !strings.Contains(got.Message, test.within) || got.Done != test.done {
				t.Errorf("%+v, want %s, %q, %d", got, test.state, test.within, test.done)
			}
		})
	}
}

// TestAdopted: a DataVolume for which CDI takes a claim of others has failed for good, in each phase, until it is deleted.
func TestAdopted(t *testing.T) {
	for _, phase := range []cdiv1beta1.DataVolumePhase{"", cdiv1beta1.ImportInProgress, cdiv1beta1.Succeeded, cdiv1beta1.Failed} {
		dv := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fedora-0b6c7c0e", CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0))}}
		dv.Annotations, dv.Status.Phase = map[string]string{"cdi.kubevirt.io/storage.prePopulated": dv.Name}, phase
		if got := state(dv, dv.CreationTimestamp.Time, time.Hour); got.State != virtualimages.Failed || !got.Permanent || got.Reason != virtualimages.ReasonNameTaken ||
			got.Message != "PersistentVolumeClaim team/fedora-0b6c7c0e existed before its DataVolume, so CDI wrote nothing to it: delete the VirtualImage and create it again" {
			t.Errorf("%s: %+v", phase, got)
		}
		dv.DeletionTimestamp = &dv.CreationTimestamp
		if got := state(dv, dv.CreationTimestamp.Time, time.Hour); got.State != virtualimages.Importing {
			t.Errorf("%s, deleted: %+v", phase, got)
		}
	}
}

// TestUploads: a DataVolume that waits for its file says so, and takes no place from imports.
func TestUploads(t *testing.T) {
	image := &backend.Image{Namespace: "team", Name: "fedora", UID: "0b6c7c0e-52a9-4f2e-9a55-0a3d0f6f3f10", Spec: v1alpha1.VirtualImageSpec{Upload: &v1alpha1.VirtualImageUpload{}, Format: v1alpha1.FormatQCOW2}}
	created := time.Unix(1_700_000_000, 0)
	for name, test := range map[string]struct {
		phase          cdiv1beta1.DataVolumePhase
		after          time.Duration
		state          virtualimages.State
		reason, within string
	}{
		"new":          {"", 0, virtualimages.Importing, virtualimages.ReasonPending, "prepares"},
		"claim":        {cdiv1beta1.PendingPopulation, 0, virtualimages.Importing, virtualimages.ReasonPending, "prepares"},
		"scheduled":    {cdiv1beta1.UploadScheduled, 0, virtualimages.Importing, virtualimages.ReasonPending, "prepares"},
		"ready for it": {cdiv1beta1.UploadReady, 0, virtualimages.Importing, virtualimages.ReasonUploadPending, "kubectl virtward image upload"},
		"not in time":  {cdiv1beta1.UploadReady, time.Hour + time.Second, virtualimages.Failed, virtualimages.ReasonUploadExpired, "was not uploaded within 1h0m0s"},
		"uploaded":     {cdiv1beta1.Succeeded, 2 * time.Hour, virtualimages.Ready, "", ""},
		"not accepted": {cdiv1beta1.Failed, 0, virtualimages.Failed, "", "failed"},
		"paused":       {cdiv1beta1.Paused, 0, virtualimages.Importing, virtualimages.ReasonPending, "prepares"},
	} {
		t.Run(name, func(t *testing.T) {
			dv := dataVolume(image, 1<<30)
			if dv.Spec.Source.Upload == nil || dv.Spec.Source.HTTP != nil || dv.Annotations[adoptClaim] != "false" {
				t.Fatalf("%+v", dv)
			}
			dv.CreationTimestamp, dv.Status.Phase, dv.Status.Progress = metav1.NewTime(created), test.phase, "N/A"
			got := state(dv, created.Add(test.after), time.Hour)
			if got.State != test.state || got.Reason != test.reason || !strings.Contains(got.Message, test.within) || got.SizeBytes != 1<<30 {
				t.Errorf("%+v, want %s, %s, %q", got, test.state, test.reason, test.within)
			}
		})
	}
}
