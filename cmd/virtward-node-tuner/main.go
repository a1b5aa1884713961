// Command virtward-node-tuner tunes the processes of virtual machines on the node on which it runs, as a node hook of KubeVirt. It is a
// program of its own: it runs as root with one capability, and has no client of the API server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/virtward/virtward/cmd/internal/node"
	"github.com/virtward/virtward/cmd/internal/startup"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/nodes/hook"
	"github.com/virtward/virtward/nodes/process"
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

	node, socket, hypervisor, ratio string
	kernel                          process.Node
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "virtward-node-tuner",
		Short: "Tune the processes of virtual machines on the node",
		Long: `Serves KubeVirt's node hooks on a Unix socket. It sets the limit of locked memory of the process of a virtual machine, and moves its
threads that do not run the guest to CPUs of their own. It is for hypervisors that virt-handler does not tune itself, and does not start
for others. It has no client of the API server.`,
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
	flags.StringVar(&o.socket, "socket", "/var/run/kubevirt-plugin/virtward-node-tuner/hook.sock", "path of the socket")
	flags.StringVar(&o.hypervisor, "hypervisor", "", "name of the hypervisor in the KubeVirt object")
	flags.StringVar(&o.ratio, "additional-guest-memory-overhead-ratio", "", "additionalGuestMemoryOverheadRatio of the KubeVirt object")
	flags.StringVar(&o.kernel.Proc, "proc", "/proc", "folder with all processes of the node")
	flags.StringVar(&o.kernel.Cgroups, "cgroups", "/sys/fs/cgroup", "folder with the node's hierarchy of cgroup v2")
	return cmd
}

// facts are those that the tuning of a hypervisor depends on.
func (o *options) facts(form platform.Hypervisor) (*platform.Facts, error) {
	kubeVirt := &unstructured.Unstructured{Object: map[string]any{}}
	if o.ratio != "" {
		kubeVirt.Object["spec"] = map[string]any{"configuration": map[string]any{"additionalGuestMemoryOverheadRatio": o.ratio}}
	}
	facts, err := platform.FromKubeVirt(kubeVirt, platform.Settings{})
	if err != nil {
		return nil, err
	}
	return facts.WithHypervisor(form), nil
}

func (o *options) run(ctx context.Context) error {
	log, err := o.log.Begin()
	if err != nil {
		return err
	}
	if o.hypervisor == "" {
		return errors.New("--hypervisor is empty: name the hypervisor of the KubeVirt object")
	}
	form, err := platform.HypervisorByName(o.hypervisor)
	if err != nil {
		return fmt.Errorf("--hypervisor: %w", err)
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return err
	}
	tuner, err := registry.Tuner(form, runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("--hypervisor: %w", err)
	}
	facts, err := o.facts(form)
	if err != nil {
		return err
	}
	t, err := hook.NewTuner(o.node, tuner, facts, &o.kernel, log, metrics.Registry)
	if err != nil {
		return err
	}
	connections, err := serving.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	server := &hook.Server{Socket: o.socket, Handler: t.Execute, Log: log}
	log.Info("starting", "version", version, "node", o.node, "hypervisor", o.hypervisor)
	return o.sides.Run(ctx, log, connections, server.Ready, server.Run)
}
