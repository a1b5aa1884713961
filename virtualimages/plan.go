package virtualimages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// Action is the one thing that follows after the status is written.
type Action string

// The actions.
const (
	// Nothing follows.
	Nothing Action = ""
	// Claim adds the finalizer. The calls of the backend begin after it.
	Claim Action = "Claim"
	// Ensure starts or continues the import.
	Ensure Action = "Ensure"
	// ListUsers reads the virtual machines that use the image, without a cache, and its users in the cloud that stores it.
	ListUsers Action = "ListUsers"
	// Delete deletes the image in the backend.
	Delete Action = "Delete"
	// Release removes the finalizer.
	Release Action = "Release"
)

// Settings bound the steps.
type Settings struct {
	// Admission is longer than the admission of a virtual machine can last: a deletion waits this long between the end of
	// ready and the last look at the virtual machines.
	Admission time.Duration
	// FirstRetry and LastRetry are the times between two attempts, doubled after each.
	FirstRetry, LastRetry time.Duration
	// MaxAttempts is the number of attempts.
	MaxAttempts int32
	// Poll is the time between two observations of an import, Drift that between those of an image that is ready.
	Poll, Drift time.Duration
}

// Defaults are the settings of the controller. An API server ends requests after 60 seconds.
func Defaults() Settings {
	return Settings{Admission: 75 * time.Second, FirstRetry: 5 * time.Second, LastRetry: time.Minute, MaxAttempts: 8, Poll: 2 * time.Second, Drift: 10 * time.Minute}
}

// Input is what a plan depends on.
type Input struct {
	Settings

	Image *v1alpha1.VirtualImage
	// Cluster is the UID of the namespace kube-system.
	Cluster string
	// Class is the name of the class that stores the image. It stays the same when the default changes.
	Class string
	// Fault says why no class can store the image; nil if one can.
	Fault *Fault
	// Observation is what the backend says; nil before the first call.
	Observation *Observation
	// Users are the virtual machines that use the image, as the watches know them; nil before they are complete.
	Users *Users
	// Uncounted tells that there are too many virtual machines to know the users. They are read before the image is deleted.
	Uncounted bool
	// Unreachable says why the backend did not answer; nil if it did, or was not called.
	Unreachable *Fault
	// Templates are the templates that use the image; nil before they are read.
	Templates *Users
	// Live are the users after the action ListUsers; nil without it. Then Cloud was read after this action too.
	Live *Users
	// CloudCounts tells that the image is stored in a cloud whose users count, and Cloud are these; nil before they are read.
	CloudCounts bool
	Cloud       *CloudUsers
	// Leaving tells that the namespace of the image is being deleted.
	Leaving bool
	Now     metav1.Time
}

// Fault is why an import cannot begin.
type Fault struct{ Reason, Message string }

// Result is a plan.
type Result struct {
	Status v1alpha1.VirtualImageStatus
	Action Action
	// After is the time until the next plan without a change; 0 for never.
	After time.Duration
}

// The reasons of conditions.
const (
	ReasonPending      = "Pending"
	ReasonImporting    = "Importing"
	ReasonImported     = "Imported"
	ReasonImportFailed = "ImportFailed"
	ReasonRetrying     = "Retrying"
	ReasonNameTaken    = "NameTaken"
	ReasonRemoved      = "Removed"
	ReasonDeactivated  = "Deactivated"
	ReasonNotImported  = "NotImported"
	ReasonReady        = "Ready"
	ReasonInUse        = "InUse"
	ReasonNotInUse     = "NotInUse"
	ReasonDraining     = "Draining"
	ReasonDeleting     = "Deleting"
	ReasonBlocked      = "Blocked"
	ReasonUnknown      = "Unknown"
	ReasonUsersUnknown = "UsersUnknown"
	ReasonUnreachable  = "BackendUnreachable"
	// ReasonUploadPending is that of an image whose backend waits for its file, ReasonUploadExpired that of one whose file was
	// not uploaded in time.
	ReasonUploadPending = "UploadPending"
	ReasonUploadExpired = "UploadExpired"
)

// maxQuoted bounds the messages of backends.
const maxQuoted = 500

// Plan decides what comes next. It changes no argument.
func Plan(in *Input) Result {
	p := &planner{Input: in, Result: Result{Status: *in.Image.Status.DeepCopy()}}
	p.Status.ObservedGeneration = in.Image.Generation
	p.usage()
	claimed := slices.Contains(in.Image.Finalizers, v1alpha1.Finalizer)
	switch {
	case in.Image.DeletionTimestamp != nil && !claimed:
	case in.Image.DeletionTimestamp != nil:
		p.deletion()
	case p.Status.ID == "":
		p.start(claimed)
	case !claimed:
		p.Action = Claim
	case in.Observation == nil:
		p.unreachable()
	default:
		p.observed(in.Observation)
	}
	return p.Result
}

