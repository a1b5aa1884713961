package templateimport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/sources/transfers"
)

// Options configure a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes.
	Client client.Client
	// Source reads appliances.
	Source Source
	// Server is the pod that serves disks.
	Server servers.Program
	// Namespace is that of this process, which connects to the pods of claims.
	Namespace string
	// Deadlines bound the steps.
	Deadlines Deadlines
	// Guards must have been active since an import was created: they check what its author is permitted to import.
	Guards *guarded.Guards
	// Tell creates an event on an import.
	Tell func(*v1beta1.VirtualMachineTemplateImport, events.Event)
	// Metrics count imports; nil for none.
	Metrics *Metrics
	Clock   clock.PassiveClock
}

// Reconciler imports appliances. Its keys are the names of the imports. Create it with New.
type Reconciler struct {
	Options

	kept *kept
	keys keys
	// children are the objects that the active imports wait for.
	children *dependents.Index
	// readings and verifications have the UIDs of the imports as keys.
	readings      *transfers.Pool[*Read]
	verifications *transfers.Pool[*verification]
	// dictionaries are the verifications of files whose dictionary is larger than a window. Each has an ended one in verifications, so that
	// together they are not more.
	dictionaries *transfers.Pool[*verification]
	// polls ask pods how far their copies are.
	polls *transfers.Pool[*transfer.StageStatus]

	mu sync.Mutex
	// held are the namespaces of the imports with a reading, by the UID, and uids the UIDs of the keys.
	held map[types.UID]string
	uids map[reconcile.Request]types.UID
}

// New returns a Reconciler. Its readings end with the context.
func New(ctx context.Context, options Options) *Reconciler {
	return &Reconciler{
		Options: options, children: dependents.New(maxChildren), held: map[types.UID]string{}, uids: map[reconcile.Request]types.UID{},
		keys:          keys{of: map[types.UID]key{}},
		readings:      transfers.New[*Read](ctx, transfers.Limits{Running: maxReadings, Namespace: 1}),
		verifications: transfers.New[*verification](ctx, transfers.Limits{Running: maxVerifications, Namespace: 2}),
		dictionaries:  transfers.New[*verification](ctx, transfers.Limits{Running: 1, Namespace: 1}),
		polls:         transfers.New[*transfer.StageStatus](ctx, transfers.Limits{Running: maxPolls, Namespace: 1}),
		kept: &kept{Client: options.Client, Owner: Owner, Tell: options.Tell, Status: func(r *v1beta1.VirtualMachineTemplateImport) *v1beta1.VirtualMachineTemplateImportStatus {
			return &r.Status
		}},
	}
}

// maxRounds bounds the plans of one reconciliation. An import without waiting needs nine.
const maxRounds = 12

// soon is the delay before the reconciliation that follows a status, and behind that after a conflict.
const soon, behind = time.Millisecond, time.Second

// unwatchedInterval is the interval at which objects are read that do not fit into the index.
const unwatchedInterval = 30 * time.Second

// The intervals at which a reading and a verification are observed, and after which a source is read again.
const (
	readingInterval   = time.Second
	verifyingInterval = 5 * time.Second
	retryInterval     = 20 * time.Second
)

// Reconcile continues an import as far as it can without waiting: observe, plan, apply, and at the end the status.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	result, err := r.continues(ctx, key)
	if err != nil {
		return statuses.Requeue(behind, reconcile.Result{}, fmt.Errorf("VirtualMachineTemplateImport %s: %w", key, err))
	}
	return result, nil
}

func (r *Reconciler) continues(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	for range maxRounds {
		request, err := requests.Read(ctx, r.Client, key.Namespace, key.Name, &v1beta1.VirtualMachineTemplateImport{})
		if request == nil || err != nil {
			if err == nil {
				r.gone(key)
			}
			return reconcile.Result{}, err
		}
		r.note(key, request.UID)
		o, err := r.observe(ctx, request)
		if err != nil {
			return reconcile.Result{}, err
		}
		r.watch(key, o)
		d, err := r.decide(ctx, o)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case len(d.steps) == 0 && !d.serve:
			return r.finish(ctx, o, &d)
		}
		if err := r.apply(ctx, o, &d); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return r.denied(ctx, o, &d, err)
		}
	}
	return reconcile.Result{RequeueAfter: behind}, nil
}

