package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	kubevirtv1 "kubevirt.io/api/core/v1"

	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

type arguments struct {
	simulate, install, audit bool
	// library is the enforcement of the library's policies; empty installs none.
	library string
}

func main() {
	ctrl.SetLogger(logr.Discard()) // else controller-runtime complains in the middle of the output
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse(os.Args[1:]), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func parse(words []string) arguments {
	var a arguments
	set := flag.NewFlagSet("sandbox", flag.ExitOnError)
	set.BoolVar(&a.simulate, "kubevirt", true, "simulate KubeVirt: its admission, and VMIs made from VMs")
	set.BoolVar(&a.install, "virtward", true, "install the chart and run all processes of Virtward")
	set.BoolVar(&a.audit, "audit", false, "write the API server's audit log")
	set.StringVar(&a.library, "library", "", "install all policies of the library with this enforcement: Audit, Warn or Deny")
	_ = set.Parse(words) // exits by itself
	return a
}

func run(ctx context.Context, a arguments, out io.Writer) (err error) {
	begin := time.Now()
	cluster, err := controlplane.Start(ctx, controlplane.Options{Audit: a.audit})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	var stops []func(context.Context) error
	defer func() { // the cluster goes right after them
		for _, stop := range stops {
			_ = stop(context.WithoutCancel(ctx))
		}
	}()
	if a.simulate {
		kubevirt, err := simulators.InstallKubeVirt(ctx, cluster, kubevirtv1.KubeVirtConfiguration{}, nil)
		if err != nil {
			return fmt.Errorf("simulating KubeVirt: %w", err)
		}
		stops = append(stops, kubevirt.Stop)
		storage, err := startStorage(ctx, cluster)
		stops = append(stops, storage...)
		if err != nil {
			return err
		}
	}
	if a.install {
		if err := install(ctx, cluster, a.library); err != nil {
			return fmt.Errorf("installing virtward: %w", err)
		}
	}
	hints(out, cluster, a, time.Since(begin))
	<-ctx.Done()
	fmt.Fprintln(out, "\nTaking the sandbox down.")
	return nil
}

// startStorage simulates snapshots and clones of volumes, which the capture of VMs needs, and imports of golden images.
func startStorage(ctx context.Context, cluster *controlplane.ControlPlane) (stops []func(context.Context) error, err error) {
	snapshots, err := simulators.StartSnapshots(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("simulating snapshots: %w", err)
	}
	stops = append(stops, func(context.Context) error { return snapshots.Stop() })
	cdi, err := simulators.StartCDI(ctx, cluster)
	if err != nil {
		return stops, fmt.Errorf("simulating CDI: %w", err)
	}
	stops = append(stops, cdi.Stop)
	if err := cluster.EnsureNamespace(ctx, imagev1alpha1.DefaultNamespace); err != nil {
		return stops, err
	}
	importer := simulators.StartImporter(ctx, cluster.Client(), imagev1alpha1.DefaultNamespace)
	return append(stops, func(context.Context) error { return importer.Stop() }), nil
}

// install installs the chart, and runs all of its processes. VirtualImages can also come from web servers on this machine.
func install(ctx context.Context, cluster *controlplane.ControlPlane, enforcement string) error {
	policies := map[string]any{}
	if enforcement != "" {
		for _, entry := range library.All() {
			policies[entry.Name] = map[string]any{"enforcement": enforcement}
		}
	}
	values := map[string]any{
		"library":   map[string]any{"policies": policies},
		"policies":  map[string]any{"references": []any{"configmaps", "datasources", "datavolumes", "networkattachmentdefinitions", "persistentvolumeclaims", "storageclasses"}},
		"audit":     map[string]any{"reports": map[string]any{"installCRDs": true}},
		"templates": map[string]any{"mode": "manage"}, "images": map[string]any{"enabled": true},
		"virtualImages": map[string]any{"enabled": true, "sources": map[string]any{"networks": []any{"127.0.0.0/8"}}},
	}
	if _, err := cluster.InstallVirtward(ctx, values, controlplane.Workload{}); err != nil {
		return err
	}
	for _, deployment := range []string{controlplane.VirtwardTemplates, controlplane.VirtwardRollouts, controlplane.VirtwardImages, controlplane.VirtwardVirtualImages} {
		if _, err := cluster.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: deployment}); err != nil {
			return err
		}
	}
	if len(policies) == 0 {
		return nil
	}
	return cluster.RunJob(ctx, controlplane.VirtwardNamespace, "virtward-library")
}