type planner struct {
	*Input
	Result

	// cloudUses tells that the image has users in the cloud that stores it.
	cloudUses bool
}

// set sets a condition. Its time is that of the last change of its status or its reason.
func (p *planner) set(kind string, status metav1.ConditionStatus, reason, message string) {
	c := metav1.Condition{Type: kind, Status: status, Reason: reason, Message: texts.Shorten(message, maxQuoted), ObservedGeneration: p.Image.Generation, LastTransitionTime: p.Now}
	for i := range p.Status.Conditions {
		was := &p.Status.Conditions[i]
		if was.Type != kind {
			continue
		}
		if was.Status == c.Status && was.Reason == c.Reason {
			c.LastTransitionTime = was.LastTransitionTime
		}
		*was = c
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}

// condition is that of the status as it was read.
func (p *planner) condition(kind string) metav1.Condition {
	for _, c := range p.Image.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// pending sets Imported and Ready of an image that cannot be used yet.
func (p *planner) pending(reason, message string) {
	p.set(v1alpha1.ConditionImported, metav1.ConditionFalse, reason, message)
	p.notReady(reason, message)
}

func (p *planner) notReady(reason, message string) {
	p.Status.Ready = false
	p.set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
}

// usage sets the users. A template does not hold an image.
func (p *planner) usage() {
	if p.Templates != nil {
		p.Status.Usage.Templates = p.Templates.Listed()
	}
	p.cloudUses = p.cloudUse()
	users := p.Users
	if p.Live != nil {
		users = p.Live
	}
	if users == nil && !p.cloudUses {
		if p.condition(v1alpha1.ConditionInUse).Type == "" {
			p.set(v1alpha1.ConditionInUse, metav1.ConditionUnknown, ReasonUnknown, "the virtual machines are not read yet")
		}
		return
	}
	if users != nil {
		p.Status.Usage.VirtualMachines = users.Listed()
	}
	if p.Status.Usage.InUse = p.cloudUses || users.Total > 0; p.Status.Usage.InUse {
		p.set(v1alpha1.ConditionInUse, metav1.ConditionTrue, ReasonInUse, "used by "+strings.Join(UsedBy(&p.Status.Usage), ", "))
		return
	}
	message := "no virtual machine uses the image"
	if p.partlyCounted() {
		message = "no virtual machine of the cluster uses the image, and the condition CloudUsersCounted says which users in OpenStack are counted"
	}
	p.set(v1alpha1.ConditionInUse, metav1.ConditionFalse, ReasonNotInUse, message)
}

// start chooses the identifier. It is stored before the finalizer, and both before the first call.
func (p *planner) start(claimed bool) {
	if p.Fault != nil {
		p.pending(p.Fault.Reason, p.Fault.Message)
		p.After = p.LastRetry
		return
	}
	p.Status.ImageClassName = p.Class
	p.identify(1)
	if !claimed {
		p.Action = Claim
	}
}

// identify begins an attempt.
func (p *planner) identify(attempt int32) {
	p.Status.Attempt, p.Status.ID = attempt, ID(p.Cluster, p.Image.UID, attempt)
	p.Status.SizeBytes, p.Status.Size, p.Status.Checksum, p.Status.Progress = 0, "", "", ""
	p.pending(ReasonPending, fmt.Sprintf("attempt %d begins", attempt))
	p.After = p.Poll
}

// observed plans for an image that is not being deleted.
func (p *planner) observed(o *Observation) {
	p.After = p.Poll
	imported := p.condition(v1alpha1.ConditionImported)
	if p.retries(o, &imported) || p.expires(o, &imported) {
		return
	}
	switch o.State {
	case Absent, Spent, Waiting:
		p.absent(o, &imported)
	case Importing, Blocked:
		p.measure(o)
		p.pending(cmp.Or(o.Reason, ReasonImporting), cmp.Or(o.Message, "the image is being imported"))
		p.Action = Ensure
		if o.Reason == ReasonUploadPending { // it can last for hours, and a change of the DataVolume ends it
			p.After = p.LastRetry
		}
	case Ready:
		p.ready(o)
	case Failed:
		p.failed(o)
	case Deactivated:
		p.notReady(cmp.Or(o.Reason, ReasonDeactivated), cmp.Or(o.Message, "the backend does not serve the image"))
		p.After = p.Drift
	case Taken:
		p.pending(cmp.Or(o.Reason, ReasonNameTaken), o.Message)
		p.After = p.LastRetry
	}
}

// unreachable plans without an answer of the backend. An image that was imported stays ready. The time until the next call
// grows with the time since the first one that failed.
func (p *planner) unreachable() {
	p.After = p.Poll
	if p.Unreachable == nil {
		return
	}
	if p.condition(v1alpha1.ConditionImported).Status == metav1.ConditionTrue {
		p.After = p.LastRetry
		return
	}
	if was := p.condition(v1alpha1.ConditionReady); was.Reason == p.Unreachable.Reason {
		p.After = min(max(p.Now.Sub(was.LastTransitionTime.Time)/2, p.Poll), p.LastRetry)
	}
	p.notReady(p.Unreachable.Reason, p.Unreachable.Message)
}

// retries plans between two attempts: the failed one is deleted, then the next one has an identifier of its own.
func (p *planner) retries(o *Observation, imported *metav1.Condition) bool {
	if imported.Reason != ReasonRetrying {
		return false
	}
	if wait := p.remaining(imported.LastTransitionTime, p.backoff(p.Status.Attempt)); wait > 0 {
		p.After = wait
		return true
	}
	if o.gone() {
		p.identify(p.Status.Attempt + 1)
		return true
	}
	p.Action = Delete
	return true
}

// expires plans for an image whose file was not uploaded in time: what waits for the file is deleted, and the limits do not count
// the image any more.
func (p *planner) expires(o *Observation, imported *metav1.Condition) bool {
	expired := imported.Reason == ReasonUploadExpired
	if !expired && (o.State != Failed || o.Reason != ReasonUploadExpired) {
		return false
	}
	if !expired {
		p.pending(ReasonUploadExpired, o.Message)
	}
	if o.gone() {
		p.Status.SizeBytes, p.Status.Size = 0, ""
		p.After = p.Drift
		return true
	}
	p.Action = Delete
	return true
}

func (p *planner) absent(o *Observation, imported *metav1.Condition) {
	switch {
	case imported.Status == metav1.ConditionTrue:
		p.notReady(ReasonRemoved, cmp.Or(o.Message, "the image was deleted in its backend: delete the VirtualImage and create it again"))
		p.After = p.Drift
	case imported.Reason == ReasonImportFailed: // backends forget why
		p.After = p.Drift
	case o.State == Spent:
		p.identify(p.Status.Attempt + 1)
	case p.Fault != nil:
		p.pending(p.Fault.Reason, p.Fault.Message)
		p.After = p.LastRetry
	default:
		p.pending(cmp.Or(o.Reason, ReasonPending), cmp.Or(o.Message, "the import begins"))
		p.Action = Ensure
	}
}

func (p *planner) ready(o *Observation) {
	p.measure(o)
	p.Status.Ready, p.Status.Progress = true, "100%"
	p.set(v1alpha1.ConditionImported, metav1.ConditionTrue, ReasonImported, "the image is imported")
	p.set(v1alpha1.ConditionReady, metav1.ConditionTrue, ReasonReady, cmp.Or(o.Message, "virtual machines can use the image"))
	if p.After = p.Drift; p.CloudCounts && p.Cloud != nil && p.Cloud.Unanswered() {
		p.After = p.LastRetry
	}
}

func (p *planner) failed(o *Observation) {
	p.measure(o)
	message := cmp.Or(o.Message, "the import failed")
	if o.Permanent || p.Status.Attempt >= p.MaxAttempts {
		p.set(v1alpha1.ConditionImported, metav1.ConditionFalse, ReasonImportFailed, message)
		p.notReady(cmp.Or(o.Reason, ReasonImportFailed), message)
		p.After = p.Drift
		return
	}
	p.pending(ReasonRetrying, fmt.Sprintf("attempt %d of %d failed: %s", p.Status.Attempt, p.MaxAttempts, message))
	p.After = p.backoff(p.Status.Attempt)
}

// deletion waits for the virtual machines and the servers of the cloud, ends ready, waits for requests that were admitted before, looks once more, and
// deletes the image. It waits for none of these if the namespace is being deleted, or if nothing is left of the image.
func (p *planner) deletion() {
	p.After = p.Poll
	deleting := p.condition(v1alpha1.ConditionDeleting)
	drained := slices.Contains([]string{ReasonDraining, ReasonUsersUnknown, ReasonDeleting, ReasonBlocked}, deleting.Reason)
	switch {
	case p.Status.ID == "":
		p.Action = Release
	case p.Leaving, p.Observation != nil && p.Observation.gone():
		p.remove()
	case p.Live != nil && (p.Live.Total > 0 || p.cloudUses), p.Live == nil && !drained && (p.Users != nil && p.Users.Total > 0 || p.cloudUses):
		p.held()
	case !drained && p.unread() != "":
		p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonUnknown, p.unread())
		if p.Users != nil || p.Uncounted { // the image is planned again when the cloud is read
			p.After = p.LastRetry
		}
	case !drained:
		p.drain()
	case deleting.Reason == ReasonDraining, deleting.Reason == ReasonUsersUnknown:
		p.last(&deleting)
	default:
		p.remove()
	}
}

// unread says which users are not read yet; empty for none.
func (p *planner) unread() string {
	switch {
	case p.Users == nil && !p.Uncounted:
		return "the virtual machines are not read yet"
	case p.CloudCounts && p.Cloud == nil && p.Imported():
		return "the servers of the cloud are not read yet"
	}
	return ""
}

// held is the state of a deletion that waits for virtual machines: new ones may still use the image.
func (p *planner) held() {
	p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonInUse, "the deletion waits for those that use the image: "+strings.Join(UsedBy(&p.Status.Usage), ", "))
	if p.Observation != nil {
		p.observed(p.Observation)
	}
	p.After = min(p.After, p.LastRetry) // no watch reports the end of a permission or of the namespace
}

