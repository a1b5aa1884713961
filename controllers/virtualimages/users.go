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
	// unreadable are the objects of a namespace that cannot be read.
	unreadable map[string]map[objectKey]struct{}
	count      int
	// loaded are the kinds whose first list is complete, touched the objects of a list that changed while it is read.
	loaded  [len(kinds)]bool
	touched [len(kinds)]map[types.NamespacedName]struct{}
	omitted bool
}

func newIndex() *index {
	return &index{objects: map[objectKey]user{}, users: map[virtualimages.Reference]map[objectKey]struct{}{}, unreadable: map[string]map[objectKey]struct{}{}}
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
	was := x.forget(key)
	u.list = slices.DeleteFunc(u.list, func(r virtualimages.Reference) bool { return !r.CanBeImage() })
	if !kinds[key.kind].holds {
		u.unreadable = false
	}
	if x.count+u.size() > maxReferences {
		x.omitted = true
		return was
	}
	if !u.uses() {
		return was
	}
	x.count += u.size()
	x.objects[key] = u
	for _, r := range u.list {
		add(x.users, r, key)
	}
	if u.unreadable {
		add(x.unreadable, key.Namespace, key)
	}
	return append(slices.Clone(was), u.list...)
}

// forget removes an object, and returns its references.
func (x *index) forget(key objectKey) []virtualimages.Reference {
	u := x.objects[key]
	for _, r := range u.list {
		remove(x.users, r, key)
	}
	remove(x.unreadable, key.Namespace, key)
	x.count -= u.size()
	delete(x.objects, key)
	return u.list
}

// size is the number of entries of the index that a user has.
func (u *user) size() int {
	if u.unreadable {
		return 1
	}
	return len(u.list)
}

func add[K comparable](to map[K]map[objectKey]struct{}, k K, key objectKey) {
	if to[k] == nil {
		to[k] = map[objectKey]struct{}{}
	}
	to[k][key] = struct{}{}
}

func remove[K comparable](from map[K]map[objectKey]struct{}, k K, key objectKey) {
	if delete(from[k], key); len(from[k]) == 0 {
		delete(from, k)
	}
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
		found(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, k.userOf(&o))
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

// of returns the users of an image, and its templates. complete is false before all users are read, and after too many were.
func (x *index) of(image *v1alpha1.VirtualImage) (held, listed []user, complete, omitted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range virtualimages.ReferencesTo(image) {
		for key := range x.users[r] {
			if kinds[key.kind].holds {
				held = append(held, x.objects[key].named())
			} else {
				listed = append(listed, x.objects[key].named())
			}
		}
	}
	for key := range x.unreadable[image.Namespace] {
		held = append(held, x.objects[key].named())
	}
	complete = !x.omitted
	for i := range kinds { // a kind that prevents no deletion cannot prevent one by a list that fails
		complete = complete && (x.loaded[i] || !kinds[i].holds)
	}
	return held, listed, complete, x.omitted
}

// named is a user without its references.
func (u user) named() user {
	u.list = nil
	return u
}

// usersOf returns the users of an image that count, and its templates. The users are nil before all are read.
func (r *Reconciler) usersOf(ctx context.Context, image *v1alpha1.VirtualImage) (users, templates *virtualimages.Users, omitted bool, err error) {
	held, listed, complete, omitted := r.index.of(image)
	names, err := r.permissions.users(ctx, image, listed)
	if err != nil {
		return nil, nil, false, err
	}
	templates = virtualimages.CountUsers(image.Namespace, names)
	if !complete {
		return nil, templates, omitted, nil
	}
	if names, err = r.permissions.users(ctx, image, held); err != nil {
		return nil, nil, false, err
	}
	return virtualimages.CountUsers(image.Namespace, names), templates, false, nil
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
