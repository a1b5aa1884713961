package templateimport

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/texts"
)

// Stage is a file that must be copied into a volume before it can be read by ranges.
type Stage struct {
	// Compression is that of the file; empty for none.
	Compression string
}

// staging is the copy of the file in the status; nil if it is not needed.
func (o *observed) staging() *v1beta1.ImportStaged { return o.request.Status.Staging }

// isStaged reports whether the file is copied: the archive is read from the copy.
func (o *observed) isStaged() bool { return o.staging() != nil && o.staging().Complete }

// observeCopy reads the volume with the copy.
func (r *Reconciler) observeCopy(ctx context.Context, o *observed) (err error) {
	if s := o.staging(); s != nil {
		o.copy, err = requests.Read(ctx, r.Client, o.request.Namespace, s.Name, &cdiv1beta1.DataVolume{})
	}
	return err
}

// copied is what is known of the claim of the copy: CDI creates it with a file system and the name of the DataVolume, and Virtward may not
// read it. It is nil without a DataVolume of the import.
func (o *observed) copied() *corev1.PersistentVolumeClaim {
	if o.copy == nil || !o.owns(o.copy) {
		return nil
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.copy.Namespace, Name: o.copy.Name}}
}

// stages plans the copy of the file into a volume, and reports whether the import waits for it.
func (o *observed) stages() (d decision, waits bool) {
	s := o.staging()
	if s == nil || o.template != nil {
		return decision{}, false
	}
	what := "DataVolume " + o.request.Namespace + "/" + s.Name
	d = decision{progress: working(v1beta1.ReasonStaging, "the volume for the copy of the file is created"), after: serveInterval}
	reason, message := "", ""
	if o.copy != nil {
		reason, message = diskservers.Running(o.copy)
	}
	switch {
	case o.copy == nil && (s.Complete || o.pod != nil), o.copy != nil && o.copy.DeletionTimestamp != nil:
		return failed(v1beta1.ReasonSourceChanged, what+" with the copy of the file is deleted: create the import again"), true
	case o.copy == nil && o.read == nil:
		d.need = reading
	case o.copy == nil && o.quota != "":
		d.progress, d.after = working(v1beta1.ReasonQuotaExceeded, o.quota), quotaInterval
	case o.copy == nil:
		d.steps, d.keep = []requests.Step{{Verb: requests.Create, Object: imports.Copy(o.request)}}, true
	case !o.owns(o.copy):
		return failed(v1beta1.ReasonNameTaken, what+" exists, and is not of this import"), true
	case requests.HasAdopted(o.copy):
		return failed(v1beta1.ReasonNameTaken, requests.Adopted(o.copy)+": create the import again"), true
	case o.copy.Status.Phase == cdiv1beta1.Failed, reason == "Error" && o.copy.Status.RestartCount >= maxRestarts:
		return failed(v1beta1.ReasonImportFailed, what+" failed"+requests.Quoted(message)), true
	case o.copy.Status.Phase != cdiv1beta1.Succeeded:
		d.progress.Message = "waiting for " + what + requests.Quoted(message)
	case s.Complete:
		return decision{}, false
	default:
		return o.copying(what), true
	}
	return d, true
}

// copying plans the pod that copies the file, and its end.
func (o *observed) copying(what string) decision {
	d := decision{progress: working(v1beta1.ReasonStaging, "the pod that copies the file into "+what+" is created"), after: startInterval}
	switch {
	case o.pod == nil && o.read == nil:
		d.need = reading
	case o.pod == nil:
		d.serve = true
	case !o.isOwnPod():
		return failed(v1beta1.ReasonNameTaken, "Pod "+requests.Named(o.pod)+" exists, and is not of this import")
	case o.pod.DeletionTimestamp != nil:
		d.progress.Message = "waiting for the deletion of Pod " + requests.Named(o.pod)
	case imports.IsStager(o.suffix()) && o.pod.Status.Phase == corev1.PodSucceeded:
		staged := o.staging().DeepCopy()
		staged.Complete = true
		d.progress = working(v1beta1.ReasonReadingSource, "the file is copied into "+what)
		d.progress.staging = staged
	case !imports.IsStager(o.suffix()), !o.isServing():
		d.steps = []requests.Step{{Verb: requests.Remove, Object: o.pod}}
	default:
		return o.watching(what)
	}
	return d
}

