// Package credentials reads the Secrets and ConfigMaps that the sources of images name, as CDI has them.
//
// What enters: their names and namespace. What leaves: the user, the password and the authorities of a source. It reads
// objects by name only, without a cache.
package credentials

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/sources/web"
)

// The keys of a Secret with credentials, as CDI has them.
const (
	keyUser     = "accessKeyId"
	keyPassword = "secretKey"
)

// Bounds of what is kept while a source is read.
const (
	// MaxAuthorities is the size of the certificates of a ConfigMap.
	MaxAuthorities = 256 << 10
	// MaxCredential is the size of a user name and of a password.
	MaxCredential = 4 << 10
)

// Read reads a Secret and a ConfigMap of a namespace into the options of a source; an empty name is none. A missing object is
// a *web.Error. An error of the API server, such as forbidden, can be unwrapped.
func Read(ctx context.Context, reader client.Reader, namespace, secretName, configMapName string, into *web.Options) error {
	if secretName != "" {
		secret := &corev1.Secret{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secretName}, secret)
		switch {
		case apierrors.IsNotFound(err):
			return &web.Error{Reason: web.ReasonMissingCredential, Message: fmt.Sprintf("there is no Secret %s", secretName)}
		case err != nil:
			return fmt.Errorf("reading a Secret: %w", err)
		}
		if len(secret.Data[keyUser]) > MaxCredential || len(secret.Data[keyPassword]) > MaxCredential {
			return &web.Error{Reason: web.ReasonMissingCredential, Message: fmt.Sprintf("%s or %s of the Secret %s has more than %d bytes", keyUser, keyPassword, secretName, MaxCredential)}
		}
		into.User, into.Password = string(secret.Data[keyUser]), string(secret.Data[keyPassword])
	}
	if configMapName != "" {
		authorities := &corev1.ConfigMap{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: configMapName}, authorities)
		switch {
		case apierrors.IsNotFound(err):
			return &web.Error{Reason: web.ReasonInvalidAuthority, Message: fmt.Sprintf("there is no ConfigMap %s", configMapName)}
		case err != nil:
			return fmt.Errorf("reading a ConfigMap: %w", err)
		}
		into.Authorities = []byte(certificates(authorities.Data))
		if len(into.Authorities) > MaxAuthorities {
			return &web.Error{Reason: web.ReasonInvalidAuthority, Message: fmt.Sprintf("the ConfigMap %s has more than %d KiB of certificates", configMapName, MaxAuthorities>>10)}
		}
	}
	return nil
}

// certificates are the values of a ConfigMap in the order of their keys.
func certificates(data map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(data)) {
		b.WriteString(data[key] + "\n")
	}
	return b.String()
}
