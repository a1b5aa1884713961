package virtualimages

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/virtualimages"
)

// The times of lists of all users: between the starts of two, and the longest of one.
const (
	betweenLists = time.Second
	longestList  = 10 * time.Minute
)

// maxQuestions bounds the deletions that wait for a list. Others wait until these have their answers. perQuestion is the memory of one
// in bytes: its image, and the names in an answer.
const maxQuestions, perQuestion = 1_000, 8 << 10

// census lists all virtual machines without a cache, before images are deleted. All deletions that wait at the start of a list
// share it. It is safe for concurrent use.
type census struct {
	// each reads all users, and calls the function for each.
	each func(ctx context.Context, found func(user)) error
	// counts returns the names of those users of an image that count.
	counts func(ctx context.Context, image *v1alpha1.VirtualImage, list []user) ([]string, error)
	// between is the time between the starts of two lists, and retry that after one that failed.
	between, retry time.Duration

	mu      sync.Mutex
	running bool
	open    map[types.UID]*question
}

// question is which users an image has.
type question struct {
	image *v1alpha1.VirtualImage
	// since is the time from which the deletion waits: an answer to an earlier one does not count.
	since metav1.Time
	// users is the answer.
	users *virtualimages.Users
}

// users returns the users of an image from a list that began after the first call with the same time; nil before it is
// complete. An answer is returned once.
func (c *census) users(ctx context.Context, image *v1alpha1.VirtualImage, since metav1.Time) *virtualimages.Users {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.open[image.UID]; q != nil && q.since.Equal(&since) {
		if q.users != nil {
			delete(c.open, image.UID)
		}
		return q.users
	}
	if len(c.open) >= maxQuestions {
		return nil
	}
	if c.open == nil {
		c.open = map[types.UID]*question{}
	}
	c.open[image.UID] = &question{
		image: &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace, Name: image.Name, UID: image.UID}}, since: since,
	}
	if !c.running {
		c.running = true
		go c.run(context.WithoutCancel(ctx)) // the list outlives the call
	}
	return nil
}

// forget removes the question of an image.
func (c *census) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.open, func(_ types.UID, q *question) bool {
		return q.image.Namespace == name.Namespace && q.image.Name == name.Name
	})
}

// run lists until no question is without an answer.
func (c *census) run(ctx context.Context) {
	for {
		asked := c.next()
		if len(asked) == 0 {
			return
		}
		began, pause := time.Now(), c.between
		answers, err := c.list(ctx, asked)
		if err != nil {
			log.FromContext(ctx).Error(err, "the users of images that are deleted cannot be read")
			pause = c.retry
		} else {
			c.answer(asked, answers)
		}
		<-time.After(pause - time.Since(began))
	}
}

// next are the questions of the next list; none ends the lists.
func (c *census) next() (asked []*question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.open {
		if q.users == nil {
			asked = append(asked, q)
		}
	}
	c.running = len(asked) > 0
	return asked
}

// list returns the users of the images of questions; nil for one that is put off to the next list.
func (c *census) list(ctx context.Context, asked []*question) ([]*virtualimages.Users, error) {
	to, in := map[virtualimages.Reference][]*question{}, map[string][]*question{}
	for _, q := range asked {
		in[q.image.Namespace] = append(in[q.image.Namespace], q)
		for _, r := range virtualimages.ReferencesTo(q.image) {
			to[r] = append(to[r], q)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longestList)
	defer cancel()
	founds := newFounds(asked)
	err := c.each(ctx, func(u user) {
		for _, r := range u.list {
			for _, q := range to[r] {
				founds.note(q, &u)
			}
		}
		if u.unreadable {
			for _, q := range in[u.namespace] {
				founds.note(q, &u)
			}
		}
	})
	answers := make([]*virtualimages.Users, len(asked))
	for i, q := range asked {
		found := founds.of[q]
		if err != nil || found == nil {
			continue
		}
		var names []string
		names, err = c.counts(ctx, q.image, found.users())
		answers[i] = virtualimages.CountUsers(q.image.Namespace, names)
	}
	return answers, err
}

// answer ends questions.
func (c *census) answer(asked []*question, answers []*virtualimages.Users) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range asked {
		q.users = answers[i]
	}
}
