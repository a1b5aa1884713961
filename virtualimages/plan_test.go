package virtualimages

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// simulation is a simulated controller with its backend: it executes plans, and can be killed before or after each step.
type simulation struct {
	image   *v1alpha1.VirtualImage
	backend Observation
	users   []string
	// cloud are the users in the cloud; nil if they do not count.
	cloud    *CloudUsers
	slipped  []string
	now      time.Time
	released bool
	// begun are the identifiers of the imports, deleted those of the deletions.
	begun, deleted []string
	// fails is the number of imports that fail.
	fails int
	// spent is the number of identifiers that are spent.
	spent int
	// readyAtDelete tells that the backend deleted while ready was true, usedAtDelete while virtual machines used the image.
	readyAtDelete, usedAtDelete bool
}

func newSimulation() *simulation {
	return &simulation{
		image: &v1alpha1.VirtualImage{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fedora", UID: "0b6c7c0e-52a9-4f2e-9a55-0a3d0f6f3f10", Generation: 1},
			Spec:       v1alpha1.VirtualImageSpec{Src: "https://example.com/f.qcow2", Format: v1alpha1.FormatQCOW2},
		},
		backend: Observation{State: Absent}, now: time.Unix(1_700_000_000, 0),
	}
}

func (s *simulation) input() *Input {
	in := &Input{Settings: Defaults(), Image: s.image, Cluster: "c", Class: "cluster", Users: &Users{Names: s.users, Total: len(s.users)}, Now: metav1.NewTime(s.now)}
	in.CloudCounts, in.Cloud = s.cloud != nil, s.cloud
	if slices.Contains(s.image.Finalizers, v1alpha1.Finalizer) && s.image.Status.ID != "" {
		o := s.backend
		in.Observation = &o
	}
	return in
}

// step makes one plan and carries it out. A kill ends it after the given number of writes.
func (s *simulation) step(kill int) Result {
	in := s.input()
	r := Plan(in)
	if s.write(&kill, func() { s.image.Status = r.Status }) && s.act(r.Action, &kill) && r.Action == ListUsers {
		all := slices.Concat(s.users, s.slipped)
		in.Live = &Users{Names: all, Total: len(all)}
		in.Image = s.image
		r = Plan(in)
		s.users = all
		s.slipped = nil
		s.write(&kill, func() { s.image.Status = r.Status })
	}
	s.now = s.now.Add(max(r.After, time.Second))
	return r
}

func (s *simulation) write(kill *int, do func()) bool {
	if *kill--; *kill < 0 {
		return false
	}
	do()
	return true
}

func (s *simulation) act(action Action, kill *int) bool {
	return action == Nothing || action == ListUsers || s.write(kill, func() {
		switch action {
		case Claim:
			s.image.Finalizers = []string{v1alpha1.Finalizer}
		case Ensure:
			s.ensure()
		case Delete:
			s.deleted = append(s.deleted, s.image.Status.ID)
			s.readyAtDelete = s.readyAtDelete || s.image.Status.Ready
			s.usedAtDelete = s.usedAtDelete || len(s.users)+len(s.slipped) > 0 && s.image.DeletionTimestamp != nil || s.cloud != nil && s.cloud.Servers.Number > 0
			s.backend = Observation{State: Absent}
		case Release:
			s.released = true
			s.image.Finalizers = nil
		}
	})
}

func (s *simulation) ensure() {
	if s.backend.State == Importing {
		s.backend = Observation{State: Ready, SizeBytes: 56_780_000, Checksum: "sha256:00"}
		return
	}
	if s.spent > 0 {
		s.spent--
		s.backend = Observation{State: Spent}
		return
	}
	s.begun = append(s.begun, s.image.Status.ID)
	if s.fails > 0 {
		s.fails--
		s.backend = Observation{State: Failed, Message: "the server answers 500"}
		return
	}
	s.backend = Observation{State: Importing, Done: 21, Total: 50}
}