func (p *planner) drain() {
	p.notReady(ReasonDraining, "the image is being deleted")
	p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonDraining, fmt.Sprintf("the deletion waits %s for requests that were admitted before", p.Admission))
	p.After = p.Admission
}

// last looks once more. A cloud that does not answer could have users: then the image stays.
func (p *planner) last(deleting *metav1.Condition) {
	if wait := p.remaining(deleting.LastTransitionTime, p.Admission); wait > 0 && deleting.Reason == ReasonDraining {
		p.After = wait
		return
	}
	switch {
	case p.Live == nil:
		p.Action = ListUsers
	case p.CloudCounts && p.Imported() && (p.Cloud == nil || p.Cloud.Unanswered()):
		p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonUsersUnknown, "the deletion waits until the users in the cloud can be read: "+p.unansweredBy())
		p.After = p.LastRetry
	default:
		p.removing()
	}
}

// unansweredBy says which service of the cloud does not answer.
func (p *planner) unansweredBy() string {
	if p.Cloud == nil {
		return "they are not read yet"
	}
	if p.Cloud.Servers.Sight == Unanswered {
		return p.Cloud.Servers.Why
	}
	return p.Cloud.Volumes.Why
}

// removing is the state of a deletion that no user can end.
func (p *planner) removing() {
	p.notReady(ReasonDeleting, "the image is being deleted")
	p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonDeleting, "the backend deletes the image")
}

