package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/sources"
)

// importsOptions are the flags of `virtward templateimports`.
type importsOptions struct {
	leader

	server           servers.Program
	policy           string
	requests, limits map[string]string
	hosts, networks  []string
	deadlines        templateimport.Deadlines
}

func templateImportsCommand() *cobra.Command {
	o := &importsOptions{}
	cmd := &cobra.Command{
		Use:   "templateimports",
		Short: "Import virtual appliances as VM templates",
		Long: `Makes a VirtualMachineTemplate for each VirtualMachineTemplateImport: it reads the descriptor of the appliance, creates a pod in
the namespace of the import that serves the disks to CDI, and creates the template when all disks are imported. It is a separate
process, because its account may create pods. It reads the cluster with the kubeconfig in $KUBECONFIG, or as the service account of its
pod. If there are several replicas, only the leader is active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *importsOptions) addFlags(flags *pflag.FlagSet) {
	o.leader.addFlags(flags)
	flags.StringVar(&o.server.Image, "server-image", "", "the image of virtward-import-server; required")
	flags.StringVar(&o.policy, "server-pull-policy", "", "when the image of virtward-import-server is pulled: Always, IfNotPresent or Never")
	flags.Int64Var(&o.server.User, "server-user", 0, "the user of virtward-import-server; 0 for that of its image")
	flags.StringToStringVar(&o.requests, "server-request", nil, "a resource that virtward-import-server requests, such as memory=64Mi; can be repeated")
	flags.StringToStringVar(&o.limits, "server-limit", map[string]string{"memory": "128Mi"}, "a limit of virtward-import-server, such as memory=128Mi; can be repeated")
	flags.StringSliceVar(&o.hosts, "source-host", nil, "a host that appliances are imported from, such as example.com or *.example.com; all without one; can be repeated")
	flags.StringSliceVar(&o.networks, "source-network", nil, "a network with private addresses that appliances are imported from; can be repeated")
	flags.DurationVar(&o.deadlines.Source, "source-deadline", 15*time.Minute, "time after which an import fails if its source cannot be read")
	flags.DurationVar(&o.deadlines.Import, "import-deadline", 12*time.Hour, "time after which an import fails")
}

// validate checks the flags, and reads those that have values in text.
func (o *importsOptions) validate() (*sources.Sources, error) {
	errs := []error{o.leader.validate()}
	if o.server.Image == "" {
		errs = append(errs, errors.New("--server-image is required"))
	}
	if o.deadlines.Source < time.Second || o.deadlines.Import < time.Second {
		errs = append(errs, fmt.Errorf("--source-deadline is %s and --import-deadline is %s: both must be a second or longer", o.deadlines.Source, o.deadlines.Import))
	}
	networks, err := sources.ParseNetworks(o.networks)
	if err != nil {
		errs = append(errs, fmt.Errorf("--source-network: %w", err))
	}
	switch o.server.PullPolicy = corev1.PullPolicy(o.policy); o.server.PullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, fmt.Errorf("--server-pull-policy is %q: it must be Always, IfNotPresent or Never", o.policy))
	}
	for flag, of := range map[string]struct {
		texts map[string]string
		into  *corev1.ResourceList
	}{"--server-request": {o.requests, &o.server.Resources.Requests}, "--server-limit": {o.limits, &o.server.Resources.Limits}} {
		list, err := quantities(of.texts)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		*of.into = list
	}
	return &sources.Sources{Hosts: o.hosts, Networks: networks, Values: "templates.imports.sources"}, errors.Join(errs...)
}

// quantities reads the quantities of resources.
func quantities(texts map[string]string) (corev1.ResourceList, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	list := corev1.ResourceList{}
	for name, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", name, text, err)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

func (o *importsOptions) run(ctx context.Context) error {
	permitted, err := o.validate()
	if err != nil {
		return err
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, cdiv1beta1.AddToScheme} {
			if err := add(scheme); err != nil {
				return nil, err
			}
		}
		return o.manager(config, processes.TemplateImports, cacheOptions(nil), scheme)
	}, func(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
		return o.addTo(ctx, mgr, config, permitted, log)
	})
}

func (o *importsOptions) addTo(ctx context.Context, mgr manager.Manager, config *rest.Config, permitted *sources.Sources, log logr.Logger) error {
	owner, err := addOwnership(mgr, config, log)
	if err != nil {
		return err
	}
	c, err := newClients(mgr, config, owner.Guard(config)) // it writes while Virtward manages templates
	if err != nil {
		return err
	}
	measured, err := templateimport.NewMetrics(metrics.Registry, clock.RealClock{})
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	err = templateimport.New(ctx, templateimport.Options{
		Client: c.direct, Source: &templateimport.LiveSource{Reader: c.direct, Permitted: permitted}, Server: o.server, Deadlines: o.deadlines,
		Guards: &guarded.Guards{Reader: c.direct, All: admissionpolicies.ImportGuards()}, Metrics: measured, Clock: clock.RealClock{},
		Tell: tellOf[*v1beta1.VirtualMachineTemplateImport](c.events, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplateImport)),
	}).SetupWithManager(mgr, c.metadata())
	if err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	return p.addSide(mgr, &o.process)
}
