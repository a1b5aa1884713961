package templateimport

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/servers"
)

// maxKeys bounds the keys that are kept. Further imports from claims wait.
const maxKeys = 2_000

// patience is how long a pod may take to start before the status says what may keep its claim.
const patience = 30 * time.Second

// annotationPhase of a claim is the phase of the pod of CDI that writes it. A claim that CDI does not write has none.
const annotationPhase = "cdi.kubevirt.io/storage.pod.phase"

// key is how the archive of a claim is read from its pod.
type key struct {
	suffix, token string
	certificate   []byte
}

// keys are those of the pods that this process created, by the UIDs of their imports. They are in no object that the process could read: a
// pod whose key is not known is replaced when its archive is needed.
type keys struct {
	mu sync.Mutex
	of map[types.UID]key
}

func (k *keys) set(uid types.UID, of key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of[uid] = of
}

func (k *keys) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, uid)
}

// get returns the key of an import, and whether there is a place for it.
func (k *keys) get(uid types.UID) (of key, place bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of, known := k.of[uid]
	return of, known || len(k.of) < maxKeys
}

// Place is where a pod serves the archive of a claim.
type Place struct {
	// URL has the name in the certificate, and Address is connected to.
	URL, Address string
	// Token is what requests must have, and Certificate in PEM is that of the pod.
	Token       string
	Certificate []byte
}

// place is where the archive of the claim is served; nil for another source.
func (o *observed) place() *Place {
	if !o.isMounted() || o.pod == nil {
		return nil
	}
	return o.at(imports.ArchiveURL(o.request.Namespace, o.key.suffix))
}

// at is how a URL of the pod is read.
func (o *observed) at(url string) *Place {
	return &Place{
		URL: url, Address: net.JoinHostPort(o.pod.Status.PodIP, strconv.Itoa(servers.Port)),
		Token: o.key.token, Certificate: o.key.certificate,
	}
}

// isClaim reports whether the source is a claim.
func (o *observed) isClaim() bool { return o.request.Spec.Source.PVC != nil }

// isMounted reports whether the archive is in a claim: that of the source, or that of the copy.
func (o *observed) isMounted() bool { return o.isClaim() || o.isStaged() }

// claimed says what is wrong with the claim, if anything.
func (o *observed) claimed() (d decision, wrong bool) {
	if !o.isClaim() || o.template != nil {
		return decision{}, false
	}
	const path = "spec.source.pvc.name: "
	named := o.request.Namespace + "/" + o.request.Spec.Source.PVC.Name
	d.after = retryInterval
	switch {
	case o.forbidden:
		d = failed(v1beta1.ReasonCredentialsForbidden, path+"Virtward may not mount the PersistentVolumeClaim: an admin of the namespace can permit the account virtward-templateimports "+
			"to get it with a Role and a RoleBinding, see docs/import-export.md")
	case o.claim == nil:
		d.progress = working(v1beta1.ReasonSourceUnavailable, path+"there is no PersistentVolumeClaim "+named)
	case o.claim.DeletionTimestamp != nil: // it stays until no pod mounts it
		d = failed(v1beta1.ReasonSourceChanged, path+"PersistentVolumeClaim "+named+" is deleted")
	case o.claim.Annotations[annotationPhase] != "" && o.claim.Annotations[annotationPhase] != string(corev1.PodSucceeded):
		d.progress = working(v1beta1.ReasonSourceUnavailable, path+"CDI has not written PersistentVolumeClaim "+named+" yet")
	default:
		return decision{}, false
	}
	return d, true
}

// through returns a decision that needs the source, or what makes the source readable before: a pod that serves the archive of a claim. A
// result that is held needs no pod.
func (o *observed) through(d decision) decision {
	if !o.isMounted() || d.need == reading && o.held {
		return d
	}
	if o.claim == nil {
		return failed(v1beta1.ReasonSourceChanged, "the volume with the file is deleted: create the import again")
	}
	first := decision{progress: working(v1beta1.ReasonReadingSource, "the pod that reads PersistentVolumeClaim "+o.claim.Name+" is created"), after: startInterval}
	switch {
	case o.pod == nil && o.full:
		first.progress.Message, first.after = fmt.Sprintf("other imports are read from claims: at most %d at a time", maxKeys), retryInterval
	case o.pod == nil:
		first.serve = true
	case !o.isOwnPod():
		return failed(v1beta1.ReasonNameTaken, "Pod "+requests.Named(o.pod)+" exists, and is not of this import")
	case o.pod.DeletionTimestamp != nil:
		first.progress.Message = "waiting for the deletion of Pod " + requests.Named(o.pod)
	case !o.isServing(), o.key.suffix != o.suffix():
		first.steps = []requests.Step{{Verb: requests.Remove, Object: o.pod}}
	case !diskservers.Listens(o.pod):
		first.progress.Message = o.starting()
	default:
		return d
	}
	return first
}

// isServing reports whether the pod has all its objects, and has not ended.
func (o *observed) isServing() bool {
	return o.isComplete() && o.pod.Status.Phase != corev1.PodFailed && o.pod.Status.Phase != corev1.PodSucceeded
}

// starting says what the pod of a claim waits for.
func (o *observed) starting() string {
	text := "waiting for Pod " + requests.Named(o.pod) + " to start, which reads PersistentVolumeClaim " + o.claim.Name
	if trouble := diskservers.TroubleOf(o.pod); trouble != "" {
		return text + ": " + trouble
	}
	if o.isStaged() {
		return text
	}
	shared := slices.ContainsFunc(o.claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
	if o.now.Sub(o.pod.CreationTimestamp.Time) > patience && !shared {
		text += ". The claim can be used on one node only: a pod or a virtual machine that uses it on another node must end first"
	}
	return text
}
