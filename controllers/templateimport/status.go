package templateimport

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/texts"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-templateimports"

// progress is the state of an import, as its status says it.
type progress struct {
	requests.Progress

	// found is what was read of the appliance, if the status gets it.
	found *Read
	// staging is the copy of the file, if the status gets it.
	staging *v1beta1.ImportStaged
	// verified is what a comparison of the whole file computed; nil without one.
	verified *verification
	// volumes are the DataVolumes of the disks; nil if they are not observed.
	volumes []*cdiv1beta1.DataVolume
}

func working(reason, message string) progress {
	return progress{Progress: requests.Working(reason, message)}
}

func failed(reason, message string) decision {
	return decision{progress: progress{Progress: requests.Failed(reason, message)}}
}

// statusOf returns the status of an import.
func statusOf(o *observed, p *progress) *v1beta1.VirtualMachineTemplateImportStatus {
	status := o.request.Status.DeepCopy()
	if f := p.found; f != nil {
		status.Choices, status.Warnings, status.Rejections = f.Outcome.Choices, f.Outcome.Warnings, f.Outcome.Rejections
		if p.State == requests.IsWorking {
			status.Disks = imports.StatusDisks(f.Outcome.Disks)
			status.Source = &v1beta1.ImportedSource{
				Size: f.Origin.Size, File: texts.ShortenCharacters(f.Origin.File, v1beta1.MaxImportNote), Digest: f.Origin.Digest,
				Signer: texts.ShortenCharacters(f.Origin.Signer, v1beta1.MaxImportNote), Validator: f.Origin.Validator, Plan: f.Outcome.Plan,
				TemplateDigest: f.Outcome.TemplateDigest,
			}
		}
	}
	if p.staging != nil {
		status.Staging = p.staging
	}
	if p.verified != nil && status.Source != nil {
		p.verified.note(status)
	}
	noteVolumes(status, p.volumes)
	status.TemplateRef = nil
	if o.isOwnTemplate() {
		status.TemplateRef = &v1beta1.TemplateReference{Name: imports.TemplateName(o.request)}
	}
	for _, c := range p.Conditions() {
		conditions.Set(&status.Conditions, c, o.request.Generation, metav1.NewTime(o.now))
	}
	return status
}

// note notes what was verified.
func (v *verification) note(status *v1beta1.VirtualMachineTemplateImportStatus) {
	status.Source.Verified = true
	status.Source.Digest = cmp.Or(status.Source.Digest, v.digest)
	for i := range v.disks[:min(len(v.disks), len(status.Disks))] {
		status.Disks[i].Digests = v.disks[i]
	}
}

// noteVolumes notes the progress of the volumes.
func noteVolumes(status *v1beta1.VirtualMachineTemplateImportStatus, volumes []*cdiv1beta1.DataVolume) {
	if len(volumes) == 0 || len(volumes) != len(status.Disks) {
		return
	}
	var done, all float64
	for i, volume := range volumes {
		disk := &status.Disks[i]
		disk.Progress, disk.Message = "", ""
		all += float64(disk.Size)
		if volume == nil {
			continue
		}
		percent, err := strconv.ParseFloat(strings.TrimSuffix(string(volume.Status.Progress), "%"), 64)
		if volume.Status.Phase == cdiv1beta1.Succeeded {
			percent, err = 100, nil
		} else {
			_, disk.Message = diskservers.Running(volume)
			disk.Message = texts.Shorten(disk.Message, requests.MaxMessage)
		}
		if err != nil || percent < 0 || percent > 100 {
			continue
		}
		disk.Progress = fmt.Sprintf("%.0f%%", percent)
		done += percent / 100 * float64(disk.Size)
	}
	status.Progress = fmt.Sprintf("%.0f%%", 100*done/max(all, 1))
}

// kept is the status of an import: its conditions and its source decide what follows.
type kept = statuses.Memory[*v1beta1.VirtualMachineTemplateImport, v1beta1.VirtualMachineTemplateImportStatus]

// remembers writes the status if it changed. The error is Conflict if the import changed after it was read.
func (r *Reconciler) remembers(ctx context.Context, o *observed, p *progress) error {
	var told []events.Event
	next := statusOf(o, p)
	r.Metrics.moved(o, p, next.Progress)
	_, err := r.kept.Write(ctx, o.request, next, func(before, after *v1beta1.VirtualMachineTemplateImportStatus) []events.Event {
		told = transition(before, after, p, o)
		return told
	})
	if len(told) > 0 && p.State != requests.IsWorking {
		r.Metrics.ended(p.Reason, o)
	}
	return err
}
