package templates

import (
	"errors"
	"slices"
	"strings"

	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// The kinds of objects that events of a capture are about, as the words of events name them.
const (
	requestKind  = "request"
	templateKind = "template"
	snapshotKind = "snapshot"
	contentKind  = "content"
	volumeKind   = "datavolume"
)

// captureEvent is an event of a capture: what happens to the objects of a kind.
type captureEvent struct {
	name, kind string
	// gone: they are deleted. relabelled: they belong to another request. foreign: another user has created them before.
	gone, relabelled, foreign bool
	// first: only the first volume.
	first bool
	// state is the rest of the event without hyphens: inprogress.
	state string
}

// readEvent reads an event such as datavolumes-in-progress or delete-snapshot. It reads events of the same form that no recorded case has.
func readEvent(name string) captureEvent {
	e := captureEvent{name: name}
	var state []string
	for _, word := range strings.Split(name, "-") {
		singular := strings.TrimSuffix(word, "s")
		switch {
		case e.kind == "" && slices.Contains([]string{requestKind, templateKind, snapshotKind, contentKind, volumeKind}, singular):
			e.kind = singular
			if singular == volumeKind && word == singular { // one of them
				e.first = true
			}
		case slices.Contains([]string{"delete", "deleted", "remove", "removed", "gone", "lost", "vanish", "vanished", "disappears", "disappeared"}, word),
			word == "missing" && len(state) == 0:
			e.gone = true
		case word == "relabel", word == "relabeled", word == "relabelled":
			e.relabelled = true
		case word == "foreign":
			e.foreign = true
		case word == "first" && e.kind == volumeKind && len(state) == 0:
			e.first = true
		default:
			state = append(state, word)
		}
	}
	e.state = strings.Join(state, "")
	return e
}

// phases are those of DataVolumes.
var phases = []cdiv1beta1.DataVolumePhase{
	cdiv1beta1.Pending, cdiv1beta1.PVCBound, cdiv1beta1.ImportScheduled, cdiv1beta1.ImportInProgress, cdiv1beta1.CloneScheduled, cdiv1beta1.CloneInProgress,
	cdiv1beta1.SnapshotForSmartCloneInProgress, cdiv1beta1.CloneFromSnapshotSourceInProgress, cdiv1beta1.SmartClonePVCInProgress, cdiv1beta1.CSICloneInProgress,
	cdiv1beta1.ExpansionInProgress, cdiv1beta1.NamespaceTransferInProgress, cdiv1beta1.PrepClaimInProgress, cdiv1beta1.RebindInProgress,
	cdiv1beta1.UploadScheduled, cdiv1beta1.UploadReady, cdiv1beta1.WaitForFirstConsumer, cdiv1beta1.PendingPopulation,
	cdiv1beta1.Succeeded, cdiv1beta1.Failed, cdiv1beta1.Paused, cdiv1beta1.Unknown,
}

// phaseOf is the phase that a state names: waitforfirstconsumer.
func phaseOf(state string) (cdiv1beta1.DataVolumePhase, bool) {
	if state == "inprogress" || state == "running" {
		return cdiv1beta1.CloneInProgress, true
	}
	i := slices.IndexFunc(phases, func(p cdiv1beta1.DataVolumePhase) bool { return strings.EqualFold(string(p), state) })
	if i < 0 {
		return "", false
	}
	return phases[i], true
}

// errUnplayed is the error of an event that has no meaning here. Its case is skipped, and the replay continues.
var errUnplayed = errors.New("it has no meaning here")