func (p *planner) remove() {
	deleting := p.condition(v1alpha1.ConditionDeleting).Reason
	p.notReady(ReasonDeleting, "the image is being deleted")
	if deleting != ReasonDeleting && deleting != ReasonBlocked {
		p.removing()
	}
	o := p.Observation
	switch {
	case o == nil:
		p.After = p.LastRetry
		if p.Fault != nil {
			p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonBlocked, p.Fault.Message)
		} else if p.Unreachable != nil {
			p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonBlocked, p.Unreachable.Message)
		}
		return
	case o.gone():
		p.Action = Release
		return
	case o.State == Blocked:
		p.set(v1alpha1.ConditionDeleting, metav1.ConditionTrue, ReasonBlocked, cmp.Or(o.Message, "the backend does not delete the image"))
		p.After = p.LastRetry
	}
	p.Action = Delete
}

// measure copies sizes and progress.
func (p *planner) measure(o *Observation) {
	if o.SizeBytes > 0 {
		p.Status.SizeBytes, p.Status.Size = o.SizeBytes, FormatSize(o.SizeBytes)
	}
	if o.Checksum != "" {
		p.Status.Checksum = texts.Shorten(o.Checksum, maxQuoted)
	}
	if progress := o.progress(); progress != "" {
		p.Status.Progress = progress
	}
}

// progress is such as 42%, 42% of 56.78mb, or 23.85mb if the size is not known.
func (o *Observation) progress() string {
	switch percent := fmt.Sprintf("%d%%", min(100, int(float64(o.Done)/float64(max(1, o.Total))*100))); {
	case o.Total > 0 && o.InBytes:
		return percent + " of " + FormatSize(o.Total)
	case o.Total > 0:
		return percent
	case o.Done > 0 && o.InBytes:
		return FormatSize(o.Done)
	}
	return ""
}

func (p *planner) remaining(since metav1.Time, wait time.Duration) time.Duration {
	return since.Add(wait).Sub(p.Now.Time)
}

// backoff is the time after a failed attempt.
func (s Settings) backoff(attempt int32) time.Duration {
	wait := s.FirstRetry
	for range attempt - 1 {
		if wait *= 2; wait >= s.LastRetry {
			return s.LastRetry
		}
	}
	return wait
}

// FormatSize is a size as the design document has it, such as 56.78mb. A kb has 1,000 bytes.
func FormatSize(size int64) string {
	units, value := []string{"b", "kb", "mb", "gb", "tb"}, float64(size)
	i := 0
	for ; value >= 1000 && i < len(units)-1; i++ {
		value /= 1000
	}
	if i == 0 {
		return fmt.Sprintf("%db", size)
	}
	return fmt.Sprintf("%.2f%s", value, units[i])
}
