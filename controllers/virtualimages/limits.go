package virtualimages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/virtualimages"
)

// ReasonLimit is the reason of an image that is not imported because of a limit.
const ReasonLimit = "LimitExceeded"

// Limits bound the images of a namespace, and the imports of the cluster.
type Limits struct {
	// Images and Bytes are those of a namespace; 0 for no limit.
	Images int
	Bytes  int64
	// Imports is the number of images that are being imported. A namespace has at most a quarter of them.
	Imports int
}

// perNamespace is the number of images of a namespace that are being imported: the images of four namespaces can fill all
// places, and those of one cannot.
func (l Limits) perNamespace() int { return max(1, l.Imports/4) }

// Probes are the limits of the sources whose first bytes are read at the same time.
func Probes() transfers.Limits { return transfers.Limits{Running: 16, Namespace: 4} }

// Transfers are the limits of the streams to backends.
func (l Limits) Transfers() transfers.Limits {
	return transfers.Limits{Running: l.Imports, Namespace: l.perNamespace()}
}

// held is what a limit counts of an image.
type held struct {
	uid     types.UID
	created metav1.Time
	bytes   int64
}

// count is what the limits count of a namespace.
type count struct {
	// at is the time before the images were read.
	at time.Time
	// oldest are the oldest images, as many as the limit permits.
	oldest map[types.UID]struct{}
	images int
	bytes  int64
}

// countOf counts images. Older ones come first.
func (l Limits) countOf(all []held, at time.Time) *count {
	slices.SortFunc(all, func(a, b held) int { return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.uid, b.uid)) })
	c := &count{at: at, oldest: map[types.UID]struct{}{}, images: len(all)}
	for i := range all {
		c.bytes += all[i].bytes
		if i < l.Images {
			c.oldest[all[i].uid] = struct{}{}
		}
	}
	return c
}

// exceeded says why the limits do not permit to import an image; nil if they do.
func (l Limits) exceeded(c *count, uid types.UID) *virtualimages.Fault {
	if _, within := c.oldest[uid]; l.Images > 0 && !within {
		return &virtualimages.Fault{Reason: ReasonLimit, Message: fmt.Sprintf("the namespace has %d images, and only its %d oldest are imported", c.images, l.Images)}
	}
	if l.Bytes > 0 && c.bytes >= l.Bytes {
		return &virtualimages.Fault{Reason: ReasonLimit, Message: fmt.Sprintf("the images of the namespace have %s, and their limit is %s", size(c.bytes), size(l.Bytes))}
	}
	return nil
}

// recent is the age of a count that is used again, so that many images that wait do not each read all others.
const recent = time.Second

// errCounting is the error of an image that is newer than the last count. It is counted a moment later: of the images of one
// second, the UIDs decide which are older.
var errCounting = errors.New("the images of the namespace are counted again in a moment")

// check says why the limits of the namespace do not permit to import an image.
func (r *Reconciler) check(ctx context.Context, image *v1alpha1.VirtualImage) (*virtualimages.Fault, error) {
	if r.Limits.Images == 0 && r.Limits.Bytes == 0 {
		return nil, nil //nolint:nilnil // there is no fault
	}
	c, err := r.count(ctx, image.Namespace)
	if err != nil {
		return nil, err
	}
	if r.Limits.Images > 0 && c.at.Sub(image.CreationTimestamp.Time) < recent { // others of the same second may be missing
		return nil, errCounting
	}
	return r.Limits.exceeded(c, image.UID), nil
}

// count counts the images of a namespace, or returns a recent count.
func (r *Reconciler) count(ctx context.Context, namespace string) (*count, error) {
	r.counting.Lock()
	defer r.counting.Unlock()
	now := r.Clock.Now()
	maps.DeleteFunc(r.counts, func(_ string, c *count) bool { return now.Sub(c.at) > recent })
	if c := r.counts[namespace]; c != nil {
		return c, nil
	}
	c, err := r.countImages(ctx, namespace, now)
	if err == nil {
		r.counts[namespace] = c
	}
	return c, err
}

// counted ends the reservation of an image whose status has its bytes. The next count of its namespace reads them.
func (r *Reconciler) counted(image *v1alpha1.VirtualImage) {
	r.counting.Lock()
	delete(r.counts, image.Namespace)
	r.counting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reserved, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: image.Namespace, Name: image.Name}})
}

