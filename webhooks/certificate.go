package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/webhooks/serving"
)

// Certificate is the serving certificate of the webhooks. It can be replaced while requests are served: a handshake uses
// the one that is current when the handshake begins. The zero Certificate has none yet.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

// GetCertificate implements the function of tls.Config.
func (c *Certificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := c.current.Load(); current != nil {
		return current, nil
	}
	return nil, errors.New("there is no serving certificate yet")
}

// Ready returns nil once there is a certificate.
func (c *Certificate) Ready() error {
	_, err := c.GetCertificate(nil)
	return err
}

// Expiry returns when the certificate expires, or zero while there is none.
func (c *Certificate) Expiry() time.Time {
	current := c.current.Load()
	if current == nil || current.Leaf == nil {
		return time.Time{}
	}
	return current.Leaf.NotAfter
}

func (c *Certificate) set(pair tls.Certificate) error {
	if pair.Leaf == nil {
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			return fmt.Errorf("parsing the serving certificate: %w", err)
		}
		pair.Leaf = leaf
	}
	c.current.Store(&pair)
	return nil
}

// SecretSource reads the certificate and the tokens of the paths from Virtward's Secret, and watches it. A mounted Secret
// would be a minute or more behind. The private key stays in memory.
type SecretSource struct {
	Certificate *Certificate
	Tokens      *serving.Tokens
	Client      kubernetes.Interface
	Namespace   string
	Name        string
	Log         logr.Logger
}

// Run watches the Secret until the context ends.
func (s *SecretSource) Run(ctx context.Context) error {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name).String()
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(s.Client.CoreV1().RESTClient(), "secrets", s.Namespace, fields.ParseSelectorOrDie(only)),
		ObjectType:    &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    s.take,
			UpdateFunc: func(_, obj any) { s.take(obj) },
		},
	})
	informer.RunWithContext(ctx)
	return nil
}

func (s *SecretSource) take(obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || len(secret.Data[corev1.TLSCertKey]) == 0 {
		return
	}
	// The tokens come first: a path is written into the webhook configurations only after it is in the Secret.
	s.Tokens.Set(certificates.Tokens(secret.Data)...)
	pair, err := tls.X509KeyPair(secret.Data[certificates.CertificateKey], secret.Data[certificates.PrivateKey])
	if err == nil {
		err = s.Certificate.set(pair)
	}
	if err != nil {
		s.Log.Error(err, "the Secret has no usable certificate; the previous one stays in use", "secret", s.Namespace+"/"+s.Name)
		return
	}
	s.Log.Info("serving certificate in use", "secret", s.Namespace+"/"+s.Name, "expires", s.Certificate.Expiry())
}

// FileSource reads the certificate from tls.crt and tls.key in Dir, for example a mounted Secret of cert-manager, and
// watches these files.
type FileSource struct {
	Certificate *Certificate
	Dir         string
	Log         logr.Logger
	// Retry is the interval between attempts to read files that do not exist yet.
	Retry time.Duration
}

// Run watches the files until the context ends.
func (s *FileSource) Run(ctx context.Context) error {
	for {
		watcher, err := certwatcher.New(filepath.Join(s.Dir, corev1.TLSCertKey), filepath.Join(s.Dir, corev1.TLSPrivateKeyKey))
		if err == nil {
			watcher.RegisterCallback(func(pair tls.Certificate) {
				if err := s.Certificate.set(pair); err != nil {
					s.Log.Error(err, "the files have no usable certificate; the previous one stays in use", "directory", s.Dir)
				}
			})
			return watcher.Start(ctx)
		}
		s.Log.Info("waiting for the serving certificate", "directory", s.Dir, "reason", err.Error())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.Retry):
		}
	}
}