func (s *simulation) run(t *testing.T, kills func(step int) int, until func() bool) {
	t.Helper()
	for i := range 400 {
		if until() {
			return
		}
		if s.backend.State == Spent && s.image.Status.ID != ID("c", s.image.UID, s.image.Status.Attempt) {
			t.Fatal("the identifier is not that of the attempt")
		}
		before := s.image.Status.ID
		s.step(kills(i))
		if s.image.Status.ID != before && s.backend.State == Spent {
			s.backend = Observation{State: Absent}
		}
	}
	t.Fatalf("no end: %+v, backend %+v", s.image.Status, s.backend)
}

func never(int) int { return 100 }

func TestImport(t *testing.T) {
	s := newSimulation()
	s.run(t, never, func() bool { return s.image.Status.Ready })
	status := s.image.Status
	if status.Size != "56.78mb" || status.SizeBytes != 56_780_000 || status.Progress != "100%" || status.Attempt != 1 || len(s.begun) != 1 || status.Usage.InUse {
		t.Errorf("status %+v, imports %v", status, s.begun)
	}
}

func TestAttempts(t *testing.T) {
	s := newSimulation()
	s.fails, s.spent = 2, 1
	s.run(t, never, func() bool { return s.image.Status.Ready })
	if len(s.begun) != 3 || len(s.deleted) != 2 || s.begun[0] == s.begun[1] || s.image.Status.Attempt != 4 {
		t.Errorf("imports %v, deletions %v, attempt %d", s.begun, s.deleted, s.image.Status.Attempt)
	}
	s = newSimulation()
	s.fails = 100
	for range 200 {
		s.step(100)
	}
	if got := s.image.Status; len(s.begun) != int(Defaults().MaxAttempts) || got.Ready || reason(got, v1alpha1.ConditionImported) != ReasonImportFailed {
		t.Errorf("%d imports, %+v", len(s.begun), got)
	}
}