func (r *Reconciler) countImages(ctx context.Context, namespace string, at time.Time) (*count, error) {
	var all []held
	_, err := r.Pages.Each(ctx, pages.List{Resource: images, Form: pages.JSON, Namespace: namespace}, func(o pages.Object) error {
		other := &v1alpha1.VirtualImage{}
		if err := json.Unmarshal(o.JSON, other); err != nil {
			return fmt.Errorf("decoding a VirtualImage: %w", err)
		}
		all = append(all, held{other.UID, other.CreationTimestamp, other.Status.SizeBytes})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the VirtualImages of namespace %s: %w", namespace, err)
	}
	return r.Limits.countOf(all, at), nil
}

func size(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// note remembers whether an image is being imported, or waits because of a limit.
func (r *Reconciler) note(image *v1alpha1.VirtualImage, status *v1alpha1.VirtualImageStatus) {
	reason := ""
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionImported); c != nil {
		reason = c.Reason
	}
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: image.Namespace, Name: image.Name}}
	r.mu.Lock()
	defer r.mu.Unlock()
	mark(r.importing, key, reason == virtualimages.ReasonImporting)
	mark(r.limited, key, reason == ReasonLimit && len(r.limited) < maxLimited)
}

// maxLimited bounds the images that are requested when another one of their namespace is deleted. Others are observed at an
// interval.
const maxLimited = 10_000

func mark(set map[reconcile.Request]struct{}, key reconcile.Request, marked bool) {
	if marked {
		set[key] = struct{}{}
		return
	}
	delete(set, key)
}

// ends forgets an image that was deleted, and requests those of its namespace that wait because of a limit.
func (r *Reconciler) ends(ctx context.Context, key reconcile.Request) {
	r.ledger.forget(key.NamespacedName)
	r.mu.Lock()
	delete(r.importing, key)
	delete(r.limited, key)
	delete(r.reserved, key)
	var waiting []reconcile.Request
	for other := range r.limited {
		if other.Namespace == key.Namespace {
			waiting = append(waiting, other)
		}
	}
	r.mu.Unlock()
	r.census.forget(key.NamespacedName)
	r.clouds.forget(key.NamespacedName)
	r.send(ctx, waiting...)
}

// Begin reports whether the import of an image may begin, and otherwise the reason and what it waits for. The bytes of an image
// that begins count for the limit of its namespace at once; 0 bytes are those of a copy, whose image counts.
func (r *Reconciler) Begin(ctx context.Context, namespace, name string, bytes int64) (begins bool, reason, message string, err error) {
	return r.begin(ctx, namespace, name, bytes, true)
}

// Await is Begin for an image that a user uploads: it waits for no other image, and takes no place from them.
func (r *Reconciler) Await(ctx context.Context, namespace, name string, bytes int64) (begins bool, reason, message string, err error) {
	return r.begin(ctx, namespace, name, bytes, false)
}

func (r *Reconciler) begin(ctx context.Context, namespace, name string, bytes int64, place bool) (begins bool, reason, message string, err error) {
	c := &count{}
	if r.Limits.Bytes > 0 {
		if c, err = r.count(ctx, namespace); err != nil {
			return false, "", "", err
		}
	}
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.importing[key]; known {
		return true, "", "", nil
	}
	here, taken := 0, c.bytes
	for other := range r.importing {
		if other.Namespace == namespace {
			here++
		}
	}
	for other, reserved := range r.reserved {
		if other.Namespace == namespace && other != key {
			taken += reserved
		}
	}
	switch {
	case r.Limits.Bytes > 0 && bytes > 0 && bytes > r.Limits.Bytes-taken:
		return false, ReasonLimit, fmt.Sprintf("the image needs %s, the other images of the namespace have %s, and their limit is %s", size(bytes), size(taken), size(r.Limits.Bytes)), nil
	case place && here >= r.Limits.perNamespace():
		return false, "", fmt.Sprintf("%d other images of the namespace are being imported", here), nil
	case place && len(r.importing) >= r.Limits.Imports:
		return false, "", fmt.Sprintf("%d other images are being imported", len(r.importing)), nil
	}
	if place {
		r.importing[key] = struct{}{}
	}
	if r.Limits.Bytes > 0 && bytes > 0 {
		r.reserved[key] = bytes
	}
	return true, "", "", nil
}
