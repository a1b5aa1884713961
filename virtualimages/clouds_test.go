package virtualimages

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// seen are users of which all are counted.
func seen(servers, volumes int) *CloudUsers {
	return &CloudUsers{Servers: Listed{Sight: AllProjects, Number: servers}, Volumes: Listed{Sight: AllProjects, Number: volumes}}
}

func TestCloudUsers(t *testing.T) {
	const unknown = "no virtual machine of the cluster uses the image, and the condition CloudUsersCounted says which users in OpenStack are counted"
	one, two := int32(1), int32(2)
	before := &v1alpha1.VirtualImageCloudUsage{Servers: &two, Volumes: &one}
	listed := func(sight Sight, number int, why string) Listed { return Listed{sight, number, why} }
	for name, test := range map[string]struct {
		machines []string
		cloud    *CloudUsers
		was      *v1alpha1.VirtualImageCloudUsage

		want             *v1alpha1.VirtualImageCloudUsage
		counted, message string
		inUse            string
	}{
		"not read":        {nil, nil, nil, nil, "Unknown", "the servers of the cloud are not read yet", unknown},
		"not read again":  {nil, nil, before, before, "Unknown", "the servers of the cloud are not read yet", "used by 2 servers and 1 volume in OpenStack"},
		"none":            {nil, seen(0, 0), before, &v1alpha1.VirtualImageCloudUsage{Servers: new(int32), Volumes: new(int32)}, "AllProjects", "the servers of all projects are counted; the volumes of all projects are counted", "no virtual machine uses the image"},
		"one server":      {nil, seen(1, 0), nil, &v1alpha1.VirtualImageCloudUsage{Servers: &one, Volumes: new(int32)}, "AllProjects", "", "used by 1 server in OpenStack"},
		"volumes":         {[]string{"team/vm"}, seen(0, 2), nil, &v1alpha1.VirtualImageCloudUsage{Servers: new(int32), Volumes: &two}, "AllProjects", "", "used by team/vm, 2 volumes in OpenStack"},
		"more than count": {nil, seen(5000, 1), nil, &v1alpha1.VirtualImageCloudUsage{Servers: new(int32(1000)), Volumes: &one}, "AllProjects", "", "used by 1000 or more servers and 1 volume in OpenStack"},
		"own project": {
			nil, &CloudUsers{listed(OwnProject, 2, "Nova permits it only to admins"), listed(NotListed, 0, "Cinder permits it only to admins")}, before, &v1alpha1.VirtualImageCloudUsage{Servers: &two}, "OwnProject",
			"only the servers of the project of Virtward's account are counted: Nova permits it only to admins; volumes are not counted: Cinder permits it only to admins", "used by 2 servers in OpenStack",
		},
		"own project without users": {nil, &CloudUsers{listed(OwnProject, 0, "x"), listed(OwnProject, 0, "x")}, nil, &v1alpha1.VirtualImageCloudUsage{Servers: new(int32), Volumes: new(int32)}, "OwnProject", "", unknown},
		"servers only":              {nil, &CloudUsers{listed(AllProjects, 1, ""), listed(NotListed, 0, "Cinder answers 404 Not Found")}, before, &v1alpha1.VirtualImageCloudUsage{Servers: &one}, "ServersOnly", "", "used by 1 server in OpenStack"},
		"no Cinder":                 {nil, &CloudUsers{listed(AllProjects, 0, ""), listed(NoEndpoint, 0, "the catalog of the cloud has no Cinder")}, before, &v1alpha1.VirtualImageCloudUsage{Servers: new(int32)}, "AllProjects", "the servers of all projects are counted; volumes are not counted: the catalog of the cloud has no Cinder", "no virtual machine uses the image"},
		"no Nova":                   {nil, &CloudUsers{listed(NoEndpoint, 0, "the catalog of the cloud has no Nova"), listed(AllProjects, 1, "")}, nil, &v1alpha1.VirtualImageCloudUsage{Volumes: &one}, "NoEndpoint", "", "used by 1 volume in OpenStack"},
		"neither":                   {nil, &CloudUsers{listed(NoEndpoint, 0, "a"), listed(NoEndpoint, 0, "b")}, before, nil, "NoEndpoint", "servers are not counted: a; volumes are not counted: b", unknown},
		"not listed":                {[]string{"team/vm"}, &CloudUsers{listed(NotListed, 0, "Nova answers 404 Not Found"), listed(NoEndpoint, 0, "b")}, before, nil, "NotListed", "", "used by team/vm"},
		"no answer":                 {nil, &CloudUsers{listed(Unanswered, 0, "Nova does not answer"), listed(AllProjects, 0, "")}, before, &v1alpha1.VirtualImageCloudUsage{Servers: &two, Volumes: new(int32)}, "Unanswered", "servers are not counted: Nova does not answer; the volumes of all projects are counted", "used by 2 servers in OpenStack"},
		"no answer at first":        {nil, &CloudUsers{listed(Unanswered, 0, "a"), listed(Unanswered, 0, "b")}, nil, nil, "Unanswered", "", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation()
			s.run(t, never, func() bool { return s.image.Status.Ready })
			s.image.Status.Usage.Cloud = test.was.DeepCopy()
			s.users = test.machines
			in := s.input()
			in.CloudCounts, in.Cloud = true, test.cloud
			r := Plan(in)
			if diff := cmp.Diff(test.want, r.Status.Usage.Cloud); diff != "" {
				t.Error(diff)
			}
			if got := reason(r.Status, v1alpha1.ConditionCloudUsersCounted); got != test.counted || !slices.Contains(CloudReasons, got) {
				t.Errorf("counted: %s, want %s", got, test.counted)
			}
			if got := text(r.Status, v1alpha1.ConditionCloudUsersCounted); test.message != "" && got != test.message {
				t.Errorf("counted: %s, want %s", got, test.message)
			}
			if got := text(r.Status, v1alpha1.ConditionInUse); got != test.inUse || r.Status.Usage.InUse != strings.HasPrefix(test.inUse, "used by") {
				t.Errorf("in use %v: %s, want %s", r.Status.Usage.InUse, got, test.inUse)
			}
			if again := test.cloud != nil && test.cloud.Unanswered(); !r.Status.Ready || (r.After == in.LastRetry) != again {
				t.Errorf("ready %v, after %s", r.Status.Ready, r.After)
			}
			in.Image.Status, in.CloudCounts = r.Status, false // the class does not count them any more
			if r = Plan(in); r.Status.Usage.Cloud != nil || reason(r.Status, v1alpha1.ConditionCloudUsersCounted) != "" || r.Status.Usage.InUse != (len(test.machines) > 0) {
				t.Errorf("%+v", r.Status)
			}
		})
	}
}