// decide plans, and reads what the plan needs. A plan that still needs something waits for it.
func (r *Reconciler) decide(ctx context.Context, o *observed) (decision, error) {
	d := o.plan(r.Deadlines)
	switch d.need {
	case reading:
		if waits := r.reads(o, &d); waits {
			return d, nil
		}
		if o.request.Status.Source != nil || o.staging() != nil {
			if err := r.checkQuota(ctx, o); err != nil {
				return d, err
			}
		}
		d = o.plan(r.Deadlines)
	case verifying:
		r.verifies(o, &d)
	case copying:
		r.copies(o, &d)
	}
	return d, nil
}

// reads starts the reading of an appliance, or takes its result. It reports whether the plan waits, or failed.
func (r *Reconciler) reads(o *observed, d *decision) (waits bool) {
	uid := o.request.UID
	task, known := r.readings.Get(string(uid))
	switch {
	case !known && !r.hold(uid, o.request.Namespace):
		d.progress.Message, d.after = fmt.Sprintf("other imports are read: at most %d of a namespace, and %d of all, at a time", maxHeldOfOne, maxHeld), retryInterval
		return true
	case !known:
		request, at := o.request.DeepCopy(), o.place()
		err := r.readings.Start(string(uid), o.request.Namespace, func(ctx context.Context, _ *transfers.Progress) (*Read, error) {
			return r.Source.Read(ctx, request, at)
		}, nil)
		if err != nil {
			d.progress.Message = err.Error()
		}
		d.after = readingInterval
		return true
	case !task.Ended:
		d.after = readingInterval
		return true
	case task.Err != nil:
		r.forget(uid)
		d.failsBy(task.Err)
		return true
	}
	o.read = task.Result
	return false
}

// verifies starts the comparison of a file, or takes its result.
func (r *Reconciler) verifies(o *observed, d *decision) {
	task, isLarge, known := r.comparisonOf(o.request.UID)
	switch {
	case !known:
		if waits := r.reads(o, d); waits {
			return
		}
		if !o.isSame() {
			f := changed(o.request)
			*d = failed(f.Reason, f.Message)
			return
		}
		request, at, names, digests, read := o.request.DeepCopy(), o.place(), namesOf(o), digestsOf(o), o.read.Texts
		if o.isStaged() { // the pod of a copy is not believed: the web server is read
			at = nil
		}
		err := r.startVerification(o.request, func(ctx context.Context, window uint64, progress *transfers.Progress) (*verification, error) {
			verified, err := r.Source.Verify(ctx, request, at, digests, window, progress)
			if err != nil {
				return nil, err //nolint:wrapcheck // it is an Error for users
			}
			if err := compare(request, read, verified.Files); err != nil {
				return nil, err
			}
			return verificationOf(verified, names), nil
		})
		if err != nil {
			d.progress.Message = err.Error()
		}
		r.forget(o.request.UID)
		d.after = readingInterval
	case !task.Ended:
		if task.Running && task.Total > 0 {
			d.progress.Message = fmt.Sprintf("%d%% of the file is read and compared with its digests", 100*task.Done/task.Total)
		} else if !task.Running && isLarge {
			d.progress.Message = errDictionary.Message
		}
		d.after = verifyingInterval
	case task.Err != nil:
		r.forgetVerification(o.request.UID)
		d.failsBy(task.Err)
	default:
		r.forgetVerification(o.request.UID)
		d.progress.verified = task.Result
		d.after = soon
	}
}

// digestsOf are the digests of the files that the import uses, by their names in the archive. An empty one is any.
func digestsOf(o *observed) map[string]string {
	all := map[string]string{}
	if o.isStaged() {
		for name := range o.read.Texts {
			all[name] = ""
		}
	}
	disks := o.read.Outcome.Disks
	for i := range disks {
		for _, p := range disks[i].File.Parts {
			if all[p.Name] = p.Digest; o.request.Spec.Verify == v1beta1.ImportVerifySkip {
				all[p.Name] = ""
			}
		}
	}
	return all
}

