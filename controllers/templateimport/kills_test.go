package templateimport_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/kills"
)

// killed is an import that is killed, or deleted, after each of its writes.
type killed struct {
	// begin returns a new cluster with the import.
	begin func(*testing.T) *cluster
	// want is what is left of an import that is completed.
	want []string
	// least is a number of writes that an import has at least.
	least int
	// once loses the answer of each second write only, because another test loses each.
	once bool
}

// writes is how many writes the import has.
func (k *killed) writes(t *testing.T) int {
	t.Helper()
	all := unbounded()
	k.begin(t).drive(t, all)
	writes := len(all.Accepted())
	if writes < k.least {
		t.Fatalf("%d writes: %q", writes, all.Accepted())
	}
	return writes
}

// converges holds that another process completes the import after a kill at each write, whether its answer arrives or not, and leaves the
// same.
func (k *killed) converges(t *testing.T, also ...func(*testing.T, *cluster)) {
	t.Helper()
	for n := range k.writes(t) {
		for _, lost := range []bool{false, true} {
			if k.once && lost != (n%2 == 0) {
				continue
			}
			t.Run(fmt.Sprintf("%d %t", n, lost), func(t *testing.T) {
				t.Parallel()
				c := k.begin(t)
				c.drive(t, &kills.Connection{Left: n + 1, Lost: lost})
				c.drive(t, unbounded())
				if diff := cmp.Diff(k.want, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
					t.Errorf("%+v; left (-want +got):\n%s", c.completed(t), diff)
				}
				c.knowsTemplate(t)
				for _, check := range also {
					check(t, c)
				}
			})
		}
	}
}

// knowsTemplate holds that the status has the digest of the template that exists, which approvals compare.
func (c *cluster) knowsTemplate(t *testing.T) {
	t.Helper()
	stored, template := c.stored(t), &v1beta1.VirtualMachineTemplate{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: stored.Status.TemplateRef.Name}, template))
	source, why := templates.SourceOf(template, stored)
	if source == nil || source.Import != stored.Name || source.Digest != stored.Status.Source.Digest {
		t.Errorf("the source is %+v: %s; the status %+v", source, why, stored.Status.Source)
	}
}

// leavesNothing holds that an import which is deleted after each write leaves nothing, or all of the template.
func (k *killed) leavesNothing(t *testing.T) {
	t.Helper()
	for n := range k.writes(t) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := k.begin(t)
			c.drive(t, &kills.Connection{Left: n + 1})
			must(t, c.server.Delete(t.Context(), c.request.DeepCopy()))
			c.drive(t, unbounded(), func() bool { return c.stored(t) == nil })
			c.plays(t)
			if left := c.left(t); len(left) > 0 && !slices.Equal(left, k.want) {
				t.Errorf("left: %q", left)
			}
		})
	}
}
