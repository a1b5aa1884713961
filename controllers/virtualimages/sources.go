package virtualimages

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/web"
)

// maxReads bounds the Secrets and ConfigMaps that are read at the same time.
const maxReads = 4

// SourceOf returns a function that opens the sources of images, with the Secret and the ConfigMap that they name. It returns
// no client if this process may not read the Secret: only CDI reads such a source.
func SourceOf(reader client.Reader, permitted *sources.Sources) func(context.Context, *backend.Image) (*web.Client, error) {
	reads := memory.NewQueue(maxReads)
	return func(ctx context.Context, image *backend.Image) (*web.Client, error) {
		release, err := reads.Acquire(ctx, image.Namespace, 1)
		if err != nil {
			return nil, err
		}
		defer release()
		options := web.Options{Sources: permitted, Timeout: Timeout, Stall: Stall, Proxy: http.ProxyFromEnvironment}
		err = credentials.Read(ctx, reader, image.Namespace, image.Spec.SecretRef, image.Spec.CertConfigMap, &options)
		switch {
		case apierrors.IsForbidden(err):
			return nil, nil //nolint:nilnil // the caller knows of it
		case err != nil:
			return nil, err //nolint:wrapcheck // it says what was read
		}
		return web.New(options) //nolint:wrapcheck // it is an Error of the source
	}
}
