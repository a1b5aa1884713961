package certificates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/certificates"
)

// configuration is one of our webhook configurations, of either kind.
type configuration struct {
	name, version string
	// path is that of its webhooks, without a token.
	path  string
	hooks []hook
	patch func(ctx context.Context, body []byte) error
}

// hook is one of its webhooks.
type hook struct {
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

// webhookConfigurations is a client of one of the two kinds.
type webhookConfigurations[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*T, error)
}

// configurations are those that exist.
func (r *Reconciler) configurations(ctx context.Context) ([]configuration, error) {
	client := r.Client.AdmissionregistrationV1()
	mutating, err := read(ctx, client.MutatingWebhookConfigurations(), configuration{name: r.Mutating, path: r.MutatePath},
		func(c *configuration, object *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.version = object.ResourceVersion
			for i := range object.Webhooks {
				c.hooks = append(c.hooks, hook{object.Webhooks[i].Name, object.Webhooks[i].ClientConfig})
			}
		})
	if err != nil {
		return nil, err
	}
	validating, err := read(ctx, client.ValidatingWebhookConfigurations(), configuration{name: r.Validating, path: r.ValidatePath},
		func(c *configuration, object *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.version = object.ResourceVersion
			for i := range object.Webhooks {
				c.hooks = append(c.hooks, hook{object.Webhooks[i].Name, object.Webhooks[i].ClientConfig})
			}
		})
	return append(mutating, validating...), err
}

// read reads one configuration, and fills it from the object. It is none if there is no such object.
func read[T any](ctx context.Context, client webhookConfigurations[T], c configuration, fill func(*configuration, *T)) ([]configuration, error) {
	object, err := client.Get(ctx, c.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading webhook configuration %s: %w", c.name, err)
	}
	fill(&c, object)
	c.patch = func(ctx context.Context, body []byte) error {
		_, err := client.Patch(ctx, c.name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
	return []configuration{c}, nil
}

// hasPath reports whether some webhook is called by a path already.
func hasPath(all []configuration) bool {
	return slices.ContainsFunc(all, func(c configuration) bool {
		return slices.ContainsFunc(c.hooks, func(h hook) bool {
			return h.client.Service != nil && h.client.Service.Path != nil && *h.client.Service.Path != ""
		})
	})
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// changes are what the configuration lacks: the CA bundle and the path of its webhooks, and nothing else. A webhook
// that calls a URL is not Virtward's.
func (c configuration) changes(state certificates.State) []operation {
	bundle := certificates.Bundle(state.Data)
	if len(bundle) == 0 || len(state.Data[certificates.TokenKey]) == 0 {
		return nil
	}
	var changes []operation
	for i, h := range c.hooks {
		if h.client.Service == nil {
			continue
		}
		at := fmt.Sprintf("/webhooks/%d", i)
		present := ""
		if h.client.Service.Path != nil {
			present = *h.client.Service.Path
		}
		path := state.Path(c.path, present)
		if bytes.Equal(h.client.CABundle, bundle) && path == present {
			continue
		}
		changes = append(changes,
			operation{"test", at + "/name", h.name},
			operation{"add", at + "/clientConfig/caBundle", bundle},
			operation{"add", at + "/clientConfig/service/path", path})
	}
	return changes
}

// write writes the bundle and the path together, unless the configuration changed in between. It reports whether there
// was something to write.
func (c configuration) write(ctx context.Context, state certificates.State) (bool, error) {
	changes := c.changes(state)
	if len(changes) == 0 {
		return false, nil
	}
	body, err := json.Marshal(append([]operation{{"add", "/metadata/resourceVersion", c.version}}, changes...))
	if err != nil {
		return false, err
	}
	if err := c.patch(ctx, body); err != nil {
		return false, fmt.Errorf("writing webhook configuration %s: %w", c.name, err)
	}
	return true, nil
}
