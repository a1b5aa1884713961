package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/signatures"
)

// importsOptions are the flags of `virtward templateimports`.
type importsOptions struct {
	leader

	server          serverOptions
	hosts, networks []string
	signatures      string
	deadlines       templateimport.Deadlines
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
	o.server.addFlags(flags, "virtward-import-server", "128Mi")
	flags.StringSliceVar(&o.hosts, "source-host", nil, "a host that appliances are imported from, such as example.com or *.example.com; all without one; can be repeated")
	flags.StringSliceVar(&o.networks, "source-network", nil, "a network with private addresses that appliances are imported from; can be repeated")
	flags.StringVar(&o.signatures, "signatures", "", "file with the rules that say who must have signed artifacts, in YAML")
	flags.DurationVar(&o.deadlines.Source, "source-deadline", 15*time.Minute, "time after which an import fails if its source cannot be read")
	flags.DurationVar(&o.deadlines.Import, "import-deadline", 12*time.Hour, "time after which an import fails")
}

// validate checks the flags, and reads those that have values in text.
func (o *importsOptions) validate() (*sources.Sources, error) {
	errs := []error{o.leader.validate(), o.server.validate()}
	if o.deadlines.Source < time.Second || o.deadlines.Import < time.Second {
		errs = append(errs, fmt.Errorf("--source-deadline is %s and --import-deadline is %s: both must be a second or longer", o.deadlines.Source, o.deadlines.Import))
	}
	networks, err := sources.ParseNetworks(o.networks)
	if err != nil {
		errs = append(errs, fmt.Errorf("--source-network: %w", err))
	}
	return &sources.Sources{Hosts: o.hosts, Networks: networks, Values: "templates.imports.sources"}, errors.Join(errs...)
}

func (o *importsOptions) run(ctx context.Context) error {
	permitted, err := o.validate()
	if err != nil {
		return err
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme, err := newScheme(v1beta1.AddToScheme, cdiv1beta1.AddToScheme)
		if err != nil {
			return nil, err
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
	signed, err := readSignatures(o.signatures)
	if err != nil {
		return err
	}
	measured, err := templateimport.NewMetrics(metrics.Registry, clock.RealClock{})
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	err = templateimport.New(ctx, templateimport.Options{
		Client: c.direct, Source: &templateimport.LiveSource{Reader: c.direct, Permitted: permitted, Signatures: signed}, Server: o.server.program, Namespace: o.namespace, Deadlines: o.deadlines,
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

// readSignatures reads the rules of a file; nil without one.
func readSignatures(name string) (*signatures.Requirements, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no signature is required
	}
	data, err := startup.ReadFile(name, signatures.MaxRequirements)
	if err != nil {
		return nil, fmt.Errorf("--signatures: %w", err)
	}
	required, err := signatures.ParseRequirements(data)
	if err != nil {
		return nil, fmt.Errorf("--signatures: %w", err)
	}
	return required, nil
}