func text(s v1alpha1.VirtualImageStatus, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// TestCloudDeletion: servers of the cloud keep the image as virtual machines do. What may not be listed keeps nothing, and what does
// not answer keeps it until it does.
func TestCloudDeletion(t *testing.T) {
	imported := newSimulation()
	imported.run(t, never, func() bool { return imported.image.Status.Ready })
	deleted := metav1.NewTime(imported.now)
	imported.image.DeletionTimestamp = &deleted
	forbidden := &CloudUsers{Servers: Listed{NotListed, 0, "Nova answers 403"}, Volumes: Listed{Sight: NoEndpoint}}
	silent := &CloudUsers{Servers: Listed{AllProjects, 0, ""}, Volumes: Listed{Unanswered, 0, "Cinder does not answer"}}
	for name, test := range map[string]struct {
		state  string // of the condition Deleting before
		cloud  *CloudUsers
		live   bool
		leaves bool
		// want is the reason afterwards, and action what follows.
		want, message string
		action        Action
		ready         bool
	}{
		"not read":                      {cloud: nil, want: ReasonUnknown, message: "the servers of the cloud are not read yet", ready: true},
		"servers":                       {cloud: seen(2, 0), want: ReasonInUse, message: "the deletion waits for those that use the image: 2 servers in OpenStack", ready: true},
		"servers, again":                {state: ReasonInUse, cloud: seen(2, 0), want: ReasonInUse, ready: true},
		"volumes":                       {cloud: seen(0, 1), want: ReasonInUse, message: "the deletion waits for those that use the image: 1 volume in OpenStack", ready: true},
		"none":                          {state: ReasonInUse, cloud: seen(0, 0), want: ReasonDraining},
		"not listed":                    {cloud: forbidden, want: ReasonDraining},
		"no answer":                     {cloud: silent, want: ReasonDraining},
		"drained":                       {state: ReasonDraining, cloud: seen(0, 0), want: ReasonDraining, action: ListUsers},
		"drained, servers before":       {state: ReasonDraining, cloud: seen(3, 0), want: ReasonDraining, action: ListUsers},
		"drained, servers since":        {state: ReasonDraining, cloud: seen(3, 0), live: true, want: ReasonInUse, ready: true},
		"drained, none since":           {state: ReasonDraining, cloud: seen(0, 0), live: true, want: ReasonDeleting},
		"drained, not listed":           {state: ReasonDraining, cloud: forbidden, live: true, want: ReasonDeleting},
		"drained, no answer":            {state: ReasonDraining, cloud: silent, live: true, want: ReasonUsersUnknown, message: "the deletion waits until the users in the cloud can be read: Cinder does not answer"},
		"no answer before, not read":    {state: ReasonUsersUnknown, cloud: silent, want: ReasonUsersUnknown, action: ListUsers},
		"no answer before, none since":  {state: ReasonUsersUnknown, cloud: seen(0, 0), live: true, want: ReasonDeleting},
		"no answer before, servers now": {state: ReasonUsersUnknown, cloud: seen(0, 4), live: true, want: ReasonInUse, ready: true},
		"namespace is deleted":          {cloud: seen(2, 0), leaves: true, want: ReasonDeleting, action: Delete},
	} {
		t.Run(name, func(t *testing.T) {
			s := *imported
			s.image = imported.image.DeepCopy()
			if test.state != "" {
				s.image.Status.Conditions = append(s.image.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDeleting, Status: metav1.ConditionTrue, Reason: test.state, LastTransitionTime: deleted})
				s.now = s.now.Add(Defaults().Admission)
			}
			in := s.input()
			in.CloudCounts, in.Cloud, in.Leaving = true, test.cloud, test.leaves
			if test.live {
				in.Live = &Users{}
			}
			r := Plan(in)
			if got := reason(r.Status, v1alpha1.ConditionDeleting); got != test.want || r.Action != test.action || test.want == ReasonInUse != r.Status.Usage.InUse && !test.leaves && test.state != ReasonDraining {
				t.Errorf("%s, action %q, in use %v, want %s, %q", got, r.Action, r.Status.Usage.InUse, test.want, test.action)
			}
			if got := text(r.Status, v1alpha1.ConditionDeleting); test.message != "" && got != test.message {
				t.Errorf("%s, want %s", got, test.message)
			}
			if ready := reason(r.Status, v1alpha1.ConditionReady) == ReasonReady; test.ready && !ready {
				t.Errorf("not ready: %+v", r.Status.Conditions)
			}
			if test.action == Nothing && r.After == 0 {
				t.Error("it is never planned again")
			}
		})
	}
}

