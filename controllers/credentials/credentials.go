// Package credentials reads the Secrets and ConfigMaps that the sources of images name, as CDI has them.
//
// What enters: their names and namespace. What leaves: the user, the password and the authorities of a source. It reads
// objects by name only, without a cache.
package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/virtualimages/source"
)

// The keys of a Secret with credentials, as CDI has them.
const (
	keyUser     = "accessKeyId"
	keyPassword = "secretKey"
)

// Read reads a Secret and a ConfigMap of a namespace into the options of a source; an empty name is none. A missing object is
// an Error of the source. An error of the API server, such as forbidden, can be unwrapped.
func Read(ctx context.Context, reader client.Reader, namespace, secretName, configMapName string, into *source.Options) error {
	if secretName != "" {
		secret := &corev1.Secret{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secretName}, secret)
		switch {
		case apierrors.IsNotFound(err):
			return &source.Error{Reason: source.ReasonMissingCredential, Message: fmt.Sprintf("there is no Secret %s", secretName)}
		case err != nil:
			return fmt.Errorf("reading a Secret: %w", err)
		}
		into.User, into.Password = string(secret.Data[keyUser]), string(secret.Data[keyPassword])
	}
	if configMapName != "" {
		authorities := &corev1.ConfigMap{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: configMapName}, authorities)
		switch {
		case apierrors.IsNotFound(err):
			return &source.Error{Reason: source.ReasonInvalidAuthority, Message: fmt.Sprintf("there is no ConfigMap %s", configMapName)}
		case err != nil:
			return fmt.Errorf("reading a ConfigMap: %w", err)
		}
		into.Authorities = []byte(certificates(authorities.Data))
	}
	return nil
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
