package guarded_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/controllers/guarded"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// installed are the guards that the chart installs, all created at one time.
func installed(t *testing.T) []client.Object {
	t.Helper()
	shipped, err := admissionpolicies.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, object := range shipped {
		object.SetCreationTimestamp(metav1.NewTime(began))
		all = append(all, object)
	}
	return all
}

// TestMissing holds for each kind of objects that one which could be written without its guards is not trusted.
func TestMissing(t *testing.T) {
	for kind, guards := range map[string][]admissionpolicies.Guard{
		"rollouts": admissionpolicies.RolloutGuards(), "captures": admissionpolicies.CaptureGuards(), "imports": admissionpolicies.ImportGuards(), "catalogs": admissionpolicies.CatalogGuards(), "images": admissionpolicies.VirtualImageGuards(),
		"exports": admissionpolicies.ExportGuards(), "clones of exports": admissionpolicies.ExportCloneGuards(),
	} {
		t.Run(kind, func(t *testing.T) {
			missing := func(age time.Duration, objects ...client.Object) string {
				t.Helper()
				g := &guarded.Guards{Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build(), All: guards}
				why, err := g.Missing(t.Context(), &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began.Add(age))})
				if err != nil {
					t.Fatal(err)
				}
				return why
			}
			if why := missing(10*time.Second, installed(t)...); why != "" {
				t.Errorf("younger than the guards: %s", why)
			}
			for _, age := range []time.Duration{-time.Hour, 0, 9 * time.Second} {
				if why := missing(age, installed(t)...); !strings.Contains(why, "is active since 2026-11-21T12:00:10Z. Delete the object, and create it again") {
					t.Errorf("%s after the guards: %q", age, why)
				}
			}
			for _, guard := range guards {
				without := func(kind string) []client.Object {
					return slices.DeleteFunc(installed(t), func(o client.Object) bool {
						return o.GetName() == guard.Name && o.GetObjectKind().GroupVersionKind().Kind == kind
					})
				}
				for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
					if why := missing(time.Hour, without(kind)...); !strings.Contains(why, guard.Name+", which checks the permissions of authors, is not active") {
						t.Errorf("without the %s %s: %q", kind, guard.Name, why)
					}
				}
				objects := installed(t)
				for _, object := range objects {
					if object.GetName() != guard.Name || object.GetObjectKind().GroupVersionKind().Kind != "ValidatingAdmissionPolicy" {
						continue
					}
					conditions := []any{map[string]any{"name": admissionpolicies.Disabled, "expression": "false"}}
					if err := unstructured.SetNestedSlice(object.(*unstructured.Unstructured).Object, conditions, "spec", "matchConditions"); err != nil {
						t.Fatal(err)
					}
				}
				if why := missing(time.Hour, objects...); !strings.Contains(why, guard.Name) {
					t.Errorf("%s is switched off: %q", guard.Name, why)
				}
			}
		})
	}
}

// TestMissingFails holds that an object is not trusted while its guards cannot be read, and that nil has no guards.
func TestMissingFails(t *testing.T) {
	fails := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("not today")
	}}
	g := &guarded.Guards{Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(fails).Build(), All: admissionpolicies.RolloutGuards()}
	if _, err := g.Missing(t.Context(), &metav1.ObjectMeta{}); err == nil || err.Error() != "reading the guard virtward-rollouts: not today" {
		t.Errorf("got %v", err)
	}
	if why, err := (*guarded.Guards)(nil).Missing(t.Context(), &metav1.ObjectMeta{}); err != nil || why != "" {
		t.Errorf("got %q, %v", why, err)
	}
}
