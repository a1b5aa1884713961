package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const own = "virtward.io/own"

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func configMap(name string, finalizers ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Finalizers: finalizers}}
}

// TestRelease: every finalizer of Virtward is removed, also one that a controller that ends adds again, and no other one.
func TestRelease(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for i := range 3 {
		objects = append(objects, configMap(fmt.Sprint("held-", i), "example.com/first", own, "example.com/last"), configMap(fmt.Sprint("free-", i)))
	}
	patches, conflicts, scaled := 0, 0, ""
	funcs := interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			patches++
			switch {
			case o.GetName() == "held-1" && conflicts == 0:
				conflicts++
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, o.GetName(), errors.New("it changed"))
			case patches == 4: // a controller that ends adds a finalizer again
				if err := c.Update(ctx, configMap("free-0", own)); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if list.GetObjectKind().GroupVersionKind().Kind == "AbsentList" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "absent"}, "")
			}
			return c.List(ctx, list, options...)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, subresource string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			scaled += subresource + " " + o.GetNamespace() + "/" + o.GetName() + ";"
			if o.GetName() == "absent" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "deployments"}, o.GetName())
			}
			return nil
		},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	r := Releaser{
		Client: c, Log: logr.Discard(), Namespace: "system", Deployments: []string{"absent", "images"}, Quiet: time.Millisecond,
		Finalizers: []Finalizer{{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Absent"}, Name: own}, {Kind: configMaps, Name: own}},
	}
	if err := r.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if scaled != "scale system/absent;scale system/images;" {
		t.Errorf("scaled %q", scaled)
	}
	list := &corev1.ConfigMapList{}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) != len(objects) {
		t.Fatalf("%v, %d objects", err, len(list.Items))
	}
	for i := range list.Items {
		want := ""
		if strings.HasPrefix(list.Items[i].Name, "held") {
			want = "example.com/first,example.com/last"
		}
		if got := strings.Join(list.Items[i].Finalizers, ","); got != want {
			t.Errorf("%s has %q, want %q", list.Items[i].Name, got, want)
		}
	}
	if conflicts != 1 || patches < 5 {
		t.Errorf("%d conflicts, %d patches", conflicts, patches)
	}
}

// TestDenied: an object that keeps its finalizer is named in the end, and keeps no other object.
func TestDenied(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(configMap("a", own), configMap("b", own)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if o.GetName() == "a" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("a guard denies it"))
			}
			return c.Patch(ctx, o, p, options...)
		},
	}).Build()
	late := errors.New("it took too long")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	r := Releaser{Client: c, Log: logr.Discard(), Finalizers: []Finalizer{{Kind: configMaps, Name: own}}, Quiet: time.Millisecond}
	if err := r.Release(ctx); !errors.Is(err, late) || !strings.Contains(err.Error(), "removing the finalizer virtward.io/own of ConfigMap team/a") {
		t.Errorf("error %v", err)
	}
	b := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil || len(b.Finalizers) > 0 {
		t.Errorf("%v, %v", err, b.Finalizers)
	}
}
