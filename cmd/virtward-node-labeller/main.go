// Command virtward-node-labeller keeps Virtward's labels of the node on which it runs. It is a program of its own: its account may patch
// nodes, and its pods run on each node, so it has nothing else in it.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/cmd/internal/node"
	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/nodes/labeller"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/webhooks/serving"
)

// version is set by the linker.
var version = "development"

func main() { startup.Main(command()) }

// options are the flags.
type options struct {
	log   startup.Log
	sides node.Sides

	node, documents  string
	interval         time.Duration
	hypervisor       string
	virtType, device string
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "virtward-node-labeller",
		Short: "Label the node with its hypervisors and what they can do",
		Long: `Keeps the labels below node.virtward.io of the node on which it runs: whether each hypervisor is ready, and what it can do. It reads
the devices and the CPU of the node, and libvirt's domain capabilities in the folder of --documents. It reads the node and writes its
labels with the kubeconfig in $KUBECONFIG, or as the service account of its pod.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	o.sides.AddFlags(flags)
	o.log.AddFlags(flags)
	flags.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "name of the node on which the process runs; by default $NODE_NAME")
	flags.StringVar(&o.documents, "documents", "", "folder with libvirt's domain capabilities, virsh_domcapabilities.xml; without one, no capabilities are labelled")
	flags.DurationVar(&o.interval, "interval", time.Minute, "time between two comparisons of the labels")
	flags.StringVar(&o.hypervisor, "hypervisor", "", "name of the hypervisor in the KubeVirt object, if it has another device or domain type than the usual one")
	flags.StringVar(&o.virtType, "virt-type", "", "libvirt's domain type of --hypervisor, such as hyperv")
	flags.StringVar(&o.device, "hypervisor-device", "", "device of --hypervisor, such as devices.kubevirt.io/mshv")
	return cmd
}

// form returns the form of --hypervisor; none without it.
func (o *options) form() ([]platform.Hypervisor, error) {
	if o.hypervisor == "" {
		if o.virtType != "" || o.device != "" {
			return nil, fmt.Errorf("--virt-type and --hypervisor-device need --hypervisor")
		}
		return nil, nil
	}
	form, err := platform.HypervisorByName(o.hypervisor)
	if err != nil {
		return nil, fmt.Errorf("--hypervisor: %w", err)
	}
	if o.virtType != "" {
		form.VirtType = o.virtType
	}
	if o.device != "" {
		form.Device = o.device
	}
	return []platform.Hypervisor{form}, nil
}

func (o *options) run(ctx context.Context) error {
	log, err := o.log.Begin()
	if err != nil {
		return err
	}
	klog.SetLogger(log.WithName("client"))
	forms, err := o.form()
	if err != nil {
		return err
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	labellers, err := registry.Labellers(runtime.GOARCH, forms...)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("reading the client configuration: %w", err)
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	l, err := labeller.New(labeller.Options{Node: o.node, Interval: o.interval, Labellers: labellers}, labeller.NewHost(o.documents), client.Nodes(), clock.RealClock{}, log, metrics.Registry)
	if err != nil {
		return err
	}
	connections, err := serving.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	log.Info("starting", "version", version, "node", o.node)
	return o.sides.Run(ctx, log, connections, l.Ready, l.Run)
}
