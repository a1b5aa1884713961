package library

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// owner are the annotations that name the release of Helm that owns an object.
var owner = []string{"meta.helm.sh/release-name", "meta.helm.sh/release-namespace"}

// Read reads the files of a folder, each with one policy, in the order of their names.
func Read(folder fs.FS) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	var policies []*unstructured.Unstructured
	for _, file := range files {
		content, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		policy := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(content, &policy.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if want := policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"); policy.GroupVersionKind() != want {
			return nil, fmt.Errorf("%s: it is a %s, want a %s", file, policy.GroupVersionKind(), want)
		}
		if name := policy.GetName() + ".yaml"; name != path.Base(file) {
			return nil, fmt.Errorf("%s: the name of the policy is %q", file, policy.GetName())
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

// Installer creates policies.
type Installer struct {
	Client client.Client
	Log    logr.Logger
	// AwaitWebhook waits until the webhook denies an invalid policy: before that, the API server may store policies
	// without validation.
	AwaitWebhook bool
	// Interval is the time between two attempts.
	Interval time.Duration
}

// Install creates the policies. It repeats what can succeed later, until the context ends. A policy that cannot be created
// does not stop the others.
func (i Installer) Install(ctx context.Context, policies []*unstructured.Unstructured) error {
	if i.AwaitWebhook {
		if err := i.repeat(ctx, "waiting for the webhook", func() error { return i.denies(ctx) }); err != nil {
			return err
		}
	}
	var errs []error
	for _, policy := range policies {
		if err := i.repeat(ctx, "creating the policy "+policy.GetName(), func() error { return i.create(ctx, policy) }); err != nil {
			errs = append(errs, err)
			continue
		}
		i.Log.Info("the policy is installed", "policy", policy.GetName())
	}
	return errors.Join(errs...)
}

// repeat calls a function until it succeeds, fails for good, or the context ends. The error has the last reason.
func (i Installer) repeat(ctx context.Context, what string, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		if final(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		i.Log.Info("not yet", "what", what, "reason", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: the last reason: %w", what, context.Cause(ctx), err)
		case <-time.After(i.Interval):
		}
	}
}

// errTaken reports an object of another owner.
var errTaken = errors.New("a policy of this name exists, and does not belong to this release: delete it, or remove it from library.policies")

// final reports whether a repetition cannot succeed. A webhook that does not answer is an internal error, and the rights of
// a new account arrive late.
func final(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || errors.Is(err, errTaken)
}

// create applies a policy that does not exist as Helm does, whose next release then owns all of its fields.
func (i Installer) create(ctx context.Context, policy *unstructured.Unstructured) error {
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(policy.GroupVersionKind())
	err := i.Client.Get(ctx, client.ObjectKeyFromObject(policy), existing)
	if apierrors.IsNotFound(err) {
		return i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(policy.DeepCopy()), client.FieldOwner("helm"))
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(owner, func(key string) bool { return existing.GetAnnotations()[key] != policy.GetAnnotations()[key] }) {
		return errTaken
	}
	return nil
}

// denies returns nil if an invalid policy is denied.
func (i Installer) denies(ctx context.Context) error {
	policy := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "virtward-is-it-validated"},
		"spec": map[string]any{
			"enforcement": "Audit",
			"validations": []any{map[string]any{"expression": "this is no expression", "message": "never"}},
		},
	}}
	policy.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	err := i.Client.Create(ctx, policy, client.DryRunAll)
	switch {
	case apierrors.IsInvalid(err):
		return nil
	case meta.IsNoMatchError(err):
		return errors.New("the kind VirtualMachinePolicy does not exist yet")
	case err != nil:
		return err
	}
	return errors.New("the API server does not call the webhook yet")
}
