package template

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// watchPause is the time between two reads of a request.
const watchPause = time.Second

// maxReadErrors is the number of failed reads in a row after which the watch ends.
const maxReadErrors = 30

// watcher shows the progress of a request.
type watcher struct {
	requests dynamic.ResourceInterface
	created  *unstructured.Unstructured
	streams  genericiooptions.IOStreams
	// timeout is the most time to wait; 0 for no limit. pause is the time between two reads.
	timeout, pause time.Duration
	// object and work are what is created, and what continues in the cluster: request and capture, or import.
	object, work string

	shown  string
	failed int
	// last is the request as it was read last.
	last v1beta1.VirtualMachineTemplateRequest
}

// run reads the request until it is complete or has failed.
func (w *watcher) run(ctx context.Context) error {
	name := w.created.GetNamespace() + "/" + w.created.GetName()
	fmt.Fprintf(w.streams.ErrOut, "created the %s %s\n", w.object, name)
	within := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	err := wait.PollUntilContextCancel(within, w.pause, true, w.step)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: the %s continues, see the %s %s", w.work, w.object, name)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the %s %s is not complete after %s: the %s continues", w.object, name, w.timeout, w.work)
	case err != nil:
		return fmt.Errorf("the %s %s: %w", w.object, name, err)
	}
	fmt.Fprintf(w.streams.Out, "virtualmachinetemplate.template.kubevirt.io/%s\n", w.last.Status.TemplateRef.Name)
	return nil
}

// step reads the request once. done reports whether the template is complete.
func (w *watcher) step(ctx context.Context) (done bool, err error) {
	read, err := w.requests.Get(ctx, w.created.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && read.GetUID() != w.created.GetUID():
		if w.last.Status.TemplateRef != nil && meta.IsStatusConditionTrue(w.last.Status.Conditions, v1beta1.RequestReady) {
			return true, nil // its time to live has ended
		}
		return false, errors.New("it was deleted")
	case err != nil:
		if w.failed++; w.failed >= maxReadErrors || apierrors.IsForbidden(err) {
			return false, err
		}
		return false, nil
	}
	w.failed = 0
	w.last = v1beta1.VirtualMachineTemplateRequest{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, &w.last); err != nil {
		return false, err
	}
	w.show()
	return w.outcome()
}

// show writes the condition that says what happens now, if it has changed.
func (w *watcher) show() {
	current := meta.FindStatusCondition(w.last.Status.Conditions, v1beta1.RequestProgressing)
	if current == nil {
		return
	}
	if line := strings.TrimRight(texts.OneLine(current.Reason+": "+current.Message), ": "); line != w.shown {
		w.shown = line
		fmt.Fprintln(w.streams.ErrOut, line)
	}
}

// outcome reports whether the template is complete. The error is why the capture failed.
func (w *watcher) outcome() (done bool, err error) {
	conditions := w.last.Status.Conditions
	ready := meta.FindStatusCondition(conditions, v1beta1.RequestReady)
	progressing := meta.FindStatusCondition(conditions, v1beta1.RequestProgressing)
	completed := meta.FindStatusCondition(conditions, v1beta1.RequestCompleted)
	switch {
	case ready == nil || progressing == nil:
		return false, nil
	case completed != nil && completed.Status == metav1.ConditionTrue,
		completed == nil && ready.Status == metav1.ConditionTrue && progressing.Status == metav1.ConditionFalse: // of KubeVirt's own controller
		return w.last.Status.TemplateRef != nil, nil
	case progressing.Status == metav1.ConditionFalse && ready.Status != metav1.ConditionTrue:
		why := progressing
		if ready.Message != "" && ready.Message != progressing.Message {
			why = ready
		}
		return false, fmt.Errorf("the %s failed: %s: %s", w.work, why.Reason, why.Message)
	}
	return false, nil
}
