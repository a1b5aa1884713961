package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/virtualimages"
)

const (
	// watchPause is the time between two reads of an image.
	watchPause = time.Second
	// maxReadErrors is the number of failed reads in a row after which the watch ends.
	maxReadErrors = 30
	// unnoticed is the number of reads of an image without a status after which the user learns of it.
	unnoticed = 10
)

// watcher shows the progress of an import.
type watcher struct {
	in      dynamic.ResourceInterface
	created *unstructured.Unstructured
	streams genericiooptions.IOStreams
	line    *options.Progress
	timeout time.Duration

	// until ends the watch of an image that is not ready; nil for never.
	until func(*v1alpha1.VirtualImage) bool
	// converting tells that CDI has the file of an image that waits for it.
	converting bool

	shown         string
	failed, blank int
	last          *unstructured.Unstructured
}

func newWatcher(in dynamic.ResourceInterface, created *unstructured.Unstructured, streams genericiooptions.IOStreams, timeout time.Duration) *watcher {
	return &watcher{in: in, created: created, streams: streams, line: options.NewProgress(streams.ErrOut), timeout: timeout}
}

// run reads the image until virtual machines can use it, and returns it. The error is why they cannot.
func (w *watcher) run(ctx context.Context) (*unstructured.Unstructured, error) {
	name := w.created.GetNamespace() + "/" + w.created.GetName()
	within := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	err := wait.PollUntilContextCancel(within, watchPause, true, w.step)
	w.line.End()
	switch {
	case ctx.Err() != nil && w.until != nil:
		return nil, context.Cause(ctx)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted: the import continues, see VirtualImage %s", name)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("VirtualImage %s is not ready after %s, and the import continues: %s", name, w.timeout, w.shown)
	case err != nil:
		return nil, fmt.Errorf("VirtualImage %s: %w", name, err)
	}
	return w.last, nil
}

// step reads the image once. done reports whether virtual machines can use it.
func (w *watcher) step(ctx context.Context) (done bool, err error) {
	read, err := w.in.Get(ctx, w.created.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && read.GetUID() != w.created.GetUID():
		return false, errors.New("it was deleted")
	case err != nil:
		if w.failed++; w.failed >= maxReadErrors || apierrors.IsForbidden(err) {
			return false, err
		}
		return false, nil
	}
	w.failed, w.last = 0, read
	image, err := decoded(read)
	if err != nil {
		return false, err
	}
	if image.Status.Ready || w.until != nil && w.until(image) {
		return true, nil
	}
	if image.DeletionTimestamp != nil {
		return false, errors.New("it is being deleted")
	}
	if err := fault(image); err != nil {
		return false, err
	}
	w.show(image)
	return false, nil
}

// show writes what happens now: in one line of a terminal, and elsewhere in a line for each change.
func (w *watcher) show(image *v1alpha1.VirtualImage) {
	ready := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		if w.blank++; w.blank != unnoticed {
			return
		}
		ready = &metav1.Condition{Reason: "Pending", Message: "Virtward has not read the image yet: check that the chart has virtualImages.enabled=true, and that the Deployment " + processes.VirtualImages + " runs"}
	}
	if w.converting && ready.Reason == virtualimages.ReasonUploadPending {
		ready = &metav1.Condition{Reason: "Converting", Message: "CDI converts the file"}
	}
	line := texts.OneLine(ready.Reason + ": " + ready.Message)
	progress := texts.OneLine(image.Status.Progress)
	if w.line.IsTerminal() {
		if fraction, known := fractionOf(progress); known {
			line = options.Bar(fraction) + " " + progress + "  " + line
		}
		w.shown = line
		w.line.Line(line)
		return
	}
	if progress != "" {
		line = fmt.Sprintf("%s (%s)", line, progress)
	}
	if line != w.shown {
		w.shown = line
		fmt.Fprintln(w.streams.ErrOut, line)
	}
}

// fractionOf is the fraction of a progress such as 42%, or 42% of 56.78mb.
func fractionOf(progress string) (float64, bool) {
	percent, _, found := strings.Cut(progress, "%")
	number, err := strconv.Atoi(percent)
	return float64(number) / 100, found && err == nil && number >= 0 && number <= 100
}

// lasting are the reasons of an import that does not begin or end until a user or an admin acts.
var lasting = []string{"ImportFailed", "NameTaken", "ClassNotFound", "NotGuarded", "Removed", "Deactivated", virtualimages.ReasonUploadExpired}

// fault is why virtual machines will not be able to use the image; nil if the import continues.
func fault(image *v1alpha1.VirtualImage) error {
	imported := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionImported)
	ready := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionReady)
	if imported == nil || ready == nil || !slices.Contains(lasting, imported.Reason) && !slices.Contains(lasting, ready.Reason) {
		return nil
	}
	return fmt.Errorf("%s: %s", ready.Reason, ready.Message)
}
