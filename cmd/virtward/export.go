package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/controllers/export"
	"github.com/virtward/virtward/platform"
)

// exportOptions are the flags of `virtward export`.
type exportOptions struct {
	leader
	exempt        []string
	exemptByLabel bool
}

func exportCommand() *cobra.Command {
	o := &exportOptions{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export policies as ValidatingAdmissionPolicies",
		Long: `Creates and updates a ValidatingAdmissionPolicy for each policy with exportTo. It is a separate process, because its
account may write all ValidatingAdmissionPolicies, also those that protect Virtward. It reads the cluster with the
kubeconfig in $KUBECONFIG, or as the service account of its pod. Of several replicas, only the leader works.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *exportOptions) addFlags(flags *pflag.FlagSet) {
	o.leader.addFlags(flags)
	flags.StringSliceVar(&o.exempt, "exempt-namespace", nil, "namespaces that exported policies exempt, besides kube-system and that of --namespace: those that the webhooks exempt")
	flags.BoolVar(&o.exemptByLabel, "exempt-by-label", false, "exempt namespaces with the label "+policyv1alpha1.ExemptLabel+": true from exported policies, as the webhooks do")
}

func (o *exportOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme)); err != nil {
			return nil, err
		}
		return o.manager(config, processes.Export, cacheOptions(export.Cached()), scheme)
	}, o.addTo)
}

func (o *exportOptions) addTo(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	state, err := o.clusterState(config, platform.Settings{}, log)
	if err != nil {
		return err
	}
	ready := map[string]func() error{"facts": state.facts.Ready, "policies": state.policies.Ready}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	exports := export.New(export.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Statuses: direct,
		Policies: state.policies.Compiled, Facts: state.facts.Facts, Ready: allReady(ready),
		Namespace: o.namespace, Exempt: o.exempt, ExemptByLabel: o.exemptByLabel, Clock: clock.RealClock{},
	})
	state.changed = func(part) { exports.Changed() }
	for _, run := range []func(context.Context) error{state.facts.Run, state.policies.Run} {
		if err := mgr.Add(everywhere(run)); err != nil {
			return err
		}
	}
	if err := exports.SetupWithManager(mgr); err != nil {
		return err
	}
	p, err := newPorts(log.WithName("ports"))
	if err != nil {
		return err
	}
	maps.Copy(p.ready, ready)
	return p.addSide(mgr, &o.process)
}
