package virtualimages

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/virtualimages"
)

// ReasonLimit is the reason of an image that is not imported because of a limit.
const ReasonLimit = "LimitExceeded"

// Limits bound the images of a namespace, and the imports of the cluster.
type Limits struct {
	// Images and Bytes are those of a namespace; 0 for no limit.
	Images int
	Bytes  int64
	// Imports is the number of images that are being imported.
	Imports int
}

// held is what a limit counts of an image.
type held struct {
	uid     types.UID
	created metav1.Time
	bytes   int64
}

// check says why the limits of the namespace do not permit an image. Older images come first.
func (l *Limits) check(ctx context.Context, reader *pages.Reader, image *v1alpha1.VirtualImage) (*virtualimages.Fault, error) {
	if l.Images == 0 && l.Bytes == 0 {
		return nil, nil //nolint:nilnil // there is no fault
	}
	var all []held
	_, err := reader.Each(ctx, pages.List{Resource: images, Form: pages.JSON, Namespace: image.Namespace}, func(o pages.Object) error {
		other := &v1alpha1.VirtualImage{}
		if err := json.Unmarshal(o.JSON, other); err != nil {
			return fmt.Errorf("decoding a VirtualImage: %w", err)
		}
		all = append(all, held{other.UID, other.CreationTimestamp, other.Status.SizeBytes})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the VirtualImages of namespace %s: %w", image.Namespace, err)
	}
	return l.exceeded(all, image.UID), nil
}

// exceeded reports whether an image is beyond the limits.
func (l *Limits) exceeded(all []held, uid types.UID) *virtualimages.Fault {
	slices.SortFunc(all, func(a, b held) int { return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.uid, b.uid)) })
	bytes := int64(0)
	for i := range all {
		if all[i].uid != uid {
			bytes += all[i].bytes
			continue
		}
		if l.Images > 0 && i >= l.Images {
			return &virtualimages.Fault{Reason: ReasonLimit, Message: fmt.Sprintf("the namespace has %d older images, and its limit is %d", i, l.Images)}
		}
		break
	}
	if l.Bytes > 0 && bytes >= l.Bytes {
		return &virtualimages.Fault{Reason: ReasonLimit, Message: fmt.Sprintf("the images of the namespace have %s, and their limit is %s", size(bytes), size(l.Bytes))}
	}
	return nil
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
	r.mu.Lock()
	delete(r.importing, key)
	delete(r.limited, key)
	var waiting []reconcile.Request
	for other := range r.limited {
		if other.Namespace == key.Namespace {
			waiting = append(waiting, other)
		}
	}
	r.mu.Unlock()
	r.send(ctx, waiting...)
}

// Begin reports whether the import of an image may begin, and otherwise what it waits for.
func (r *Reconciler) Begin(namespace, name string) (begins bool, message string) {
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.importing[key]; !known && len(r.importing) >= r.Limits.Imports {
		return false, fmt.Sprintf("%d other images are being imported", len(r.importing))
	}
	r.importing[key] = struct{}{}
	return true, ""
}
