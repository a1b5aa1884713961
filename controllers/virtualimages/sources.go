package virtualimages

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/virtualimages"
	"github.com/virtward/virtward/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages/source"
)

// maxReads bounds the Secrets and ConfigMaps that are read at the same time.
const maxReads = 4

// SourceOf returns a function that opens the sources of images, with the Secret and the ConfigMap that they name. It returns
// no client if this process may not read the Secret: only CDI reads such a source.
func SourceOf(reader client.Reader, permitted *virtualimages.Sources) func(context.Context, *backend.Image) (*source.Client, error) {
	reads := make(chan struct{}, maxReads)
	return func(ctx context.Context, image *backend.Image) (*source.Client, error) {
		select {
		case reads <- struct{}{}:
			defer func() { <-reads }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		options := source.Options{Sources: permitted, Timeout: Timeout, Stall: Stall}
		err := credentials.Read(ctx, reader, image.Namespace, image.Spec.SecretRef, image.Spec.CertConfigMap, &options)
		switch {
		case apierrors.IsForbidden(err):
			return nil, nil //nolint:nilnil // the caller knows of it
		case err != nil:
			return nil, err //nolint:wrapcheck // it says what was read
		}
		return source.New(options) //nolint:wrapcheck // it is an Error of the source
	}
}