// stageEnd is why a file cannot be copied. Without a reason, it can be another one at the next attempt. The message follows the field of the
// source, unless the size of the copy is wrong.
type stageEnd struct{ reason, message string }

// stageEnds are those of the codes with which the program of a pod ends. Texts of the program are not used, as those of the pod of a claim.
var stageEnds = map[transfer.StageExit]stageEnd{
	transfer.StageTooLarge:     {v1beta1.ReasonInvalidConfiguration, "the OVA is larger: create the import again with a larger size"},
	transfer.StageDamaged:      {v1beta1.ReasonNotImportable, "the compressed file is damaged or truncated"},
	transfer.StageWindow:       {v1beta1.ReasonNotImportable, fmt.Sprintf("zstd needs a window of more than %d MiB: compress the file with a lower level, and without --long", transfer.MaxWindow>>20)},
	transfer.StageDictionary:   {v1beta1.ReasonNotImportable, fmt.Sprintf("xz needs a dictionary of more than %d MiB: compress the file with one of the presets, such as xz -9", transfer.MaxDictionary>>20)},
	transfer.StageFilter:       {v1beta1.ReasonNotImportable, "xz has a filter for programs, which is not read: compress the file without a filter"},
	transfer.StageMismatch:     {v1beta1.ReasonVerificationFailed, "the registry sends a layer with another digest"},
	transfer.StageNotPermitted: {v1beta1.ReasonSourceNotPermitted, "the server redirects to a host or an address that an admin does not permit"},
	transfer.StageUnavailable:  {"", "the server does not send the whole file"},
	transfer.StageUnwritable:   {"", "the volume cannot be written"},
}

// watching says how far a pod is that copies the file.
func (o *observed) watching(what string) decision {
	d := decision{need: copying, progress: working(v1beta1.ReasonStaging, "the file is copied into "+what), after: verifyingInterval}
	if last := o.last(); strings.Contains(last, copiedInto+what) {
		d.progress.Message = last // it has numbers
	}
	code := codeOf(o.pod)
	switch end := stageEnds[code]; {
	case code == transfer.StageTooLarge:
		return failed(end.reason, "spec.staging.size: "+end.message)
	case end.reason != "":
		return failed(end.reason, pathOf(o.request)+": "+end.message)
	case code != 0:
		d.progress.Message = fmt.Sprintf("copying the file into %s failed, and is tried again: %s", what, cmp.Or(end.message, fmt.Sprintf("the program ended with the code %d", code)))
	case !diskservers.Listens(o.pod):
		d.progress.Message = o.starting()
	}
	return d
}

// codeOf is the code with which the program of a pod ended last; 0 while it runs.
func codeOf(pod *corev1.Pod) transfer.StageExit {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if ended != nil && ended.ExitCode != 0 && (!s.Ready || stageEnds[transfer.StageExit(ended.ExitCode)].reason != "") {
				return transfer.StageExit(ended.ExitCode)
			}
		}
	}
	return 0
}

// copiedInto is in a message with numbers, before the volume.
const copiedInto = " of the file are copied into "

// copies asks the pod how far it is, if this process has created it. Others know only that it runs.
func (r *Reconciler) copies(o *observed, d *decision) {
	uid := string(o.request.UID)
	if o.key.suffix != o.suffix() || !diskservers.Listens(o.pod) {
		d.need = nothing
		return
	}
	task, known := r.polls.Get(uid)
	switch {
	case !known:
		at := o.at(imports.StatusURL(o.request.Namespace, o.key.suffix))
		_ = r.polls.Start(uid, o.request.Namespace, func(ctx context.Context, _ *transfers.Progress) (*transfer.StageStatus, error) { // another try follows
			return r.Source.Copied(ctx, at)
		}, nil)
		d.after = readingInterval
	case !task.Ended:
		d.after = readingInterval
	default:
		r.polls.Forget(uid)
		if task.Err == nil {
			d.progress.Message = copiedText(task.Result) + copiedInto + "DataVolume " + o.request.Namespace + "/" + o.staging().Name
		}
	}
}

// copiedText says how much is copied.
func copiedText(s *transfer.StageStatus) string {
	if s.Total <= 0 || s.Done > s.Total {
		return texts.Bytes(max(0, s.Done))
	}
	return texts.Bytes(max(0, s.Done)) + " of " + texts.Bytes(s.Total)
}