func reason(s v1alpha1.VirtualImageStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

func TestDeletion(t *testing.T) {
	s := newSimulation()
	s.run(t, never, func() bool { return s.image.Status.Ready })
	s.users = []string{"team/vm"}
	deleted := metav1.NewTime(s.now)
	s.image.DeletionTimestamp = &deleted
	for range 20 {
		s.step(100)
	}
	if !s.image.Status.Ready || reason(s.image.Status, v1alpha1.ConditionDeleting) != ReasonInUse || len(s.deleted) > 0 {
		t.Fatalf("while in use: %+v, deletions %v", s.image.Status, s.deleted)
	}
	s.users = nil
	s.step(100)
	if s.image.Status.Ready || reason(s.image.Status, v1alpha1.ConditionDeleting) != ReasonDraining {
		t.Fatalf("without users: %+v", s.image.Status)
	}
	s.slipped = []string{"team/late"} // admitted before, stored afterwards
	s.step(100)
	if !s.image.Status.Ready || reason(s.image.Status, v1alpha1.ConditionDeleting) != ReasonInUse {
		t.Fatalf("with a late user: %+v", s.image.Status)
	}
	s.users = nil
	start := s.now
	s.run(t, never, func() bool { return s.released })
	if s.usedAtDelete || s.readyAtDelete || s.now.Sub(start) < Defaults().Admission {
		t.Errorf("deleted while ready %v, in use %v, after %s", s.readyAtDelete, s.usedAtDelete, s.now.Sub(start))
	}
}

// TestKills kills the controller after each number of writes of each step. The end is the same, without a second import.
func TestKills(t *testing.T) {
	for writes := range 3 {
		for at := range 14 {
			s := newSimulation()
			s.fails = 1
			kill := func(step int) int {
				if step == at {
					return writes
				}
				return 100
			}
			s.run(t, kill, func() bool { return s.image.Status.Ready })
			deleted := metav1.NewTime(s.now)
			s.image.DeletionTimestamp = &deleted
			s.run(t, func(step int) int { return kill(step + 7) }, func() bool { return s.released })
			if len(s.begun) != 2 || s.backend.State != Absent || s.readyAtDelete {
				t.Errorf("killed at step %d after %d writes: imports %v, backend %v", at, writes, s.begun, s.backend.State)
			}
		}
	}
}

func TestStates(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_700_000_000, 0))
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: now}
	}
	imported := condition(v1alpha1.ConditionImported, metav1.ConditionTrue, ReasonImported)
	deletion := func(reason string) []metav1.Condition {
		return []metav1.Condition{imported, condition(v1alpha1.ConditionDeleting, metav1.ConditionTrue, reason)}
	}
	for name, test := range map[string]struct {
		conditions  []metav1.Condition
		deleting    bool
		observation *Observation
		users       *Users
		fault       *Fault
		leaving     bool
		action      Action
		kind        string
		reason      string
		ready       bool
	}{
		"removed in the backend":             {conditions: []metav1.Condition{imported}, observation: &Observation{State: Absent}, kind: "Ready", reason: ReasonRemoved},
		"deactivated":                        {conditions: []metav1.Condition{imported}, observation: &Observation{State: Deactivated}, kind: "Ready", reason: ReasonDeactivated},
		"name taken":                         {observation: &Observation{State: Taken, Message: "DataSource team/fedora exists"}, kind: "Imported", reason: ReasonNameTaken},
		"permanent failure":                  {observation: &Observation{State: Failed, Permanent: true, Reason: "ChecksumMismatch"}, kind: "Ready", reason: "ChecksumMismatch"},
		"permanent failure, forgotten":       {conditions: []metav1.Condition{condition(v1alpha1.ConditionImported, metav1.ConditionFalse, ReasonImportFailed)}, observation: &Observation{State: Absent}, kind: "Imported", reason: ReasonImportFailed},
		"failure":                            {observation: &Observation{State: Failed}, kind: "Imported", reason: ReasonRetrying},
		"over the limit":                     {observation: &Observation{State: Absent}, fault: &Fault{"LimitExceeded", "…"}, kind: "Imported", reason: "LimitExceeded"},
		"waiting":                            {observation: &Observation{State: Waiting, Message: "3 imports are before it"}, action: Ensure, kind: "Imported", reason: ReasonPending},
		"interrupted":                        {observation: &Observation{State: Importing}, action: Ensure, kind: "Imported", reason: ReasonImporting},
		"waiting for the file":               {observation: &Observation{State: Importing, Reason: ReasonUploadPending}, action: Ensure, kind: "Imported", reason: ReasonUploadPending},
		"not uploaded in time":               {observation: &Observation{State: Failed, Permanent: true, Reason: ReasonUploadExpired}, action: Delete, kind: "Imported", reason: ReasonUploadExpired},
		"deleted before users are known":     {deleting: true, conditions: []metav1.Condition{imported}, observation: &Observation{State: Ready}, kind: "Deleting", reason: ReasonUnknown},
		"deleted while importing and in use": {deleting: true, observation: &Observation{State: Importing}, users: &Users{Names: []string{"a/b"}, Total: 1}, action: Ensure, kind: "Deleting", reason: ReasonInUse},
		"draining":                           {deleting: true, conditions: deletion(ReasonDraining), observation: &Observation{State: Ready}, users: &Users{}, kind: "Deleting", reason: ReasonDraining},
		"deleting":                           {deleting: true, conditions: deletion(ReasonDeleting), observation: &Observation{State: Ready}, users: &Users{}, action: Delete, kind: "Deleting", reason: ReasonDeleting},
		"deleted, and one more user":         {deleting: true, conditions: deletion(ReasonDeleting), observation: &Observation{State: Ready}, users: &Users{Names: []string{"a/b"}, Total: 1}, action: Delete, kind: "Deleting", reason: ReasonDeleting},
		"protected in the backend":           {deleting: true, conditions: deletion(ReasonDeleting), observation: &Observation{State: Blocked, Message: "protected"}, users: &Users{}, action: Delete, kind: "Deleting", reason: ReasonBlocked},
		"gone":                               {deleting: true, conditions: deletion(ReasonDeleting), observation: &Observation{State: Absent}, users: &Users{}, action: Release, kind: "Deleting", reason: ReasonDeleting},
		"gone, and its copy is left":         {deleting: true, conditions: deletion(ReasonDeleting), observation: &Observation{State: Absent, Left: true}, users: &Users{}, action: Delete, kind: "Deleting", reason: ReasonDeleting},
		"vanished, and in use":               {deleting: true, conditions: []metav1.Condition{imported}, observation: &Observation{State: Absent}, users: &Users{Total: 1, Elsewhere: 1}, action: Release, kind: "Deleting", reason: ReasonDeleting},
		"vanished, and held before":          {deleting: true, conditions: deletion(ReasonInUse), observation: &Observation{State: Spent}, users: &Users{Total: 1, Elsewhere: 1}, action: Release, kind: "Deleting", reason: ReasonDeleting},
		"vanished, and users are not known":  {deleting: true, conditions: []metav1.Condition{imported}, observation: &Observation{State: Absent}, action: Release, kind: "Deleting", reason: ReasonDeleting},
		"vanished, and its copy is in use":   {deleting: true, conditions: []metav1.Condition{imported}, observation: &Observation{State: Absent, Left: true}, users: &Users{Names: []string{"a/b"}, Total: 1}, kind: "Deleting", reason: ReasonInUse},
		"namespace deleted, in use":          {deleting: true, leaving: true, conditions: deletion(ReasonInUse), observation: &Observation{State: Ready}, users: &Users{Names: []string{"a/b"}, Total: 2, Elsewhere: 1}, action: Delete, kind: "Deleting", reason: ReasonDeleting},
		"namespace deleted while draining":   {deleting: true, leaving: true, conditions: deletion(ReasonDraining), observation: &Observation{State: Ready}, users: &Users{}, action: Delete, kind: "Deleting", reason: ReasonDeleting},
		"namespace deleted, users not known": {deleting: true, leaving: true, observation: &Observation{State: Importing}, action: Delete, kind: "Deleting", reason: ReasonDeleting},
		"namespace deleted, no backend":      {deleting: true, leaving: true, fault: &Fault{"ClassNotFound", "…"}, kind: "Deleting", reason: ReasonBlocked},
		"deleted, and its class is gone":     {deleting: true, conditions: deletion(ReasonDeleting), users: &Users{}, fault: &Fault{"ClassNotFound", "…"}, kind: "Deleting", reason: ReasonBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation()
			s.image.Finalizers, s.image.Status.ID, s.image.Status.Attempt, s.image.Status.Conditions = []string{v1alpha1.Finalizer}, "id", 1, test.conditions
			if test.deleting {
				s.image.DeletionTimestamp = &now
			}
			r := Plan(&Input{Settings: Defaults(), Image: s.image, Cluster: "c", Class: "cluster", Observation: test.observation, Users: test.users, Fault: test.fault, Leaving: test.leaving, Now: now})
			if r.Action != test.action || reason(r.Status, test.kind) != test.reason || r.Status.Ready {
				t.Errorf("action %q, reason %q, ready %v, want %q, %q, false", r.Action, reason(r.Status, test.kind), r.Status.Ready, test.action, test.reason)
			}
			if r.After == 0 && r.Action == Nothing {
				t.Error("nothing follows")
			}
		})
	}
}

