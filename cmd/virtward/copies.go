package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/controllers/virtualimages/copies"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/webhooks/serving"
)

// copyOptions are the flags for the copies of images in the cluster.
type copyOptions struct {
	address, url, folder string

	once sync.Once
	keys *copies.Keys
}

func (o *copyOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.address, "copies-address", "0", "address of the server from which CDI copies images into the cluster; 0 for no copies")
	flags.StringVar(&o.url, "copies-url", "", "URL by which CDI calls that server, such as https://virtward-copies.virtward-system.svc")
	flags.StringVar(&o.folder, "copies-cert-dir", "", "folder with tls.crt and tls.key of that server, and ca.crt")
}

func (o *copyOptions) enabled() bool { return o.address != "0" }

func (o *copyOptions) validate() error {
	if o.enabled() && (o.url == "" || o.folder == "") {
		return errors.New("--copies-address needs --copies-url and --copies-cert-dir")
	}
	return nil
}

func (o *copyOptions) file(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(o.folder, name))
	if err != nil {
		return nil, fmt.Errorf("reading --copies-cert-dir: %w", err)
	}
	return data, nil
}

// tokens are the keys of tokens.
func (o *copyOptions) tokens() *copies.Keys {
	o.once.Do(func() {
		o.keys = &copies.Keys{Read: func() ([]byte, error) { return o.file(corev1.TLSPrivateKeyKey) }, Now: time.Now}
	})
	return o.keys
}

// backend is a store whose images can be copied into the cluster.
func (o *copyOptions) backend(store *glance.Backend, volumes cdi.Options, always bool) backend.Backend {
	options := copies.Options{Store: store, Always: always, Client: volumes.Client, Owner: cdi.Owner, Clock: clock.RealClock{}}
	if o.enabled() {
		volumes.File = func(ctx context.Context, image *backend.Image) (*web.File, error) {
			return store.File(ctx, image, image.Spec.Format == v1alpha1.FormatVHD)
		}
		options.Volumes, options.URL, options.Keys, options.Lifetime = cdi.New(volumes), o.url, o.tokens(), volumes.Timeout
		options.Authorities = func() ([]byte, error) { return o.file(corev1.ServiceAccountRootCAKey) }
	}
	return copies.New(options)
}

// addTo adds the server to the manager. Every replica serves.
func (o *copyOptions) addTo(mgr manager.Manager, p *ports, keeps *virtualimages.Reconciler) error {
	if !o.enabled() {
		return nil
	}
	watcher, err := certwatcher.New(filepath.Join(o.folder, corev1.TLSCertKey), filepath.Join(o.folder, corev1.TLSPrivateKeyKey))
	if err != nil {
		return fmt.Errorf("reading the certificate of --copies-cert-dir: %w", err)
	}
	if err := mgr.Add(watcher); err != nil {
		return err
	}
	server := &copies.Server{Keys: o.tokens(), Now: time.Now, Find: func(ctx context.Context, namespace, name, id string) (*backend.Image, copies.Store, error) {
		image, class, err := keeps.Copied(ctx, namespace, name, id)
		if err != nil {
			return nil, nil, err
		}
		copied, ok := class.(*copies.Backend)
		if !ok {
			return nil, nil, copies.ErrNotCopied
		}
		return image, copied.Store, nil
	}}
	return p.add(mgr, serving.Options{
		Name: "copies", Address: o.address, TLS: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate},
		Route: func(r *http.Request) http.Handler { return server.Route(r) }, Limits: serving.CopyLimits(),
	})
}
