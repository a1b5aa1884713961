package virtualimages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/virtualimages"
	"github.com/virtward/virtward/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages/source"
)

// The keys of a Secret with credentials, as CDI has them.
const (
	keyUser     = "accessKeyId"
	keyPassword = "secretKey"
)

// SourceOf returns a function that opens the sources of images, with the Secret and the ConfigMap that they name. It returns
// no client if this process may not read the Secret: only CDI reads such a source.
func SourceOf(reader client.Reader, permitted *virtualimages.Sources) func(context.Context, *backend.Image) (*source.Client, error) {
	return func(ctx context.Context, image *backend.Image) (*source.Client, error) {
		options := source.Options{Sources: permitted, Timeout: Timeout, Stall: Stall}
		if name := image.Spec.SecretRef; name != "" {
			secret := &corev1.Secret{}
			err := reader.Get(ctx, client.ObjectKey{Namespace: image.Namespace, Name: name}, secret)
			switch {
			case apierrors.IsForbidden(err):
				return nil, nil //nolint:nilnil // the caller knows of it
			case apierrors.IsNotFound(err):
				return nil, &source.Error{Reason: source.ReasonMissingCredential, Message: fmt.Sprintf("there is no Secret %s", name)}
			case err != nil:
				return nil, fmt.Errorf("reading a Secret: %w", err)
			}
			options.User, options.Password = string(secret.Data[keyUser]), string(secret.Data[keyPassword])
		}
		if name := image.Spec.CertConfigMap; name != "" {
			authorities := &corev1.ConfigMap{}
			err := reader.Get(ctx, client.ObjectKey{Namespace: image.Namespace, Name: name}, authorities)
			switch {
			case apierrors.IsForbidden(err):
				return nil, nil //nolint:nilnil // the caller knows of it
			case apierrors.IsNotFound(err):
				return nil, &source.Error{Reason: source.ReasonInvalidAuthority, Message: fmt.Sprintf("there is no ConfigMap %s", name)}
			case err != nil:
				return nil, fmt.Errorf("reading a ConfigMap: %w", err)
			}
			options.Authorities = []byte(certificates(authorities.Data))
		}
		return source.New(options) //nolint:wrapcheck // it is an Error of the source
	}
}

// certificates are the values of a ConfigMap in the order of their keys.
func certificates(data map[string]string) string {
	keys := make([]string, 0, len(data))
	for key := range data {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		b.WriteString(data[key] + "\n")
	}
	return b.String()
}
