package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	templatev1beta1 "github.com/virtward/virtward/api/template/v1beta1"
	goldenimagescontroller "github.com/virtward/virtward/controllers/goldenimages"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/variants"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/registry"
)

// imagesOptions are the flags of `virtward images`.
type imagesOptions struct {
	leader

	commonImages string
	hosts        []string
	networks     []string
	interval     time.Duration
}

func imagesCommand() *cobra.Command {
	o := &imagesOptions{}
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Import golden images for the architectures of the nodes",
		Long: `Creates the DataImportCrons of each GoldenImageCatalog, one for each image and architecture of the nodes, and the
DataSources without a suffix, which point to the default architecture. Keeps a variant for each architecture of VM templates
that have the label of an image. It is a separate process, because its account may delete DataSources. It reads the cluster with
the kubeconfig in $KUBECONFIG, or as the service account of its pod. If there are several replicas, only the leader is active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.commonImages, "common-images", "", "File with the common images: a list of dataImportCronTemplates, for catalogs with commonImages")
	cmd.Flags().StringSliceVar(&o.hosts, "registry-hosts", nil, "Registries whose manifests are read, such as quay.io or *.example.com; all without any")
	cmd.Flags().StringSliceVar(&o.networks, "registry-networks", nil, "Networks of registries whose addresses are not public, such as 10.1.0.0/16")
	cmd.Flags().DurationVar(&o.interval, "manifest-interval", time.Hour, "How often the manifest of each image is read, for catalogs with verifyManifest")
	return cmd
}

func (o *imagesOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.interval <= 0 {
		return errors.New("--manifest-interval must be more than 0")
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme, err := newScheme(cdiv1beta1.AddToScheme, imagev1alpha1.AddToScheme, templatev1beta1.AddToScheme)
		if err != nil {
			return nil, err
		}
		cached := cacheOptions(map[client.Object]cache.ByObject{
			&corev1.Node{}: {Transform: goldenimagescontroller.Condensed}, &imagev1alpha1.GoldenImageCatalog{}: {Transform: variants.Condensed},
		})
		return o.manager(config, processes.Images, cached, scheme)
	}, func(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
		return o.addTo(ctx, mgr, config, log)
	})
}

func (o *imagesOptions) addTo(ctx context.Context, mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	c, err := newClients(mgr, config, config)
	if err != nil {
		return err
	}
	common, err := readCommonImages(o.commonImages)
	if err != nil {
		return err
	}
	networks, err := sources.ParseNetworks(o.networks)
	if err != nil {
		return fmt.Errorf("--registry-%w", err)
	}
	registries := &sources.Sources{Hosts: o.hosts, Networks: networks, Values: registry.Values}
	keeps := goldenimagescontroller.New(goldenimagescontroller.Options{
		Client: c.direct, Nodes: mgr.GetCache(), Pages: c.reader, Clock: clock.RealClock{}, Common: common,
		Guards:    &guarded.Guards{Reader: c.direct, All: admissionpolicies.CatalogGuards()},
		Manifests: goldenimagescontroller.NewManifests(ctx, c.direct, registries, o.interval, clock.RealClock{}),
		Tell:      tellOf[*imagev1alpha1.GoldenImageCatalog](c.events, imagev1alpha1.GroupVersion.WithKind("GoldenImageCatalog")),
	})
	if err := metrics.Registry.Register(keeps.Collector()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := keeps.SetupWithManager(mgr, c.metadata()); err != nil {
		return err
	}
	perArchitecture := variants.New(variants.Options{
		Client: c.direct, Catalogs: mgr.GetCache(),
		Tell: tellOf[*templatev1beta1.VirtualMachineTemplate](c.events, apikinds.Templates.GroupVersionKind),
	})
	if err := perArchitecture.SetupWithManager(mgr, c.metadata()); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	return p.addSide(mgr, &o.process)
}

// readCommonImages reads the common images from a file; none without a file.
func readCommonImages(file string) ([]imagev1alpha1.DataImportCronTemplate, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the common images: %w", err)
	}
	common, err := goldenimages.ParseCommon(data)
	if err != nil {
		return nil, fmt.Errorf("the common images: %s: %w", file, err)
	}
	return common, nil
}