// TestExpiredUpload: what waits for a file that is not uploaded in time is deleted, for good, and the image does not count.
func TestExpiredUpload(t *testing.T) {
	s := newSimulation()
	s.image.Spec.Src, s.image.Spec.Upload = "", &v1alpha1.VirtualImageUpload{}
	for range 3 {
		s.step(100)
	}
	s.backend = Observation{State: Importing, Reason: ReasonUploadPending, SizeBytes: 1 << 30}
	in := s.input()
	r := Plan(in)
	if r.After != in.LastRetry || r.Status.SizeBytes != 1<<30 || reason(r.Status, v1alpha1.ConditionReady) != ReasonUploadPending {
		t.Errorf("%+v", r)
	}
	s.image.Status = r.Status
	s.backend = Observation{State: Failed, Permanent: true, Reason: ReasonUploadExpired, Message: "too late", SizeBytes: 1 << 30}
	for range 10 {
		s.step(100)
	}
	got := s.image.Status
	if s.backend.State != Absent || len(s.deleted) != 1 || len(s.begun) != 1 || got.Ready || got.SizeBytes != 0 || got.Size != "" || reason(got, v1alpha1.ConditionReady) != ReasonUploadExpired {
		t.Errorf("%+v, begun %v, deleted %v, backend %s", got, s.begun, s.deleted, s.backend.State)
	}
}

