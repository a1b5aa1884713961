package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kupenstackv1alpha1 "github.com/virtward/virtward/api/kupenstack/v1alpha1"
	templatev1beta1 "github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/release"
)

// quiet is the time after which no object has a finalizer again.
const quiet = 3 * time.Second

// releaseOptions are the flags of `virtward release`.
type releaseOptions struct {
	process
	deployments []string
	requests    bool
	timeout     time.Duration
}

func releaseCommand() *cobra.Command {
	o := &releaseOptions{}
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Remove Virtward's finalizers from all objects, and end",
		Long: `Stops the controllers that add finalizers, removes the finalizers from VirtualImages and from requests and imports of VM templates, and ends.
The chart runs it before a release is uninstalled: without the controllers, the finalizers would keep the objects and their
namespaces. What OpenStack stores of VirtualImages stays there. It uses the kubeconfig in $KUBECONFIG, or the service account
of its pod.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	o.log.AddFlags(flags)
	flags.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace that Virtward is installed in; by default $POD_NAMESPACE")
	flags.StringSliceVar(&o.deployments, "deployments", nil, "Deployments of controllers that are stopped first")
	flags.BoolVar(&o.requests, "template-requests", false, "remove the finalizers of requests and imports of VM templates, which no other component manages")
	flags.DurationVar(&o.timeout, "timeout", 4*time.Minute, "maximum time for everything")
	return cmd
}

func (o *releaseOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.timeout <= 0 {
		return errors.New("--timeout must be more than 0")
	}
	log, config, err := o.begin()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	finalizers := []release.Finalizer{{Kind: kupenstackv1alpha1.GroupVersion.WithKind(kupenstackv1alpha1.Kind), Name: kupenstackv1alpha1.Finalizer}}
	if o.requests {
		finalizers = append(finalizers, release.Finalizer{Kind: templatev1beta1.GroupVersion.WithKind("VirtualMachineTemplateRequest"), Name: templatev1beta1.FinalizerSnapshotCleanup},
			release.Finalizer{Kind: templatev1beta1.GroupVersion.WithKind("VirtualMachineTemplateImport"), Name: templatev1beta1.FinalizerImport})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("objects have finalizers of Virtward after %s", o.timeout))
	defer cancel()
	r := release.Releaser{Client: api, Log: log, Namespace: o.namespace, Deployments: o.deployments, Finalizers: finalizers, Quiet: quiet}
	return r.Release(ctx)
}
