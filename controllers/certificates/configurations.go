package certificates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/certificates"
)

// target is an object by which the API server calls Virtward: a webhook configuration or an APIService.
type target struct {
	name, version string
	// hasPath reports whether it has a path already.
	hasPath bool
	// changes are what it lacks.
	changes func(certificates.State) []operation
	patch   func(ctx context.Context, body []byte) error
}

// hook is a webhook of a configuration.
type hook struct {
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

// webhookConfigurations is a client of one of the two kinds.
type webhookConfigurations[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*T, error)
}

// targets are those that exist.
func (r *Reconciler) targets(ctx context.Context) ([]target, error) {
	client := r.Client.AdmissionregistrationV1()
	mutating, err := read(ctx, client.MutatingWebhookConfigurations(), r.Mutating, r.mutatePath, func(object *admissionregistrationv1.MutatingWebhookConfiguration) (string, []hook) {
		var hooks []hook
		for i := range object.Webhooks {
			hooks = append(hooks, hook{object.Webhooks[i].Name, object.Webhooks[i].ClientConfig})
		}
		return object.ResourceVersion, hooks
	})
	if err != nil {
		return nil, err
	}
	validating, err := read(ctx, client.ValidatingWebhookConfigurations(), r.Validating, r.validatePath, func(object *admissionregistrationv1.ValidatingWebhookConfiguration) (string, []hook) {
		var hooks []hook
		for i := range object.Webhooks {
			hooks = append(hooks, hook{object.Webhooks[i].Name, object.Webhooks[i].ClientConfig})
		}
		return object.ResourceVersion, hooks
	})
	if err != nil {
		return nil, err
	}
	services, err := r.apiServices(ctx)
	return slices.Concat(mutating, validating, services), err
}

// read reads one configuration. It is none if there is no such object, or no name. path is that of a webhook by
// its name, without a token.
func read[T any](ctx context.Context, client webhookConfigurations[T], name string, path func(webhook string) string, hooksOf func(*T) (version string, hooks []hook)) ([]target, error) {
	if name == "" {
		return nil, nil
	}
	object, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading webhook configuration %s: %w", name, err)
	}
	version, hooks := hooksOf(object)
	return []target{{
		name: name, version: version, hasPath: slices.ContainsFunc(hooks, func(h hook) bool { return pathOf(h) != "" }),
		changes: func(state certificates.State) []operation { return hookChanges(state, path, hooks) },
		patch: func(ctx context.Context, body []byte) error {
			_, err := client.Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
			return err
		},
	}}, nil
}

// pathOf is the path by which a webhook is called.
func pathOf(h hook) string {
	if h.client.Service == nil || h.client.Service.Path == nil {
		return ""
	}
	return *h.client.Service.Path
}

// validatePath is the path of a validating webhook, without a token: that of deletions has its own.
func (r *Reconciler) validatePath(webhook string) string {
	if strings.HasPrefix(webhook, deletions) {
		return r.DeletionsPath
	}
	return r.ValidatePath
}

func (r *Reconciler) mutatePath(string) string { return r.MutatePath }

// deletions begins the name of the webhook of deletions.
const deletions = "deletions."

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// hookChanges are what webhooks lack: the CA bundle and the path, and nothing else. A webhook that calls a URL is not
// Virtward's.
func hookChanges(state certificates.State, path func(webhook string) string, hooks []hook) []operation {
	bundle := certificates.Bundle(state.Data)
	if len(bundle) == 0 || len(state.Data[certificates.TokenKey]) == 0 {
		return nil
	}
	var changes []operation
	for i, h := range hooks {
		if h.client.Service == nil {
			continue
		}
		at, present := fmt.Sprintf("/webhooks/%d", i), pathOf(h)
		wanted := state.Path(path(h.name), present)
		if bytes.Equal(h.client.CABundle, bundle) && wanted == present {
			continue
		}
		changes = append(changes,
			operation{"test", at + "/name", h.name},
			operation{"add", at + "/clientConfig/caBundle", bundle},
			operation{"add", at + "/clientConfig/service/path", wanted})
	}
	return changes
}

// write writes what the target lacks, unless the target changed in between. It reports whether there was something to
// write.
func (t *target) write(ctx context.Context, state certificates.State) (bool, error) {
	changes := t.changes(state)
	if len(changes) == 0 {
		return false, nil
	}
	body, err := json.Marshal(append([]operation{{"add", "/metadata/resourceVersion", t.version}}, changes...))
	if err != nil {
		return false, err
	}
	if err := t.patch(ctx, body); err != nil {
		return false, fmt.Errorf("writing %s: %w", t.name, err)
	}
	return true, nil
}