func TestNames(t *testing.T) {
	uid := newSimulation().image.UID
	if got := VolumeName("fedora", uid); got != "fedora-0b6c7c0e" {
		t.Error(got)
	}
	long := VolumeName("a123456789a123456789a123456789a123456789a123456789a12.-456789a123", uid)
	if len(long) > 63 || long != "a123456789a123456789a123456789a123456789a123456789a12-0b6c7c0e" {
		t.Error(long, len(long))
	}
	if ID("c", uid, 1) == ID("c", uid, 2) || ID("c", uid, 1) == ID("d", uid, 1) {
		t.Error("identifiers are not of the cluster, the image and the attempt")
	}
	for size, want := range map[int64]string{0: "0b", 999: "999b", 1000: "1.00kb", 56_780_000: "56.78mb", 5_000_000_000: "5.00gb", 1 << 62: "4611686.02tb"} {
		if got := FormatSize(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
	if got := (&Users{Names: make([]string, MaxListed), Total: 500}).Listed(); len(got) != MaxListed+1 || got[MaxListed] != "and 480 more" {
		t.Error(got)
	}
}

// TestOutage: while the backend does not answer for ten minutes, the calls become rare, and afterwards the import continues
// within a minute.
func TestOutage(t *testing.T) {
	s := newSimulation()
	s.run(t, never, func() bool { return s.backend.State == Importing })
	ends, calls := s.now.Add(10*time.Minute), 0
	for s.now.Before(ends) {
		in := s.input()
		in.Observation, in.Unreachable = nil, &Fault{Reason: ReasonUnreachable, Message: "Glance does not answer"}
		r := Plan(in)
		s.image.Status = r.Status
		if r.Action != Nothing || r.After < in.Poll || r.After > in.LastRetry || s.image.Status.Ready {
			t.Fatalf("%+v", r)
		}
		calls++
		s.now = s.now.Add(r.After)
	}
	if calls < 10 || calls > 25 {
		t.Errorf("%d calls", calls)
	}
	s.backend = Observation{State: Ready}
	if r := s.step(never(0)); !r.Status.Ready || len(s.begun) != 1 {
		t.Errorf("%+v, begun %v", r, s.begun)
	}
	in := s.input() // it stays ready, and is observed slowly
	in.Observation, in.Unreachable = nil, &Fault{Reason: ReasonUnreachable, Message: "Glance does not answer"}
	if r := Plan(in); !r.Status.Ready || r.After != in.LastRetry {
		t.Errorf("%+v", r)
	}
}

// TestProgress: bytes are shown where they are known, and the last progress stays.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		o    Observation
		want string
	}{
		{Observation{Done: 420, Total: 1000}, "42%"},
		{Observation{Done: 420, Total: 1000, InBytes: true}, "42% of 1.00kb"},
		{Observation{Done: 2000, Total: 1000, InBytes: true}, "100% of 1.00kb"},
		{Observation{Done: 23_850_000, InBytes: true}, "23.85mb"},
		{Observation{Done: 420}, ""},
		{Observation{Total: 0, InBytes: true}, ""},
	} {
		if got := c.o.progress(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
	s := newSimulation()
	s.image.Finalizers, s.image.Status.ID, s.image.Status.Progress = []string{v1alpha1.Finalizer}, "i", "42%"
	s.backend = Observation{State: Importing}
	if got := Plan(s.input()).Status.Progress; got != "42%" {
		t.Errorf("an observation without progress: %q", got)
	}
}