// compare compares the texts that were read of a copy with those of the web server, of which the digests are.
func compare(of *v1beta1.VirtualMachineTemplateImport, read, digests map[string]string) error {
	if of.Status.Staging == nil {
		return nil
	}
	for name, digest := range read {
		if digests[name] != digest {
			return changed(of)
		}
	}
	return nil
}

// namesOf are the names of the files of each disk.
func namesOf(o *observed) [][]string {
	disks := o.read.Outcome.Disks
	all := make([][]string, len(disks))
	for i := range disks {
		for _, p := range disks[i].File.Parts {
			all[i] = append(all[i], p.Name)
		}
	}
	return all
}

// verification is what a comparison of a whole file computed.
type verification struct {
	// digest is that of a file; empty for an artifact.
	digest string
	// disks are the digests of the files of each disk; nil for an artifact with disks as layers.
	disks [][]string
}

func verificationOf(verified *Verified, names [][]string) *verification {
	v := &verification{digest: verified.Digest}
	if verified.Files == nil {
		return v
	}
	for _, disk := range names {
		var digests []string
		for _, name := range disk {
			digests = append(digests, verified.Files[name])
		}
		v.disks = append(v.disks, digests)
	}
	return v
}

// failsBy ends an import by a fault, or repeats the step after another error.
func (d *decision) failsBy(err error) {
	var final *imports.Fault
	if errors.As(err, &final) {
		*d = failed(final.Reason, final.Message)
		return
	}
	d.progress = working(v1beta1.ReasonSourceUnavailable, policies.PublicError(err))
	d.after = retryInterval
}

// hold reserves a place for the result of a reading.
func (r *Reconciler) hold(uid types.UID, namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, holds := r.held[uid]; holds {
		return true
	}
	own := 0
	for _, of := range r.held {
		if of == namespace {
			own++
		}
	}
	if own >= maxHeldOfOne || len(r.held) >= maxHeld {
		return false
	}
	r.held[uid] = namespace
	return true
}

// forget ends the reading of an import, and gives its place to another one.
func (r *Reconciler) forget(uid types.UID) bool {
	r.polls.Forget(string(uid))
	if !r.readings.Forget(string(uid)) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, uid)
	return true
}

// note remembers the UID of an import. An import with the name of one that is gone has another.
func (r *Reconciler) note(key reconcile.Request, uid types.UID) {
	r.mu.Lock()
	was := r.uids[key]
	r.uids[key] = uid
	r.mu.Unlock()
	if was != "" && was != uid {
		r.Metrics.gone(was)
		r.forget(was)
		r.keys.forget(was)
		r.forgetVerification(was)
	}
}

// gone forgets an import that does not exist.
func (r *Reconciler) gone(key reconcile.Request) {
	r.children.Set(key, nil)
	r.mu.Lock()
	uid := r.uids[key]
	delete(r.uids, key)
	r.mu.Unlock()
	if uid != "" {
		r.Metrics.gone(uid)
		r.forget(uid)
		r.keys.forget(uid)
		r.forgetVerification(uid)
	}
}

// release forgets what a decision does not need.
func (r *Reconciler) release(o *observed, d *decision) {
	if d.need == nothing && !d.keep && d.progress.found == nil { // it takes no place from others while it waits for something else
		r.forget(o.request.UID)
	}
	if d.progress.State == requests.IsWorking && o.request.DeletionTimestamp == nil {
		return
	}
	r.keys.forget(o.request.UID)
	if !r.forget(o.request.UID) || !r.forgetVerification(o.request.UID) {
		d.after = readingInterval // they end soon
	}
}

