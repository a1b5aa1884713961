package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	kubevirtv1 "kubevirt.io/api/core/v1"

	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/catalog"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

// program is the name of the binary that `make sandbox` builds.
const program = "virtward-sandbox"

type arguments struct {
	simulate, install, audit bool
	// library is the enforcement of the library's policies; empty installs none.
	library string
}

func main() {
	ctrl.SetLogger(logr.Discard()) // else controller-runtime complains in the middle of the output
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

// dispatch runs a sandbox, or a command for one that runs.
func dispatch(ctx context.Context, words []string, out io.Writer) error {
	if len(words) > 0 && (words[0] == "kill" || words[0] == "start") {
		return command(ctx, os.Getenv("KUBECONFIG"), words[0], words[1:], out)
	}
	a, err := parse(words)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return run(ctx, a, out)
}

func parse(words []string) (arguments, error) {
	var a arguments
	set := flag.NewFlagSet(program, flag.ContinueOnError)
	set.BoolVar(&a.simulate, "kubevirt", true, "simulate KubeVirt: its admission, and VMIs made from VMs")
	set.BoolVar(&a.install, "virtward", true, "install the chart and run all processes of Virtward")
	set.BoolVar(&a.audit, "audit", false, "write the API server's audit log")
	set.StringVar(&a.library, "library", "", "install all policies of the library with this enforcement: Audit, Warn or Deny")
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "Usage: %s [flags]      start a sandbox, until Ctrl-C\n       %[1]s kill NAME   end a process of the sandbox of KUBECONFIG\n       %[1]s start NAME  start it again\n", program)
		set.PrintDefaults()
	}
	if err := set.Parse(words); err != nil {
		return a, err
	}
	if set.NArg() > 0 {
		return a, fmt.Errorf("unknown command %q: it must be kill or start", set.Arg(0))
	}
	return a, nil
}

func run(ctx context.Context, a arguments, out io.Writer) (err error) {
	begin := time.Now()
	cluster, err := controlplane.Start(ctx, controlplane.Options{Audit: a.audit, Supervise: true})
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
	control, err := serveControl(cluster)
	if err != nil {
		return err
	}
	stops = append(stops, control.Shutdown)
	disks := simulators.ServeDisks()
	stops = append(stops, func(context.Context) error { disks.Close(); return nil })
	if a.simulate {
		kubevirt, err := simulators.InstallKubeVirt(ctx, cluster, kubevirtv1.KubeVirtConfiguration{}, nil)
		if err != nil {
			return fmt.Errorf("simulating KubeVirt: %w", err)
		}
		kubevirt.Controller.CreateVolumes()
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
	if err := catalog.Install(ctx, cluster.Client()); err != nil {
		return err
	}
	if err := cluster.Sync(ctx); err != nil {
		return err
	}
	newHints(cluster, disks, a).print(out, time.Since(begin))
	<-ctx.Done()
	fmt.Fprintln(out, "\nTaking the sandbox down.")
	return nil
}

// startStorage simulates snapshots and clones of volumes, which the capture of VMs needs, imports of golden images, and uploads.
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
	if _, err := cdi.ServeUploads(ctx); err != nil {
		return stops, err
	}
	if err := simulators.MarkCDIDeployed(ctx, cluster.Client()); err != nil {
		return stops, err
	}
	for _, namespace := range []string{imagev1alpha1.DefaultNamespace, catalog.ImagesNamespace} {
		if err := cluster.EnsureNamespace(ctx, namespace); err != nil {
			return stops, err
		}
		importer := simulators.StartImporter(ctx, cluster.Client(), namespace)
		stops = append(stops, func(context.Context) error { return importer.Stop() })
	}
	return stops, nil
}

// install installs the chart, and runs one process of each Deployment. VirtualImages can also come from web servers on this machine.
func install(ctx context.Context, cluster *controlplane.ControlPlane, enforcement string) error {
	policies := map[string]any{}
	if enforcement != "" {
		for _, entry := range library.All() {
			policies[entry.Name] = map[string]any{"enforcement": enforcement}
		}
	}
	values := map[string]any{
		"replicas":  1,
		"library":   map[string]any{"policies": policies},
		"policies":  map[string]any{"references": []any{"configmaps", "datasources", "datavolumes", "networkattachmentdefinitions", "persistentvolumeclaims", "storageclasses"}},
		"audit":     map[string]any{"reports": map[string]any{"installCRDs": true}},
		"templates": map[string]any{"mode": "manage", "server": map[string]any{"replicas": 1}}, "goldenImages": map[string]any{"enabled": true},
		"virtualImages": map[string]any{"enabled": true, "sources": map[string]any{"networks": []any{"127.0.0.0/8"}}},
	}
	if _, err := cluster.InstallVirtward(ctx, values, controlplane.Workload{}); err != nil {
		return err
	}
	for _, deployment := range started() {
		if _, err := cluster.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: deployment}); err != nil {
			return err
		}
	}
	if len(policies) == 0 {
		return nil
	}
	return cluster.RunJob(ctx, controlplane.VirtwardNamespace, "virtward-library")
}

