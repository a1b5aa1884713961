package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/capture"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/ownership"
	controllertemplates "github.com/virtward/virtward/controllers/templates"
)

// templatesOptions are the flags of `virtward templates`.
type templatesOptions struct {
	leader
	assumptions
	deadlines capture.Deadlines
}

func templatesCommand() *cobra.Command {
	o := &templatesOptions{}
	cmd := &cobra.Command{
		Use:   "templates",
		Short: "Capture virtual machines as templates, and report whether templates are ready",
		Long: `Makes a VirtualMachineTemplate for each VirtualMachineTemplateRequest: it snapshots the VirtualMachine, clones the volumes
and creates the template. It also evaluates all templates, and writes into their statuses whether they are ready. It is a
separate process, because its account may snapshot every VirtualMachine and clone every volume. It reads the cluster with
the kubeconfig in $KUBECONFIG, or as the service account of its pod. If there are several replicas, only the leader is
active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *templatesOptions) addFlags(flags *pflag.FlagSet) {
	o.leader.addFlags(flags)
	o.assumptions.addFlags(flags)
	flags.DurationVar(&o.deadlines.Snapshot, "snapshot-deadline", 15*time.Minute, "time after which a capture fails if its snapshot is not ready")
	flags.DurationVar(&o.deadlines.Clone, "clone-deadline", 12*time.Hour, "time after which a capture fails if a volume is not cloned")
}

func (o *templatesOptions) validate() error {
	if o.deadlines.Snapshot < time.Second || o.deadlines.Clone < time.Second {
		return fmt.Errorf("--snapshot-deadline is %s and --clone-deadline is %s: both must be a second or longer", o.deadlines.Snapshot, o.deadlines.Clone)
	}
	return errors.Join(o.leader.validate(), o.assumptions.validate())
}

func (o *templatesOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme, err := newScheme(v1beta1.AddToScheme, snapshotv1beta1.AddToScheme, cdiv1beta1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return o.manager(config, processes.Templates, cacheOptions(nil), scheme)
	}, o.addTo)
}

func (o *templatesOptions) addTo(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	state, err := o.clusterState(config, o.settings(), log)
	if err != nil {
		return err
	}
	if err := state.addTo(mgr); err != nil {
		return err
	}
	owner, err := addOwnership(mgr, config, log)
	if err != nil {
		return err
	}
	c, err := newClients(mgr, config, owner.Guard(config)) // it writes while Virtward manages templates
	if err != nil {
		return err
	}
	if err := o.addCapture(mgr, state, c); err != nil {
		return err
	}
	ready := controllertemplates.New(controllertemplates.Options{
		Client: c.direct, Evaluator: state.evaluator(), ReserveReads: state.objects.ReserveReads, Ready: allReady(state.ready()), Clock: clock.RealClock{},
		Tell: tellOf[*v1beta1.VirtualMachineTemplate](c.events, apikinds.Templates.GroupVersionKind),
	})
	state.changed = func(part) { ready.Changed() }
	if err := ready.SetupWithManager(mgr, c.metadata()); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	maps.Copy(p.ready, state.ready())
	return p.addSide(mgr, &o.process)
}

// addOwnership watches who manages VM templates.
func addOwnership(mgr manager.Manager, config *rest.Config, log logr.Logger) (*ownership.Watch, error) {
	light, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	watch, err := ownership.NewWatch(light, metrics.Registry, log.WithName("ownership"))
	if err != nil {
		return nil, err
	}
	return watch, mgr.Add(everywhere(watch.Run))
}

// addCapture adds the controller of VirtualMachineTemplateRequests.
func (o *templatesOptions) addCapture(mgr manager.Manager, state *clusterState, c *clients) error {
	measured, err := capture.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return capture.New(capture.Options{
		Client: c.direct, Expander: &capture.LiveExpander{Objects: state.objects}, Deadlines: o.deadlines, Guards: &guarded.Guards{Reader: c.direct, All: admissionpolicies.CaptureGuards()}, Metrics: measured, Clock: clock.RealClock{},
		Tell: tellOf[*v1beta1.VirtualMachineTemplateRequest](c.events, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplateRequest)),
	}).SetupWithManager(mgr, c.metadata())
}
