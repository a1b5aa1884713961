package templateexport

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/texts"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-templateexports"

// state is that of an export.
type state int

const (
	working state = iota
	ready
	hasFailed
)

// progress is the state of an export, as its status says it.
type progress struct {
	state           state
	reason, message string
	percent         string
	// unchanged: the status stays as it is.
	unchanged bool
	// found is what the template needs, if the status gets it.
	found *exports.Outcome
	// volumes are the DataVolumes of the disks; nil if they are not observed.
	volumes []*cdiv1beta1.DataVolume
	// links and token are those of a pod that was created.
	links *v1beta1.ExportLinks
	token string
	// server is the status of the pod that serves the OVA.
	server *exportserver.Status
}

func works(reason, message string, after time.Duration) decision {
	return decision{progress: progress{reason: reason, message: message}, after: after}
}

func failed(reason, message string) decision {
	return decision{progress: progress{state: hasFailed, reason: reason, message: message}, after: soon}
}

// isFailed reports whether an export has failed.
func isFailed(of *v1beta1.VirtualMachineTemplateExport) bool {
	return meta.IsStatusConditionFalse(of.Status.Conditions, v1beta1.RequestProgressing) && meta.IsStatusConditionFalse(of.Status.Conditions, v1beta1.RequestReady)
}

// conditions are those of an export.
func (p *progress) conditions() []metav1.Condition {
	message := texts.Shorten(p.message, requests.MaxMessage)
	condition := func(kind string, is bool, reason, message string) metav1.Condition {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		if is {
			c.Status = metav1.ConditionTrue
		}
		return c
	}
	switch p.state {
	case ready:
		return []metav1.Condition{condition(v1beta1.RequestReady, true, p.reason, message), condition(v1beta1.RequestProgressing, false, p.reason, "")}
	case hasFailed:
		return []metav1.Condition{condition(v1beta1.RequestReady, false, p.reason, message), condition(v1beta1.RequestProgressing, false, p.reason, message)}
	case working:
	}
	return []metav1.Condition{condition(v1beta1.RequestReady, false, v1beta1.ReasonWaiting, message), condition(v1beta1.RequestProgressing, true, p.reason, message)}
}

// statusOf returns the status of an export.
func statusOf(o *observed, p *progress, limits *Limits) *v1beta1.VirtualMachineTemplateExportStatus {
	status := o.request.Status.DeepCopy()
	if p.unchanged {
		return status
	}
	status.Progress = p.percent
	if f := p.found; f != nil {
		status.FileName, status.Warnings, status.Disks = f.FileName, f.Warnings, nil
		for i, v := range f.Volumes {
			status.Disks = append(status.Disks, v1beta1.ExportDisk{Volume: v.Name, Name: exports.CloneName(o.request, i), Source: v.Source})
		}
	}
	noteVolumes(status, p.volumes)
	if p.links != nil {
		status.Links, status.TokenSecretRef = p.links, p.token
	}
	if s := p.server; s != nil {
		status.Size, status.Digest, status.Downloads = s.Size, s.Tag, s.Completed
	}
	if p.state == hasFailed {
		status.Links, status.TokenSecretRef = nil, ""
	}
	if p.state != working && status.Expires == nil {
		expires := metav1.NewTime(o.now.Add(limits.ttl(o.request)).Truncate(time.Second))
		status.Expires = &expires
	}
	for _, c := range p.conditions() {
		conditions.Set(&status.Conditions, c, o.request.Generation, metav1.NewTime(o.now))
	}
	return status
}

// noteVolumes notes the progress of the clones.
func noteVolumes(status *v1beta1.VirtualMachineTemplateExportStatus, volumes []*cdiv1beta1.DataVolume) {
	if len(volumes) != len(status.Disks) {
		return
	}
	for i, volume := range volumes {
		disk := &status.Disks[i]
		disk.Progress, disk.Message = "", ""
		switch {
		case volume == nil:
		case volume.Status.Phase == cdiv1beta1.Succeeded:
			disk.Progress = "100%"
		default:
			_, disk.Message = diskservers.Running(volume)
			disk.Message = texts.Shorten(disk.Message, requests.MaxMessage)
			if text := strings.TrimSpace(string(volume.Status.Progress)); strings.HasSuffix(text, "%") && len(text) <= len("100.00%") {
				disk.Progress = text
			}
		}
	}
}

// kept is the status of an export: its disks and its link decide what follows.
type kept = statuses.Memory[*v1beta1.VirtualMachineTemplateExport, v1beta1.VirtualMachineTemplateExportStatus]

// remembers writes the status if it changed. The error is Conflict if the export changed after it was read.
func (r *Reconciler) remembers(ctx context.Context, o *observed, p *progress) error {
	var told []events.Event
	first := o.request.Status.Expires == nil // another pod does not end an export again
	_, err := r.kept.Write(ctx, o.request, statusOf(o, p, &r.Limits), func(before, after *v1beta1.VirtualMachineTemplateExportStatus) []events.Event {
		told = nil
		if requests.Changed(before.Conditions, after.Conditions) {
			told = []events.Event{Events.Event(p.reason, p.message)}
		}
		return told
	})
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if len(told) > 0 && (p.state == hasFailed || p.state == ready && first) {
		r.Metrics.ended(p, o)
	}
	return nil
}
