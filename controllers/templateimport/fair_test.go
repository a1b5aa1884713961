package templateimport

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/imports"
)

// slow is a source that answers in one namespace only.
type slow struct {
	Source

	fast string
}

func (s slow) Read(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, _ *Place) (*Read, error) {
	if of.Namespace != s.fast {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &Read{Outcome: &imports.Outcome{}}, nil
}

// TestSlowSources: a namespace with many imports whose sources never answer does not keep another one from reading its own.
func TestSlowSources(t *testing.T) {
	r := New(t.Context(), Options{Source: slow{fast: "b"}})
	of := func(namespace string, n int) *observed {
		return &observed{request: &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(fmt.Sprint(namespace, n))}}}
	}
	for n := range 3 * maxHeld {
		d := decision{}
		if !r.reads(of("a", n), &d) || n >= maxHeldOfOne && d.after != retryInterval {
			t.Fatalf("import %d of a: %+v", n, d)
		}
	}
	if len(r.held) != maxHeldOfOne {
		t.Errorf("one namespace holds %d places", len(r.held))
	}
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		o := of("b", 0)
		if !r.reads(o, &decision{}) && o.read != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the import of b is not read")
		}
	}
}
