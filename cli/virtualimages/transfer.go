package virtualimages

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/virtualimages"
)

// transfer is one upload: the image, its file and the proxy.
type transfer struct {
	*upload

	in    *connected
	file  *uploadproxy.File
	proxy *uploadproxy.Client
	// image is the image in the cluster; nil before it is created.
	image *unstructured.Unstructured
	line  *uploadproxy.Progress
}

// transfer prepares an upload. It finds the proxy first, so that no image is created that cannot be uploaded.
func (u *upload) transfer(ctx context.Context, in *connected, file *uploadproxy.File) (*transfer, error) {
	t := &transfer{upload: u, in: in, file: file, line: uploadproxy.NewProgress(u.program.Streams.ErrOut, "Uploading", file.Size)}
	found, err := u.proxy.Find(ctx, in.client)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says which flag helps
	}
	found.Token, found.Sent, found.Again = t.token, t.line.Sent, t.again
	t.proxy, err = uploadproxy.New(found)
	if err == nil {
		err = t.proxy.Reach(ctx)
	}
	return t, err //nolint:wrapcheck // it says which flag is wrong
}

// run creates the image, sends the file, and waits as the flags say.
func (t *transfer) run(ctx context.Context) (*unstructured.Unstructured, error) {
	if err := t.claim(ctx); err != nil {
		return nil, err
	}
	w := newWatcher(t.in, t.image, t.program.Streams, t.timeout)
	w.until = awaitsFile
	waiting, err := w.run(ctx)
	if err != nil {
		return nil, err
	}
	sum, err := t.send(ctx, waiting)
	switch {
	case errors.Is(err, errComplete), uploadproxy.Done(err):
		fmt.Fprintln(t.program.Streams.ErrOut, "CDI has a file of this image already: it is not replaced")
	case err != nil:
		return nil, fmt.Errorf("uploading %s: %w", t.upload.file, err)
	default:
		fmt.Fprintf(t.program.Streams.ErrOut, "The file is uploaded: %s\n", sum)
	}
	if !t.wait {
		return t.image, nil
	}
	w = newWatcher(t.in, t.image, t.program.Streams, t.timeout)
	w.converting = true
	return w.run(ctx)
}

// send sends the file of an image that waits for it.
func (t *transfer) send(ctx context.Context, waiting *unstructured.Unstructured) (string, error) {
	image, err := decoded(waiting)
	if err != nil {
		return "", err
	}
	if image.Status.Ready {
		return "", errComplete
	}
	defer t.line.End()
	return t.proxy.Send(ctx, t.file.Whole()) //nolint:wrapcheck // the caller wraps it
}

// claim creates the image, or finds the one that an earlier upload created.
func (t *transfer) claim(ctx context.Context) error {
	created, err := t.create.create(ctx, t.in)
	if err == nil {
		t.image = created
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	read, err := t.in.Get(ctx, t.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("VirtualImage %s/%s: %w", t.in.namespace, t.name, explained(err))
	}
	exists, err := decoded(read)
	if err != nil {
		return err
	}
	if err := t.continues(exists); err != nil {
		return fmt.Errorf("VirtualImage %s/%s exists: %w", t.in.namespace, t.name, err)
	}
	t.image = read
	return nil
}

// continues says why an upload cannot continue with an image that exists; nil if it can.
func (t *transfer) continues(exists *v1alpha1.VirtualImage) error {
	want := t.specFlags.image(t.in.namespace).Spec
	if want.ContainerFormat == "" {
		want.ContainerFormat = v1alpha1.ContainerBare
	}
	switch {
	case exists.DeletionTimestamp != nil:
		return errors.New("it is being deleted")
	case exists.Spec.Upload == nil:
		return errors.New("it is imported from a URL: use another name")
	case exists.Status.Ready, meta.IsStatusConditionTrue(exists.Status.Conditions, v1alpha1.ConditionImported):
		return errors.New("it is complete, and an image is not replaced: use another name")
	case !equality.Semantic.DeepEqual(exists.Spec, want):
		return errors.New("it waits for another file: its format, its size or other fields differ. Delete it, or use another name")
	}
	return fault(exists)
}

// awaitsFile reports whether the backend of an image waits for its file.
func awaitsFile(image *v1alpha1.VirtualImage) bool {
	c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionImported)
	return c != nil && c.Reason == virtualimages.ReasonUploadPending
}

// token requests a token of CDI, with the rights of the user.
func (t *transfer) token(ctx context.Context) (string, error) {
	return uploadproxy.Token(ctx, t.in.client, t.in.namespace, virtualimages.VolumeName(t.name, t.image.GetUID())) //nolint:wrapcheck // it says what failed
}

// errComplete ends an upload whose image has its file.
var errComplete = errors.New("the image is complete")

// again tells why a request is repeated, and ends the upload of an image that awaits no file.
func (t *transfer) again(ctx context.Context, reason error) error {
	read, err := t.in.Get(ctx, t.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && read.GetUID() != t.image.GetUID():
		return errors.New("the image was deleted")
	case err == nil:
		image, err := decoded(read)
		if err != nil {
			return err
		}
		if image.Status.Ready {
			return errComplete
		}
		if err := fault(image); err != nil {
			return err
		}
		if image.DeletionTimestamp != nil {
			return errors.New("the image is being deleted")
		}
	}
	t.line.Again(reason)
	return nil
}