// TestCloudLife deletes an image, killed at each step. A server uses it, one more is created while the deletion waits, and then Nova
// does not answer: the image is never deleted meanwhile.
func TestCloudLife(t *testing.T) {
	phases := []struct {
		cloud *CloudUsers
		until string // the reason of the condition Deleting that ends the phase
	}{
		{seen(1, 0), ReasonInUse},
		{seen(0, 0), ReasonDraining},
		{seen(1, 0), ReasonInUse},
		{seen(0, 0), ReasonDraining},
		{&CloudUsers{Servers: Listed{Unanswered, 0, "Nova does not answer"}}, ReasonUsersUnknown},
		{seen(0, 0), ReasonDeleting},
	}
	for kill := range 20 {
		s := newSimulation()
		s.cloud = phases[0].cloud
		s.run(t, never, func() bool { return s.image.Status.Ready })
		deleted := metav1.NewTime(s.now)
		s.image.DeletionTimestamp = &deleted
		phase := 0
		kills := func(step int) int {
			if phase < len(phases)-1 && reason(s.image.Status, v1alpha1.ConditionDeleting) == phases[phase].until {
				phase++
				s.cloud = phases[phase].cloud
			}
			if step == kill {
				return 0
			}
			return 100
		}
		s.run(t, kills, func() bool { return s.released })
		if phase != len(phases)-1 || s.readyAtDelete || s.usedAtDelete || len(s.deleted) == 0 {
			t.Errorf("killed at %d: phase %d, deleted %v, while ready %v, in use %v", kill, phase, s.deleted, s.readyAtDelete, s.usedAtDelete)
		}
	}
}

// TestNeverImported: an image without a complete import has no servers, whatever the cloud answers.
func TestNeverImported(t *testing.T) {
	s := newSimulation()
	s.fails = 100
	s.run(t, never, func() bool { return len(s.begun) > 1 })
	deleted := metav1.NewTime(s.now)
	s.image.DeletionTimestamp = &deleted
	s.cloud = &CloudUsers{Servers: Listed{Unanswered, 0, "Nova does not answer"}, Volumes: Listed{Sight: Unanswered}}
	s.run(t, never, func() bool { return s.released })
}