// finish writes the status of a plan without steps.
func (r *Reconciler) finish(ctx context.Context, o *observed, d *decision) (reconcile.Result, error) {
	r.release(o, d)
	if o.request.DeletionTimestamp != nil {
		return reconcile.Result{RequeueAfter: d.after}, nil
	}
	ended := requests.IsFailed(o.request.Status.Conditions) || requests.IsCompleted(o.request.Status.Conditions)
	if err := r.remembers(ctx, o, &d.progress); err != nil {
		return reconcile.Result{}, err
	}
	if d.progress.found != nil || d.progress.verified != nil || d.progress.staging != nil || !ended && d.progress.State != requests.IsWorking { // what follows is planned from the status
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if o.unwatched && !ended {
		d.after = unwatchedInterval
	}
	if !d.deadline.IsZero() && d.progress.State == requests.IsWorking {
		left := max(soon, d.deadline.Sub(o.now))
		if d.after == 0 || left < d.after {
			d.after = left
		}
	}
	return reconcile.Result{RequeueAfter: d.after}, nil
}

// apply executes a plan, in its order.
func (r *Reconciler) apply(ctx context.Context, o *observed, d *decision) error {
	if d.serve {
		return r.serve(ctx, o)
	}
	return requests.Apply(ctx, r.Client, Owner, d.steps...) //nolint:wrapcheck // it names the step
}

// serve creates the pod and its objects. What fails is not continued: the pod is deleted with what belongs to it.
func (r *Reconciler) serve(ctx context.Context, o *observed) error {
	suffix, err := diskservers.NewSuffix()
	if err != nil {
		return err
	}
	var plan *transfer.Plan
	var authorities []byte
	if o.staging() != nil && !o.isStaged() {
		suffix, authorities = imports.StagerSuffix(suffix), o.read.Origin.Authorities
		if plan, err = imports.StagerPlan(o.request, &o.read.Origin, o.claim); err != nil {
			return err //nolint:wrapcheck // it is a fault
		}
	} else if o.read == nil { // of a claim
		suffix, plan = imports.ReaderSuffix(suffix), imports.ReaderPlan(o.request, o.claim)
	} else if plan, err = imports.PlanOf(o.request, &o.read.Origin, o.read.Outcome.Disks, o.claim); err != nil {
		return err //nolint:wrapcheck // it is a fault
	} else {
		authorities = o.read.Origin.Authorities
	}
	material, err := diskservers.NewMaterial(&imports.Servers, o.request.Namespace, suffix, o.now, r.Deadlines.Import)
	if err != nil {
		return err
	}
	if o.claim != nil && !o.full {
		r.keys.set(o.request.UID, key{suffix: suffix, token: material.Token, certificate: material.Certificate})
	}
	pod := imports.Pod(o.request, &r.Server, suffix, o.claim)
	err = diskservers.Create(ctx, r.Client, Owner, pod, func(pod *corev1.Pod) ([]servers.Object, error) {
		return imports.Objects(pod, plan, authorities, material, r.Namespace) //nolint:wrapcheck // it says what failed
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the step
	}
	r.forget(o.request.UID)
	return nil
}

// denied handles a write that the API server denies: for good, or for now.
func (r *Reconciler) denied(ctx context.Context, o *observed, d *decision, err error) (reconcile.Result, error) {
	var final *imports.Fault
	if errors.As(err, &final) {
		ended := failed(final.Reason, final.Message)
		return r.finish(ctx, o, &ended)
	}
	if o.request.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	return requests.OnDenial(err, func(text string) (reconcile.Result, error) { //nolint:wrapcheck // as it was
		rejected := failed(v1beta1.ReasonRejected, text)
		return r.finish(ctx, o, &rejected)
	}, func(text string) (reconcile.Result, error) { return r.blocked(ctx, o, d, text) })
}

// blocked says what is denied, and tries again until the deadline.
func (r *Reconciler) blocked(ctx context.Context, o *observed, d *decision, text string) (reconcile.Result, error) {
	if !d.deadline.IsZero() && !o.now.Before(d.deadline) {
		late := failed(v1beta1.ReasonDeadlineExceeded, fmt.Sprintf("it took longer than %s: %s", d.deadline.Sub(d.since), text))
		return r.finish(ctx, o, &late)
	}
	r.forget(o.request.UID)
	d.progress = working(v1beta1.ReasonBlocked, text)
	if err := r.remembers(ctx, o, &d.progress); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: requests.NextAttempt(d.since, o.now)}, nil
}
