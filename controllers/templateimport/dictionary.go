package templateimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/transfers"
)

// maxDictionaryTime bounds how long a file has the place for a large dictionary: the files of other namespaces wait for it.
const maxDictionaryTime = time.Hour

// errSlow is the fault of a file whose comparison takes longer.
var errSlow = &imports.Fault{Reason: v1beta1.ReasonDeadlineExceeded, Message: fmt.Sprintf("the file is compressed with xz and a dictionary of more than %d MiB, and its comparison took longer than %d minutes: "+
	"compress it with xz -6 or a lower preset, which have no such limit", transfer.MaxWindow>>20, int(maxDictionaryTime.Minutes()))}

// comparison compares a file. The window bounds the memory of its decompression.
type comparison func(ctx context.Context, window uint64, progress *transfers.Progress) (*verification, error)

// startVerification compares a file with a small window. If it needs a large dictionary, it is compared again once it has the place for one.
func (r *Reconciler) startVerification(of *v1beta1.VirtualMachineTemplateImport, compares comparison) error {
	uid, namespace := string(of.UID), of.Namespace
	return r.verifications.Start(uid, namespace, func(ctx context.Context, progress *transfers.Progress) (*verification, error) { //nolint:wrapcheck // it is for users
		result, err := compares(ctx, transfer.MaxWindow, progress)
		if errors.Is(err, errDictionary) {
			if full := r.dictionaries.Start(uid, namespace, compares.bounded, nil); full != nil {
				return nil, full //nolint:wrapcheck // as above
			}
		}
		return result, err
	}, nil)
}

// bounded compares a file with the largest dictionary, for a bounded time.
func (c comparison) bounded(ctx context.Context, progress *transfers.Progress) (*verification, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxDictionaryTime, errSlow)
	defer cancel()
	result, err := c(ctx, transfer.MaxDictionary, progress)
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return nil, errSlow
	}
	return result, err
}

// comparisonOf is the state of the comparison of an import. isLarge tells that it needs a large dictionary.
func (r *Reconciler) comparisonOf(uid types.UID) (task transfers.Task[*verification], isLarge, known bool) {
	task, known = r.verifications.Get(string(uid))
	if isLarge = errors.Is(task.Err, errDictionary); isLarge {
		task, known = r.dictionaries.Get(string(uid))
	}
	return task, isLarge, known
}

// forgetVerification ends the comparison of an import, and reports whether it has returned.
func (r *Reconciler) forgetVerification(uid types.UID) bool {
	return r.verifications.Forget(string(uid)) && r.dictionaries.Forget(string(uid))
}
