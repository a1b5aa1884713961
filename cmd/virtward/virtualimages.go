package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	kupenstackv1alpha1 "github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources/transfers"
	plans "github.com/virtward/virtward/virtualimages"
)

// virtualImagesOptions are the flags of `virtward virtualimages`.
type virtualImagesOptions struct {
	leader

	config    string
	clouds    string
	admission time.Duration
	copies    copyOptions
}

func virtualImagesCommand() *cobra.Command {
	o := &virtualImagesOptions{}
	cmd := &cobra.Command{
		Use:   "virtualimages",
		Short: "Import VirtualImages, and delete them when no virtual machine uses them",
		Long: `Imports each VirtualImage into the backend of its class, counts the virtual machines that use it, and deletes it when none
does. It is a separate process, because its account may write DataVolumes. It reads the cluster with the kubeconfig in
$KUBECONFIG, or as the service account of its pod. If there are several replicas, only the leader is active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.config, "config", "", "the file with the classes, the permitted sources and the limits; required")
	cmd.Flags().StringVar(&o.clouds, "clouds", "", "the file clouds.yaml of OpenStack; required for classes with the backend Glance")
	o.copies.addFlags(cmd.Flags())
	cmd.Flags().DurationVar(&o.admission, "admission-wait", plans.Defaults().Admission,
		"how long a deletion waits for virtual machines that were admitted before; longer than --request-timeout of the API server")
	return cmd
}

func (o *virtualImagesOptions) run(ctx context.Context) error {
	if o.config == "" {
		return errors.New("--config is required")
	}
	data, err := os.ReadFile(o.config)
	if err != nil {
		return fmt.Errorf("reading --config: %w", err)
	}
	config, err := virtualimages.ParseConfig(data)
	if err := errors.Join(err, o.validate(), o.copies.validate()); err != nil {
		return err
	}
	return o.start(ctx, func(connection *rest.Config) (manager.Manager, error) {
		scheme, err := newScheme(cdiv1beta1.AddToScheme, kupenstackv1alpha1.AddToScheme, apiextensionsv1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return o.manager(connection, processes.VirtualImages, cacheOptions(nil), scheme)
	}, func(mgr manager.Manager, connection *rest.Config, log logr.Logger) error {
		return o.addTo(ctx, mgr, connection, config, log)
	})
}

func (o *virtualImagesOptions) addTo(ctx context.Context, mgr manager.Manager, connection *rest.Config, config *virtualimages.Config, log logr.Logger) error {
	c, err := newClients(mgr, connection, connection)
	if err != nil {
		return err
	}
	system, err := c.typed.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the identity of the cluster: %w", err)
	}
	settings := plans.Defaults()
	settings.Admission = o.admission
	options := virtualimages.Options{
		Client: c.direct, Pages: c.reader, Cluster: string(system.UID), Classes: map[string]backend.Backend{}, Default: config.DefaultClass, ClassNames: slices.Sorted(maps.Keys(config.Classes)),
		Guards: &guarded.Guards{Reader: c.direct, All: admissionpolicies.VirtualImageGuards()}, Limits: config.Bounds(), Settings: settings, Clock: clock.RealClock{},
		Tell: tellOf[*kupenstackv1alpha1.VirtualImage](c.events, apikinds.VirtualImages.GroupVersionKind),
	}
	keeps := virtualimages.New(options)
	changed := func(namespace, name string) { keeps.Request(ctx, namespace, name) }
	sources := virtualimages.SourceOf(c.direct, config.Permitted())
	volumes := cdi.Options{
		Client: c.direct, Source: sources, Checksums: virtualimages.ChecksumsOf(c.direct), Probes: transfers.New[cdi.Probe](ctx, virtualimages.Probes()), Changed: changed,
		Timeout: config.Limits.Timeout.Duration, Clock: clock.RealClock{},
		Imports: func(ctx context.Context, image *backend.Image, bytes int64) (bool, string, string, error) {
			if image.Spec.Upload != nil {
				return keeps.Await(ctx, image.Namespace, image.Name, bytes)
			}
			return keeps.Begin(ctx, image.Namespace, image.Name, bytes)
		},
	}
	store := cdi.New(volumes)
	volumes.Imports = func(ctx context.Context, image *backend.Image, _ int64) (bool, string, string, error) { // of a copy
		return keeps.Begin(ctx, image.Namespace, image.Name, 0)
	}
	type opener func(*virtualimages.Class) (backend.Backend, error)
	streams := transfers.New[struct{}](ctx, config.Bounds().Transfers())
	inCluster := opener(func(*virtualimages.Class) (backend.Backend, error) { return store, nil })
	inCloud := opener(func(class *virtualimages.Class) (backend.Backend, error) {
		if o.clouds == "" {
			return nil, errors.New("--clouds is required")
		}
		connected := glance.Open(glance.Login{
			Read: func() ([]byte, error) { return os.ReadFile(o.clouds) }, Folder: filepath.Dir(o.clouds), Cloud: class.Cloud,
		})
		return o.copies.backend(glance.New(glance.Options{
			Client: connected, Streams: streams, Source: sources, Changed: changed,
			Visibility: glance.Visibility(class.Visibility), WebDownload: class.WebDownload, IgnoreUsers: class.CloudUsers == virtualimages.IgnoreCloudUsers,
			Deadline: config.Limits.Timeout.Duration,
		}), volumes, class.ClusterCopy == kupenstackv1alpha1.ClusterCopyAlways), nil
	})
	for name, class := range config.Classes {
		open, _ := virtualimages.Choose(class.Backend, inCluster, inCloud) // ParseConfig rejects other backends
		if options.Classes[name], err = open(&class); err != nil {
			return fmt.Errorf("class %s has the backend %s: %w", name, class.Backend, err)
		}
	}
	if err := metrics.Registry.Register(keeps.Collector()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := keeps.SetupWithManager(mgr, c.metadata()); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	if err := o.copies.addTo(mgr, p, keeps); err != nil {
		return err
	}
	return p.addSide(mgr, &o.process)
}