// others are the processes that the sandbox does not start by itself: InstallVirtward runs the first three, an export would write the
// guards of the cluster, and imports and exports of appliances need pods.
var others = []string{processes.Webhook, processes.Controller, processes.APIServer, processes.Export, processes.TemplateImports, processes.TemplateExports}

// started returns the Deployments whose process the sandbox starts after the installation.
func started() []string {
	var names []string
	for _, p := range processes.All() {
		if !p.Job && !p.Daemon && !slices.Contains(others, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// hints are what a user reads first.
type hints struct {
	arguments

	kubeconfig, logs, auditLog, bin, disks string
}

func newHints(cluster *controlplane.ControlPlane, disks *httptest.Server, a arguments) *hints {
	return &hints{
		arguments: a, kubeconfig: cluster.Kubeconfig(), logs: cluster.Dir(), auditLog: cluster.AuditLog(), bin: cluster.Binary(""), disks: disks.URL,
	}
}

func (h *hints) print(out io.Writer, took time.Duration) {
	fmt.Fprintf(out, `The sandbox is up after %s. Copy these lines into another shell, in the same folder:

  export KUBECONFIG=%s
  export PATH=%s:%s/tools:$PATH
  export IMAGES=%s

Now kubectl, helm and kubectl virtward work on the sandbox. There are no pods: the processes of Virtward run on this machine, and VMs
only seem to run. It has:

`, took.Round(100*time.Millisecond), h.kubeconfig, h.bin, h.bin, h.disks)
	has := [][2]string{
		{"get nodes", "nodes of two architectures, without kubelet"},
		{"get vmclusterinstancetypes", "sizes as those of common-instancetypes"},
		{"get vmcps", "the preferences of the common templates"},
		{"get datasources -n " + catalog.ImagesNamespace, "golden images without data"},
	}
	if h.install {
		has = append(has, [2]string{"get deployments -n " + controlplane.VirtwardNamespace, "the processes of Virtward"})
	}
	for _, line := range has {
		fmt.Fprintf(out, "  kubectl %-40s # %s\n", line[0], line[1])
	}
	if h.install {
		fmt.Fprint(out, "\nGo on with README.md from \"What it looks like\", docs/policies.md or docs/templates.md. $IMAGES serves disks without data.\n")
	}
	if h.install && h.library != "" {
		h.policies(out)
	}
	fmt.Fprint(out, `
You are an admin. This makes alice a user who can edit VMs. Add --as alice to a command:

  kubectl create role vm-author --verb '*' --resource virtualmachines.kubevirt.io
  kubectl create rolebinding alice --role vm-author --user alice
`)
	if h.install {
		fmt.Fprintf(out, `
To see what happens without a process, end it, and start it again. A process that ends by itself starts again after a moment:

  %s kill %s
  kubectl virtward status
  %[1]s start %[2]s
`, program, controlplane.VirtwardService)
	}
	fmt.Fprintf(out, "\nLogs:      %s/*.log\n", h.logs)
	if h.audit {
		fmt.Fprintf(out, "Audit log: %s\n", h.auditLog)
	}
	fmt.Fprintln(out, "Press Ctrl-C to take it down.")
}

// policies are commands for the policies of the library.
func (h *hints) policies(out io.Writer) {
	fmt.Fprintf(out, "\nThe %d policies of the library have the enforcement %s:\n\n", len(library.All()), h.library)
	fmt.Fprint(out, "  kubectl get virtualmachinepolicies\n  kubectl apply -f examples/vm-fedora.yaml\n\n")
	if h.library == "Deny" {
		fmt.Fprint(out, "They deny this VM. With an exception for the policies that the answer names, it is admitted (docs/policy-exceptions.md):\n\n")
		fmt.Fprint(out, "  kubectl virtward policy exempt POLICY ... vm/fedora --for 30d --reason trying\n")
		return
	}
	fmt.Fprint(out, "A moment later, there is a report:\n\n  kubectl get reports.openreports.io --all-namespaces\n")
}