// images are commands that create nodes and a catalog.
func images(kubectl string) string {
	var lines strings.Builder
	for _, node := range [][2]string{{"a", "amd64"}, {"b", "arm64"}} {
		fmt.Fprintf(&lines, `  echo '{"apiVersion":"v1","kind":"Node","metadata":{"name":"%s"}}' | %s create -f -`+"\n", node[0], kubectl)
		fmt.Fprintf(&lines, `  %s patch node %s --subresource status -p '{"status":{"nodeInfo":{"architecture":"%s"}}}'`+"\n", kubectl, node[0], node[1])
	}
	fmt.Fprintf(&lines, "  %s apply -f examples/images/catalog.yaml\n", kubectl)
	fmt.Fprintf(&lines, "  bin/kubectl-virtward images list\n")
	return lines.String()
}

// namedImages are commands that serve an empty disk, and import it.
const namedImages = `  mkdir -p bin/disks && truncate -s 64M bin/disks/empty.raw
  python3 -m http.server 8000 --bind 127.0.0.1 --directory bin/disks &
  bin/kubectl-virtward image create empty --src http://127.0.0.1:8000/empty.raw --wait
  bin/kubectl-virtward image usage
`

// policies are commands for the policies of the library.
func policies(out io.Writer, kubectl, enforcement string) {
	fmt.Fprintf(out, "The %d policies of the library have the enforcement %s:\n\n", len(library.All()), enforcement)
	fmt.Fprintf(out, "  %s get virtualmachinepolicies\n", kubectl)
	fmt.Fprintf(out, "  %s apply -f examples/instancetype-u1-medium.yaml -f examples/preference-fedora.yaml -f examples/vm-fedora.yaml\n\n", kubectl)
	if enforcement == "Deny" {
		fmt.Fprintf(out, "They deny this VM. With an exception for the policies that the answer names, it is admitted (docs/policy-exceptions.md):\n\n")
		fmt.Fprintf(out, "  bin/kubectl-virtward policy exempt POLICY ... vm/fedora --for 30d --reason trying\n\n")
		return
	}
	fmt.Fprintf(out, "A moment later, there is a report:\n\n")
	fmt.Fprintf(out, "  %s get reports.openreports.io --all-namespaces\n\n", kubectl)
}

func hints(out io.Writer, cluster *controlplane.ControlPlane, a arguments, took time.Duration) {
	kubectl := filepath.Dir(cluster.Binary("sandbox")) + "/sandbox/kubectl"
	fmt.Fprintf(out, "The sandbox is up after %s. There are no nodes: pods do not run, and VMs only seem to.\n\n", took.Round(100*time.Millisecond))
	fmt.Fprintf(out, "  export KUBECONFIG=%s\n", cluster.Kubeconfig())
	fmt.Fprintf(out, "  %s get kubevirts,vms,vmis --all-namespaces\n\n", kubectl)
	fmt.Fprintf(out, "You are an admin. This makes alice a user who can edit VMs; add --as alice to a command:\n\n")
	fmt.Fprintf(out, "  %s create role vm-author --verb '*' --resource virtualmachines.kubevirt.io\n", kubectl)
	fmt.Fprintf(out, "  %s create rolebinding alice --role vm-author --user alice\n\n", kubectl)
	if a.install && a.library != "" {
		policies(out, kubectl, a.library)
	}
	if a.install {
		fmt.Fprintf(out, "Golden images need nodes. A node without a kubelet will do:\n\n%s\n", images(kubectl))
		fmt.Fprintf(out, "A VirtualImage is imported from a URL, here from a web server on this machine; CDI's import is simulated:\n\n%s\n", namedImages)
	}
	fmt.Fprintf(out, "Logs:      %s/*.log\n", cluster.Dir())
	if a.audit {
		fmt.Fprintf(out, "Audit log: %s\n", cluster.AuditLog())
	}
	fmt.Fprintln(out, "Press Ctrl-C to take it down.")
}
