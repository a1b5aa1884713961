package kills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Server returns a fake API server that has objects. Kinds of the second list have a subresource status. It gives each object that
// is created a UID and a time, and deletes no object with another UID than a request names. It validates and collects nothing, has
// no permissions and increases no generation, so no test of these can use it. The scheme should have only the kinds of the test: the
// fake goes through all of them at each write.
func Server(scheme *runtime.Scheme, now clock.PassiveClock, statuses []client.Object, objects ...client.Object) client.WithWatch {
	store := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(statuses...).WithObjects(objects...).Build()
	created := 0
	return interceptor.NewClient(store, interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			created++
			object.SetUID(types.UID(fmt.Sprintf("created-%d", created)))
			object.SetCreationTimestamp(metav1.NewTime(now.Now()).Rfc3339Copy())
			return to.Create(ctx, object, options...)
		},
		Delete: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			wanted := (&client.DeleteOptions{}).ApplyOptions(options)
			if wanted.Preconditions != nil && wanted.Preconditions.UID != nil {
				stored, _ := object.DeepCopyObject().(client.Object) // it has the same type
				if err := to.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
					return err
				}
				if stored.GetUID() != *wanted.Preconditions.UID {
					return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New("the UID is another one"))
				}
			}
			return to.Delete(ctx, object, options...)
		},
	})
}

// Fake returns a client of a fake API server with this connection, as Connect does for a real one.
func (c *Connection) Fake(server client.WithWatch) client.WithWatch {
	return interceptor.NewClient(server, interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return c.fakeRead(func() error { return to.Get(ctx, key, object, options...) })
		},
		List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return c.fakeRead(func() error { return to.List(ctx, list, options...) })
		},
		Watch: func(ctx context.Context, to client.WithWatch, list client.ObjectList, options ...client.ListOption) (changes watch.Interface, err error) {
			return changes, c.fakeRead(func() error { changes, err = to.Watch(ctx, list, options...); return err })
		},
		Create: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.CreateOption) error {
			create := func() error { return to.Create(ctx, object, options...) }
			if kind, err := to.GroupVersionKindFor(object); err == nil && strings.HasSuffix(kind.Kind, "SubjectAccessReview") {
				return c.fakeRead(create)
			}
			return c.fakeWrite(http.MethodPost, nameOf(to, object, ""), create)
		},
		Update: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return c.fakeWrite(http.MethodPut, nameOf(to, object, ""), func() error { return to.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return c.fakeWrite(http.MethodPatch, nameOf(to, object, ""), func() error { return to.Patch(ctx, object, patch, options...) })
		},
		Apply: func(ctx context.Context, to client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			return c.fakeWrite(http.MethodPatch, appliedName(object, ""), func() error { return to.Apply(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return c.fakeWrite(http.MethodDelete, nameOf(to, object, ""), func() error { return to.Delete(ctx, object, options...) })
		},
		DeleteAllOf: func(ctx context.Context, to client.WithWatch, object client.Object, options ...client.DeleteAllOfOption) error {
			return c.fakeWrite(http.MethodDelete, nameOf(to, object, ""), func() error { return to.DeleteAllOf(ctx, object, options...) })
		},
		SubResourceGet: func(ctx context.Context, to client.Client, sub string, object, into client.Object, options ...client.SubResourceGetOption) error {
			return c.fakeRead(func() error { return to.SubResource(sub).Get(ctx, object, into, options...) })
		},
		SubResourceCreate: func(ctx context.Context, to client.Client, sub string, object, body client.Object, options ...client.SubResourceCreateOption) error {
			return c.fakeWrite(http.MethodPost, nameOf(to, object, sub), func() error { return to.SubResource(sub).Create(ctx, object, body, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, to client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return c.fakeWrite(http.MethodPut, nameOf(to, object, sub), func() error { return to.SubResource(sub).Update(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, to client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return c.fakeWrite(http.MethodPatch, nameOf(to, object, sub), func() error { return to.SubResource(sub).Patch(ctx, object, patch, options...) })
		},
		SubResourceApply: func(ctx context.Context, to client.Client, sub string, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
			return c.fakeWrite(http.MethodPatch, appliedName(object, sub), func() error { return to.SubResource(sub).Apply(ctx, object, options...) })
		},
	})
}

func (c *Connection) fakeRead(do func() error) error {
	if c.Dead() {
		return Err
	}
	return do()
}

func (c *Connection) fakeWrite(method, path string, do func() error) (err error) {
	executed, answered := c.write(method+" "+path, func() bool { err = do(); return err == nil })
	if !executed || !answered {
		return Err
	}
	return err
}

// nameOf is KIND/NAMESPACE/NAME/SUBRESOURCE, without what is empty.
func nameOf(to client.Client, object client.Object, sub string) string {
	kind, _ := to.GroupVersionKindFor(object) // the client fails for an unknown kind
	return joined(kind.Kind, object.GetNamespace(), object.GetName(), sub)
}

func appliedName(object runtime.ApplyConfiguration, sub string) string {
	of := metav1.PartialObjectMetadata{}
	if data, err := json.Marshal(object); err == nil {
		_ = json.Unmarshal(data, &of) // the client fails for what is no object
	}
	return joined(of.Kind, of.Namespace, of.Name, sub)
}

func joined(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "/")
}

// Objects returns the items of lists, which are read.
func Objects(t testing.TB, server client.Client, lists ...client.ObjectList) (all []client.Object) {
	t.Helper()
	for _, list := range lists {
		if err := server.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			all = append(all, o.(client.Object)) //nolint:forcetypeassert // of a list
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Collect is the garbage collector: it deletes objects whose controller is neither one of them nor has one of the UIDs, and then what belonged
// to these. The function returns the objects that exist.
func Collect(t testing.TB, server client.Client, existing map[types.UID]bool, objects func() []client.Object) {
	t.Helper()
	for deleted := true; deleted; {
		deleted = false
		all, owners := objects(), maps.Clone(existing)
		for _, o := range all {
			owners[o.GetUID()] = true
		}
		for _, o := range all {
			owner := metav1.GetControllerOf(o)
			if owner == nil || owners[owner.UID] {
				continue
			}
			if err := client.IgnoreNotFound(server.Delete(t.Context(), o)); err != nil {
				t.Fatal(err)
			}
			deleted = true
		}
	}
}
