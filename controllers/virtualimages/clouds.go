package virtualimages

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/virtualimages"
)

// The times of the users in clouds.
const (
	// cloudInterval is the age at which the users of an image are read again, and deletionInterval that of one that is being deleted.
	cloudInterval, deletionInterval = 5 * time.Minute, 10 * time.Second
	// unansweredInterval is that after a service did not answer.
	unansweredInterval = 50 * time.Second
	// betweenImages is the time after an image that no deletion waits for, so that a cloud has few calls however many images there are.
	betweenImages = 200 * time.Millisecond
	// delivery bounds the time in which a change is delivered. An image that is not requested is observed at an interval.
	delivery = time.Minute
)

// The bounds of the users in clouds.
const (
	// maxKnown bounds the images whose users are remembered. The users of further ones are read more often.
	maxKnown = 8_000
	// perKnown is the memory of one: names, identifiers and two sentences.
	perKnown = 800
	// maxReadings is the number of images whose users are read at the same time, of all classes, and perReading the memory of one.
	maxReadings = 2
	perReading  = 3 << 20
)

// clouds reads the users of images in the clouds that store them: of each class, those of one image after those of another. It is
// safe for concurrent use. Create it with newClouds.
type clouds struct {
	clock clock.PassiveClock
	// changed is called when the users of an image differ from those before.
	changed func(context.Context, types.NamespacedName)
	pause   time.Duration
	// most is the number of images whose users are remembered.
	most   int
	places memory.Gate

	mu      sync.Mutex
	known   map[types.NamespacedName]*known
	running map[string]bool
	// turn changes with each image: each second one is the one that waits for the longest time, so that deletions keep no others waiting.
	turn bool
}

// known is what is known about the users of an image.
type known struct {
	class, id string
	lister    backend.Lister
	// users are those that were read, and began is when that began.
	users *virtualimages.CloudUsers
	began time.Time
	// waits tells that they are to be read, and first that they are before others: a deletion waits for them. awaited tells that the
	// image is requested after they are read, also without a change.
	waits, first, awaited bool
	// reading is when the reading that runs began; zero if none runs.
	reading time.Time
}

func newClouds(clock clock.PassiveClock, changed func(context.Context, types.NamespacedName)) *clouds {
	return &clouds{clock: clock, changed: changed, pause: betweenImages, most: maxKnown, places: memory.NewQueue(maxReadings), known: map[types.NamespacedName]*known{}, running: map[string]bool{}}
}

// cloudQuestion is which users an image has in its cloud.
type cloudQuestion struct {
	class  string
	lister backend.Lister
	image  *backend.Image
	// from is the time at which the reading began at the earliest.
	from time.Time
	// first tells that a deletion waits, and awaited that the image is requested when the users are read.
	first, awaited bool
}

// users returns the users of an image as they were read last; nil before. fresh is set if the reading began in time. If it did
// not, they are read again. It returns at once.
func (c *clouds) users(ctx context.Context, q *cloudQuestion) (users *virtualimages.CloudUsers, fresh bool) {
	class, image := q.class, q.image
	key := types.NamespacedName{Namespace: image.Namespace, Name: image.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[key]
	if k == nil || k.id != image.ID {
		if k == nil && !c.makeRoom() {
			return nil, false
		}
		k = &known{class: class, id: image.ID, lister: q.lister}
		c.known[key] = k
	}
	now := c.clock.Now()
	if k.users != nil && !k.began.Before(q.from) && !k.began.After(now) && (!k.users.Unanswered() || now.Sub(k.began) < unansweredInterval) {
		return k.users, true
	}
	k.awaited = k.awaited || q.awaited
	if !k.reading.IsZero() && !k.reading.Before(q.from) {
		return k.users, false
	}
	k.waits, k.first = true, k.first || q.first
	if !c.running[class] {
		c.running[class] = true
		go c.run(context.WithoutCancel(ctx), class) // it outlives the call
	}
	return k.users, false
}

// makeRoom forgets the users of an image that waits for nothing, if there are too many. The lock is held.
func (c *clouds) makeRoom() bool {
	if len(c.known) < c.most {
		return true
	}
	for key, k := range c.known {
		if !k.waits {
			delete(c.known, key)
			return true
		}
	}
	return false
}

// forget removes what is known of an image.
func (c *clouds) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// run reads the users of the images of a class until none waits.
func (c *clouds) run(ctx context.Context, class string) {
	for {
		key, k, pause := c.next(class)
		if k == nil {
			return
		}
		release, err := c.places.Acquire(ctx, class, 1)
		if err != nil {
			return // never: the context does not end
		}
		c.mu.Lock()
		began := c.clock.Now()
		k.reading = began
		c.mu.Unlock()
		users := k.lister.Users(ctx, &backend.Image{Namespace: key.Namespace, Name: key.Name, ID: k.id})
		release()
		c.mu.Lock()
		deliver := k.users == nil || k.awaited || !reflect.DeepEqual(k.users, users)
		k.users, k.began, k.reading, k.awaited = users, began, time.Time{}, false
		c.mu.Unlock()
		if deliver {
			go c.deliver(ctx, key) // the next image does not wait for it
		}
		<-time.After(pause)
	}
}

func (c *clouds) deliver(ctx context.Context, key types.NamespacedName) {
	ctx, cancel := context.WithTimeout(ctx, delivery)
	defer cancel()
	c.changed(ctx, key)
}

// next is the image of a class whose users are read next, and the pause after it; nil ends the reading.
func (c *clouds) next(class string) (key types.NamespacedName, next *known, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = !c.turn
	before := func(a, b *known) bool {
		if a.first != b.first && c.turn {
			return a.first
		}
		return a.began.Before(b.began)
	}
	for name, k := range c.known {
		if k.class == class && k.waits && (next == nil || before(k, next)) {
			key, next = name, k
		}
	}
	if next == nil {
		delete(c.running, class)
		return key, nil, 0
	}
	if pause = c.pause; next.first {
		pause = 0
	}
	next.waits, next.first = false, false
	return key, next, pause
}

// countInCloud notes the users in the cloud that stores an image, as they were read last.
func (r *Reconciler) countInCloud(ctx context.Context, in *virtualimages.Input, store backend.Backend) {
	lister, ok := store.(backend.Lister)
	if in.CloudCounts = ok && lister.ListsUsers(); !in.CloudCounts || in.Image.Status.ID == "" || !in.Imported() {
		return
	}
	interval := cloudInterval
	if in.Image.DeletionTimestamp != nil {
		interval = deletionInterval
	}
	in.Cloud, _ = r.cloudUsers(ctx, in, store, in.Now.Add(-interval), false)
}

// cloudUsers are the users in the cloud that stores an image.
func (r *Reconciler) cloudUsers(ctx context.Context, in *virtualimages.Input, store backend.Backend, from time.Time, awaited bool) (users *virtualimages.CloudUsers, fresh bool) {
	lister, ok := store.(backend.Lister)
	if !ok {
		return nil, true
	}
	return r.clouds.users(ctx, &cloudQuestion{
		class: in.Class, lister: lister, image: attemptOf(r.Cluster, in.Image), from: from, first: in.Image.DeletionTimestamp != nil, awaited: awaited,
	})
}
