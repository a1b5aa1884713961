package templateimport

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
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

// polled is a source that answers at once.
type polled struct{ Source }

func (polled) Read(context.Context, *v1beta1.VirtualMachineTemplateImport, *Place) (*Read, error) {
	return &Read{Outcome: &imports.Outcome{}}, nil
}

func (polled) Copied(context.Context, *Place) (*transfer.StageStatus, error) {
	return &transfer.StageStatus{Done: 5, Total: 7}, nil
}

// TestPolls: an answer of the pod that copies, which nothing has used when the copy is complete, is not taken for what was read of the file.
func TestPolls(t *testing.T) {
	r := New(t.Context(), Options{Source: polled{}})
	o := &observed{request: &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: "a", UID: "a"}}, key: key{suffix: "s1"}, pod: &corev1.Pod{}}
	o.request.Status.Staging = &v1beta1.ImportStaged{Name: "copy"}
	o.pod.Annotations = map[string]string{imports.Servers.Annotation: "s1"}
	o.pod.Status = corev1.PodStatus{PodIP: "192.0.2.1", ContainerStatuses: []corev1.ContainerStatus{{Ready: true}}}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !done(); <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	until("the progress is not read", func() bool {
		d := decision{}
		r.copies(o, &d)
		return d.progress.Message == "5 B of 7 B of the file are copied into DataVolume a/copy"
	})
	r.copies(o, &decision{})
	until("the file is not read", func() bool { return !r.reads(o, &decision{}) })
	if o.read.Outcome == nil {
		t.Error("a progress is taken for what was read")
	}
}
