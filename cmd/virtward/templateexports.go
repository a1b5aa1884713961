package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
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
	"github.com/virtward/virtward/controllers/templateexport"
	"github.com/virtward/virtward/exportserver/exports"
)

// exportsOptions are the flags of `virtward templateexports`.
type exportsOptions struct {
	leader

	server  serverOptions
	limits  templateexport.Limits
	outside exports.Outside
	// annotations are NAME=VALUE.
	annotations []string
}

func templateExportsCommand() *cobra.Command {
	o := &exportsOptions{}
	cmd := &cobra.Command{
		Use:   "templateexports",
		Short: "Export VM templates as virtual appliances",
		Long: `Serves the template of each VirtualMachineTemplateExport as an OVA: it clones the volumes of the template into the namespace of the
export, and creates a pod there that makes the OVA while it is downloaded. It is a separate process, because its account may create
pods. It reads the cluster with the kubeconfig in $KUBECONFIG, or as the service account of its pod. If there are several replicas, only
the leader is active.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *exportsOptions) addFlags(flags *pflag.FlagSet) {
	o.leader.addFlags(flags)
	o.server.addFlags(flags, "virtward-export-server", "128Mi")
	flags.StringVar(&o.outside.Domain, "ingress-domain", "", "domain of the hosts of Ingresses, one for each export; without one, exports have no link outside of the cluster")
	flags.StringVar(&o.outside.Class, "ingress-class", "", "class of the Ingresses; by default that of the cluster")
	flags.StringArrayVar(&o.annotations, "ingress-annotation", nil, "an annotation of the Ingresses, NAME=VALUE; can be repeated")
	flags.StringSliceVar(&o.outside.Namespaces, "ingress-namespace", nil, "a namespace of the ingress controller, whose pods may connect to exports; can be repeated")
	flags.StringVar(&o.outside.Authority, "ingress-authority", "", "certificates in PEM that verify the ingress controller; by default those of the systems of clients")
	flags.DurationVar(&o.limits.Deadline, "deadline", 12*time.Hour, "time after which an export fails if it is not ready")
	flags.DurationVar(&o.limits.TTL, "ttl", 2*time.Hour, "time after which an export is deleted, once it is ready or has failed, if it states none")
	flags.DurationVar(&o.limits.MaxTTL, "max-ttl", 7*24*time.Hour, "longest time that an export can state")
}

func (o *exportsOptions) validate() error {
	errs := []error{o.leader.validate(), o.server.validate()}
	if o.outside.Domain != "" && len(validation.IsDNS1123Subdomain(o.outside.Domain)) > 0 {
		errs = append(errs, fmt.Errorf("--ingress-domain is %q: it must be the name of a domain", o.outside.Domain))
	}
	for _, text := range o.annotations {
		name, value, is := strings.Cut(text, "=")
		if !is || len(validation.IsQualifiedName(strings.ToLower(name))) > 0 {
			errs = append(errs, fmt.Errorf("--ingress-annotation is %q: it must be NAME=VALUE", text))
			continue
		}
		if o.outside.Annotations == nil {
			o.outside.Annotations = map[string]string{}
		}
		o.outside.Annotations[name] = value
	}
	if o.outside.Authority != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(o.outside.Authority)) {
		errs = append(errs, errors.New("--ingress-authority has no certificate in PEM"))
	}
	if o.limits.Deadline < time.Second {
		errs = append(errs, fmt.Errorf("--deadline is %s: it must be a second or longer", o.limits.Deadline))
	}
	if o.limits.TTL < time.Second || o.limits.MaxTTL < o.limits.TTL {
		errs = append(errs, fmt.Errorf("--ttl is %s and --max-ttl is %s: --ttl must be a second or longer, and not longer than --max-ttl", o.limits.TTL, o.limits.MaxTTL))
	}
	return errors.Join(errs...)
}

func (o *exportsOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.start(ctx, func(config *rest.Config) (manager.Manager, error) {
		scheme, err := newScheme(v1beta1.AddToScheme, cdiv1beta1.AddToScheme)
		if err != nil {
			return nil, err
		}
		return o.manager(config, processes.TemplateExports, cacheOptions(nil), scheme)
	}, o.addTo)
}

func (o *exportsOptions) addTo(mgr manager.Manager, config *rest.Config, log logr.Logger) error {
	owner, err := addOwnership(mgr, config, log)
	if err != nil {
		return err
	}
	c, err := newClients(mgr, config, owner.Guard(config)) // it writes while Virtward manages templates
	if err != nil {
		return err
	}
	measured, err := templateexport.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	err = templateexport.New(templateexport.Options{
		Client: c.direct, Prober: templateexport.LiveProber{}, Server: o.server.program, Namespace: o.namespace, Limits: o.limits, Outside: o.outside,
		Guards: &guarded.Guards{Reader: c.direct, All: admissionpolicies.ExportGuards()}, CloneGuards: &guarded.Guards{Reader: c.direct, All: admissionpolicies.ExportCloneGuards()},
		Metrics: measured, Clock: clock.RealClock{},
		Tell: tellOf[*v1beta1.VirtualMachineTemplateExport](c.events, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplateExport)),
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
