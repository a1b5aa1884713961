package virtualimages

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/virtualimages"
)

// nova is a cloud whose answers a test gives.
type nova struct {
	mu      sync.Mutex
	servers map[string]int
	sight   virtualimages.Sight
	read    []string
	at, max int
	hold    chan struct{}
}

func (n *nova) ListsUsers() bool { return true }

func (n *nova) Users(_ context.Context, image *backend.Image) *virtualimages.CloudUsers {
	n.mu.Lock()
	n.read = append(n.read, image.Name)
	n.at++
	n.max = max(n.max, n.at)
	servers, sight := n.servers[image.Name], n.sight
	n.mu.Unlock()
	if n.hold != nil {
		<-n.hold
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at--
	return &virtualimages.CloudUsers{Servers: virtualimages.Listed{Sight: sight, Number: servers}, Volumes: virtualimages.Listed{Sight: virtualimages.AllProjects}}
}

func (n *nova) reads() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.read)
}

// changes collects what is requested.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) add(_ context.Context, key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, key.Name)
}

func (c *changes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.list)
}

func imageNamed(name string) *backend.Image {
	return &backend.Image{Namespace: "team", Name: name, ID: "id-" + name}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(await.Patience); !done(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestClouds: the users are read behind the calls, again after a time, and what changed is requested once.
func TestClouds(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	n, changed := &nova{servers: map[string]int{"fedora": 2}, sight: virtualimages.AllProjects}, &changes{}
	c := newClouds(now, changed.add)
	c.pause = 0
	ask := func(interval time.Duration) (*virtualimages.CloudUsers, bool) {
		return c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed("fedora"), from: now.Now().Add(-interval), first: false})
	}
	if users, fresh := ask(time.Minute); users != nil || fresh {
		t.Errorf("before they are read: %v, %v", users, fresh)
	}
	until(t, "not requested", func() bool { return changed.count() == 1 })
	users, fresh := ask(time.Minute)
	if users == nil || users.Servers.Number != 2 || !fresh || n.reads() != 1 {
		t.Errorf("%+v, %v, %d reads", users, fresh, n.reads())
	}
	now.SetTime(now.Now().Add(2 * time.Minute))
	if users, fresh = ask(time.Minute); users == nil || fresh {
		t.Errorf("old: %+v, %v", users, fresh)
	}
	until(t, "not read again", func() bool { users, fresh = ask(time.Minute); return fresh })
	if n.reads() != 2 || changed.count() != 1 {
		t.Errorf("%d reads, %d requests without a change", n.reads(), changed.count())
	}
	now.SetTime(now.Now().Add(-time.Hour)) // a clock that is set back
	if _, fresh = ask(time.Minute); fresh {
		t.Error("an answer of the future is fresh")
	}
	until(t, "not read again", func() bool { users, fresh = ask(time.Minute); return fresh })
	n.mu.Lock()
	n.sight = virtualimages.Unanswered
	n.mu.Unlock()
	now.SetTime(now.Now().Add(2 * time.Minute))
	until(t, "not read again", func() bool { users, fresh = ask(time.Minute); return fresh })
	now.SetTime(now.Now().Add(unansweredInterval))
	if users, fresh = ask(time.Hour); fresh || !users.Unanswered() {
		t.Errorf("a service that did not answer: %+v, %v", users, fresh)
	}
	before := changed.count()
	c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed("fedora"), from: now.Now(), awaited: true})
	until(t, "an answer that is awaited is not requested", func() bool { return changed.count() == before+1 })
	other := imageNamed("fedora")
	other.ID = "id-of-another-attempt"
	if users, _ = c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: other, from: now.Now(), first: false}); users != nil {
		t.Errorf("users of another attempt: %+v", users)
	}
	c.forget(types.NamespacedName{Namespace: "team", Name: "fedora"})
	if len(c.known) != 0 {
		t.Errorf("%d are known", len(c.known))
	}
}

// TestCloudsOrder: of a class, one image is read at a time, those of deletions first; classes do not wait for each other.
func TestCloudsOrder(t *testing.T) {
	n, other, changed := &nova{hold: make(chan struct{})}, &nova{}, &changes{}
	c := newClouds(clock.RealClock{}, changed.add)
	c.pause = 0
	for i := range 20 {
		c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed(fmt.Sprintf("image-%02d", i)), from: time.Now(), first: false})
	}
	until(t, "nothing is read", func() bool { return n.reads() == 1 })
	c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed("deleted"), from: time.Now(), first: true})
	c.users(t.Context(), &cloudQuestion{class: "other", lister: other, image: imageNamed("elsewhere"), from: time.Now(), first: false})
	until(t, "the other class waits", func() bool { return other.reads() == 1 })
	for range 3 { // a question while it is read causes no further one
		c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed("image-00"), from: time.Time{}, first: false})
	}
	close(n.hold)
	until(t, "not all are read", func() bool { return changed.count() == 22 })
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Index(n.read, "deleted") > 2 || n.max != 1 || len(n.read) != 21 {
		t.Errorf("%d at a time, in the order %v", n.max, n.read)
	}
}

// TestCloudsFair: deletions that are always repeated keep no other image waiting.
func TestCloudsFair(t *testing.T) {
	n := &nova{}
	var c *clouds
	deleted := func(ctx context.Context, key types.NamespacedName) {
		if key.Name != "quiet" {
			c.users(ctx, &cloudQuestion{class: "openstack", lister: n, image: imageNamed(key.Name), from: time.Now(), first: true, awaited: true})
		}
	}
	c = newClouds(clock.RealClock{}, deleted)
	c.pause = 0
	for i := range 10 {
		deleted(t.Context(), types.NamespacedName{Name: fmt.Sprint(i)})
	}
	until(t, "nothing is read", func() bool { return n.reads() > 50 })
	c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed("quiet"), from: time.Now()})
	at := n.reads()
	until(t, "it is never read", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return slices.Contains(n.read, "quiet") })
	n.mu.Lock()
	defer n.mu.Unlock()
	if waited := slices.Index(n.read, "quiet") - at; waited > 20 {
		t.Errorf("%d deletions were before it", waited)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
}

// TestCloudsBounds: what is known has a bound, and what waits is not forgotten.
func TestCloudsBounds(t *testing.T) {
	n := &nova{hold: make(chan struct{})}
	c := newClouds(clock.RealClock{}, func(context.Context, types.NamespacedName) {})
	c.pause, c.most = 0, 200
	if newClouds(clock.RealClock{}, nil).most != maxKnown {
		t.Error("there is another bound")
	}
	for i := range c.most + 100 {
		c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed(fmt.Sprint(i)), from: time.Time{}, first: false})
	}
	c.mu.Lock()
	known := len(c.known)
	c.mu.Unlock()
	if known != c.most {
		t.Errorf("%d are known", known)
	}
	close(n.hold)
	until(t, "not all are read", func() bool { return n.reads() >= c.most })
	until(t, "it does not end", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.running) == 0 })
	c.users(t.Context(), &cloudQuestion{class: "openstack", lister: n, image: imageNamed("late"), from: time.Time{}, first: false})
	until(t, "the last one is not read", func() bool { n.mu.Lock(); defer n.mu.Unlock(); return slices.Contains(n.read, "late") })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) != c.most {
		t.Errorf("%d are known", len(c.known))
	}
	longest := strings.Repeat("n", 63)
	if size := 3*len(longest) + 36 + 3*100; size > perKnown { // two names and the class, an identifier, and what the services are named with
		t.Errorf("%d bytes", size)
	}
}
