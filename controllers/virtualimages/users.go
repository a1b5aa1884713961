package virtualimages

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/virtualimages"
)

// maxReferences bounds the references that are remembered. Beyond it, users are read only before a deletion.
const maxReferences = 60_000

// objectKey is an object of one of the kinds.
type objectKey struct {
	kind int
	types.NamespacedName
}

// index has the references of all objects. It is safe for concurrent use.
type index struct {
	mu      sync.Mutex
	objects map[objectKey]user
	users   map[virtualimages.Reference]map[objectKey]struct{}
	count   int
	// loaded are the kinds whose first list is complete, touched the objects of a list that changed while it is read.
	loaded  [len(kinds)]bool
	touched [len(kinds)]map[types.NamespacedName]struct{}
	omitted bool
}

func newIndex() *index {
	return &index{objects: map[objectKey]user{}, users: map[virtualimages.Reference]map[objectKey]struct{}{}}
}

// set replaces the references of an object, and returns those that it had or has.
func (x *index) set(key objectKey, u user) []virtualimages.Reference {
	x.mu.Lock()
	defer x.mu.Unlock()
	if touched := x.touched[key.kind]; touched != nil {
		touched[key.NamespacedName] = struct{}{}
	}
	return x.replace(key, u)
}

func (x *index) replace(key objectKey, u user) []virtualimages.Reference {
	was := x.objects[key].list
	for _, r := range was {
		if delete(x.users[r], key); len(x.users[r]) == 0 {
			delete(x.users, r)
		}
	}
	x.count -= len(was)
	delete(x.objects, key)
	u.list = slices.DeleteFunc(u.list, func(r virtualimages.Reference) bool { return !r.CanBeImage() })
	if x.count+len(u.list) > maxReferences {
		x.omitted = true
		return was
	}
	if len(u.list) == 0 {
		return was
	}
	x.count += len(u.list)
	x.objects[key] = u
	for _, r := range u.list {
		if x.users[r] == nil {
			x.users[r] = map[objectKey]struct{}{}
		}
		x.users[r][key] = struct{}{}
	}
	return append(slices.Clone(was), u.list...)
}

// load reads all objects of a kind. An object that changes meanwhile has the references of its change.
func (x *index) load(ctx context.Context, kind int, reader *pages.Reader) error {
	x.mu.Lock()
	x.touched[kind] = map[types.NamespacedName]struct{}{}
	x.mu.Unlock()
	err := eachUser(ctx, reader, kind, func(name types.NamespacedName, u user) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if _, changed := x.touched[kind][name]; !changed {
			x.replace(objectKey{kind, name}, u)
		}
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touched[kind] = nil
	if err == nil {
		x.loaded[kind] = true
	}
	return err
}

// eachUser reads all objects of a kind.
func eachUser(ctx context.Context, reader *pages.Reader, of int, found func(types.NamespacedName, user)) error {
	k := &kinds[of]
	_, err := reader.Each(ctx, pages.List{Resource: k.GroupVersionResource(), Form: pages.JSON}, func(o pages.Object) error {
		if o.JSON != nil {
			o.Namespace, o.Name = gjson.GetBytes(o.JSON, "metadata.namespace").String(), gjson.GetBytes(o.JSON, "metadata.name").String()
		}
		u, err := k.userOf(&o)
		if err != nil && k.holds {
			return err
		}
		found(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, u)
		return nil
	})
	if apierrors.IsNotFound(err) { // the kind does not exist
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading all %s: %w", k.Plural, err)
	}
	return nil
}

// of returns the users of an image, and its templates. The users are nil before all are read.
func (x *index) of(image *v1alpha1.VirtualImage) (users, templates *virtualimages.Users, omitted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var held, listed []string
	for _, r := range virtualimages.ReferencesTo(image) {
		for key := range x.users[r] {
			if kinds[key.kind].holds {
				held = append(held, x.objects[key].shown)
			} else {
				listed = append(listed, x.objects[key].shown)
			}
		}
	}
	templates = virtualimages.CountUsers(image.Namespace, listed)
	complete := !slices.Contains(x.loaded[:], false)
	if !complete || x.omitted {
		return nil, templates, x.omitted
	}
	return virtualimages.CountUsers(image.Namespace, held), templates, false
}

// eachHolder reads all objects that prevent the deletion of images.
func (r *Reconciler) eachHolder(ctx context.Context, found func(user)) error {
	for i := range kinds {
		if !kinds[i].holds {
			continue
		}
		if err := eachUser(ctx, r.Pages, i, func(_ types.NamespacedName, u user) { found(u) }); err != nil {
			return err
		}
	}
	return nil
}
