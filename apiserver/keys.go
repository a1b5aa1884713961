package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/virtward/virtward/templates/approvals"
)

const (
	// ApprovalKeys is the Secret with the keys that sign approvals. The chart creates it without data, and only this server
	// can read it.
	ApprovalKeys = "virtward-approval-keys"
	// RotateAnnotation on the Secret requests a new key. The server removes it.
	RotateAnnotation = "virtward.io/rotate"
)

// Keys are the keys of approvals, which all replicas share. Nothing is cached, so a new key, and the end of an approval, count
// at once in all replicas.
type Keys interface {
	// Read returns the keys. It makes the first key, and a new one if a user requests it.
	Read(ctx context.Context) (*approvals.Keyring, error)
	// Change changes the keys, and returns them. The change is called again if another replica changed them too.
	Change(ctx context.Context, change func(*approvals.Keyring)) (*approvals.Keyring, error)
}

// conflicts is how often a change is tried while other replicas change the Secret, and how long it waits.
var conflicts = wait.Backoff{Steps: 8, Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5} //nolint:gochecknoglobals // a constant

// secretKeys keeps the keys in a Secret.
type secretKeys struct {
	secrets typedcorev1.SecretInterface
	// newKey draws a key.
	newKey func() []byte

	// changing has one element while a change of this replica is in progress.
	changing chan struct{}

	mu sync.Mutex
	// read are the keys of a version of the Secret, so that requests do not parse the same version again. They never change.
	read    *approvals.Keyring
	version string
}

func newSecretKeys(secrets typedcorev1.SecretInterface, newKey func() []byte) *secretKeys {
	return &secretKeys{secrets: secrets, newKey: newKey, changing: make(chan struct{}, 1)}
}

// Read implements Keys.
func (k *secretKeys) Read(ctx context.Context) (*approvals.Keyring, error) {
	requested := false
	keys, err := limit(ctx, readTimeout, "send the keys of approvals", func(ctx context.Context) (*approvals.Keyring, error) {
		secret, err := k.get(ctx)
		if err != nil {
			return nil, err
		}
		keys, err := k.parsed(secret)
		requested = err == nil && k.needsKey(secret, keys)
		return keys, err
	})
	if err != nil || !requested {
		return keys, err
	}
	return k.Change(ctx, func(*approvals.Keyring) {})
}

// Change implements Keys.
func (k *secretKeys) Change(ctx context.Context, change func(*approvals.Keyring)) (*approvals.Keyring, error) {
	return limit(ctx, statusTimeout, "store the keys of approvals", func(ctx context.Context) (*approvals.Keyring, error) {
		select {
		case k.changing <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-k.changing }()
		return k.change(ctx, change)
	})
}

func (k *secretKeys) change(ctx context.Context, change func(*approvals.Keyring)) (keys *approvals.Keyring, err error) {
	err = retry.RetryOnConflict(conflicts, func() error {
		secret, err := k.get(ctx)
		if err != nil {
			return err
		}
		current, err := parse(secret)
		if err != nil {
			return err
		}
		if k.needsKey(secret, current) {
			if err := current.Add(k.newKey()); err != nil {
				return err
			}
			delete(secret.Annotations, RotateAnnotation)
		}
		change(current)
		secret.Data, keys = current.Data(), current
		if _, err := k.secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: "virtward-apiserver"}); err != nil {
			return keysError("write", err)
		}
		return nil
	})
	return keys, err
}

// needsKey reports whether a key is to be added.
func (k *secretKeys) needsKey(secret *corev1.Secret, keys *approvals.Keyring) bool {
	_, requested := secret.Annotations[RotateAnnotation]
	return keys.Empty() || requested
}

func (k *secretKeys) get(ctx context.Context) (*corev1.Secret, error) {
	secret, err := k.secrets.Get(ctx, ApprovalKeys, metav1.GetOptions{})
	if err != nil {
		return nil, keysError("read", err)
	}
	return secret, nil
}

// parsed returns the keys of a Secret, which callers share.
func (k *secretKeys) parsed(secret *corev1.Secret) (*approvals.Keyring, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version == "" || k.version != secret.ResourceVersion {
		read, err := parse(secret)
		if err != nil {
			return nil, err
		}
		k.read, k.version = read, secret.ResourceVersion
	}
	return k.read, nil
}

func parse(secret *corev1.Secret) (*approvals.Keyring, error) {
	keys, err := approvals.Parse(secret.Data)
	if err != nil {
		return nil, keysError("read", err)
	}
	return keys, nil
}

// keysError says what an admin can do. No user can see the Secret, so the message has nothing of its content.
func keysError(action string, err error) error {
	switch {
	case apierrors.IsConflict(err): // other replicas change the Secret too
		return err
	case apierrors.IsNotFound(err):
		return fmt.Errorf("virtward could not %s the keys of approvals: the Secret %s is missing, and helm upgrade creates it", action, ApprovalKeys)
	}
	return fmt.Errorf("virtward could not %s the keys of approvals in the Secret %s: %w", action, ApprovalKeys, err)
}

// keysAnswer is an error of the keys as the answer to a user.
func keysAnswer(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return busy()
	case apierrors.IsTimeout(err):
		return err
	}
	return apierrors.NewInternalError(err)
}
