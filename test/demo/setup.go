package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/simulators"
)

// namespace of the demo.
const namespace = "demo"

// show has the state of the demo.
type show struct {
	// page gets everything, and tour the main step of each chapter.
	*page
	tour     *page
	cluster  *controlplane.ControlPlane
	kubevirt *simulators.KubeVirt
	// metrics is the address of Virtward's metrics.
	metrics string
	// missed counts the calls that failed before the API server had the webhook's certificate authority.
	missed float64
	// kubeconfigs are the files of the users.
	kubeconfigs map[string]string
	// snapshots and cdi simulate what the capture of VMs needs.
	snapshots *simulators.Snapshots
	cdi       *simulators.CDI
	// started has the UIDs of the instances before the rollout.
	started string
}

func (s *show) setUp(ctx context.Context, options Options) error {
	both := s.everywhere()
	both.prose("Starting a control plane on this machine ...")
	for _, step := range []struct {
		what, done string
		do         func(context.Context) error
	}{
		{"starting the control plane", "etcd, kube-apiserver, kube-controller-manager: real", func(ctx context.Context) error {
			return s.startControlPlane(ctx, options)
		}},
		{"installing KubeVirt", "KubeVirt's and CDI's definitions: real; virt-api, virt-controller: simulated", s.installKubeVirt},
		{"installing Virtward", "Virtward: its chart installed by Helm, its webhooks and its controller as processes", s.installVirtward},
		{"preparing templates", "Virtward's API of templates and their controller: real; snapshots and clones: simulated", s.installTemplates},
		{"running rollouts", "Virtward's process of rollouts: real; live updates and migrations: simulated", s.runRollouts},
		{"waiting for the webhooks and the guards", "the API server calls the webhooks and runs the guards", s.awaitAdmission},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		s.line(fmt.Sprintf("%6.1f s  %s", time.Since(began).Seconds(), step.done))
	}
	var err error
	if s.missed, err = s.failedCalls(ctx); err != nil {
		return err
	}
	s.tour.prose("The API server, its controllers, Helm and Virtward are real.")
	both.prose("No VM really runs: there are no nodes. The simulated virt-controller creates VMIs from VMs, and changes and migrates them.")
	s.prose(`It has KubeVirt's own account. KubeVirt's definition has VEP 97's list "hypervisor" in addition, for a later chapter.`)
	if err := s.doesAll(ctx, admin, "kubectl version", "kubectl virtward version"); err != nil {
		return err
	}
	return s.admitAlice(ctx)
}

// takeDown stops and deletes everything, also after the context has ended.
func (s *show) takeDown(ctx context.Context) error {
	if s.cluster == nil {
		return nil
	}
	s.everywhere().prose("Stopping the cluster.")
	var err error
	if s.kubevirt != nil {
		err = s.kubevirt.Stop(context.WithoutCancel(ctx))
	}
	return errors.Join(err, s.stopTemplates(context.WithoutCancel(ctx)), s.cluster.Stop())
}

func (s *show) startControlPlane(ctx context.Context, options Options) error {
	definitions, err := definitions()
	if err != nil {
		return err
	}
	s.cluster, err = controlplane.Start(ctx, controlplane.Options{Parent: options.Parent, CRDs: definitions, Audit: true})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (make demo builds what is missing)", err)
	}
	if err != nil {
		return err
	}
	s.kubeconfigs = map[string]string{admin: s.cluster.Kubeconfig()}
	for _, name := range []string{alice, bob, carol, editor} {
		config, err := s.cluster.UserConfig(name)
		if err != nil {
			return err
		}
		if s.kubeconfigs[name], err = s.cluster.WriteKubeconfig(name, config); err != nil {
			return err
		}
	}
	return nil
}

// definitions are those of KubeVirt and CDI, with VEP 97's list of hypervisors in the KubeVirt resource.
func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	variant, err := crds.Variant(crds.SeedHypervisor)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == variant.Name })
	if at < 0 {
		return nil, fmt.Errorf("KubeVirt's definitions lack %s", variant.Name)
	}
	all[at] = variant
	return all, nil
}

// installKubeVirt applies the KubeVirt resource with kubectl, so that the examples can be applied to it.
func (s *show) installKubeVirt(ctx context.Context) error {
	if err := s.cluster.EnsureNamespace(ctx, simulators.Namespace); err != nil {
		return err
	}
	if err := s.unseen().doesAll(ctx, admin, "kubectl apply -f examples/kubevirt/defaults.yaml"); err != nil {
		return err
	}
	for _, object := range kubevirtRoles() {
		if err := s.cluster.Client().Create(ctx, object); err != nil {
			return fmt.Errorf("creating KubeVirt's roles: %w", err)
		}
	}
	var err error
	s.kubevirt, err = simulators.InstallKubeVirt(ctx, s.cluster, kubevirtv1.KubeVirtConfiguration{}, nil)
	return err
}

// installVirtward installs the chart with the definitions of reports and a short audit interval. It runs the webhooks and
// the controller, and sets the address of the metrics.
func (s *show) installVirtward(ctx context.Context) error {
	audit := map[string]any{"minInterval": "2s", "reports": map[string]any{"installCRDs": true}} // the default is half a minute
	values := map[string]any{"audit": audit, "templates": map[string]any{"mode": "manage"}, "goldenImages": map[string]any{"enabled": true}, "virtualImages": imageClasses()}
	if _, err := s.cluster.InstallVirtward(ctx, values, controlplane.Workload{}); err != nil {
		return err
	}
	port, err := s.metricsPort(ctx)
	s.metrics = fmt.Sprintf("http://127.0.0.1:%d", port)
	return err
}

// admitAlice creates the namespace of the demo, and binds roles to Alice.
func (s *show) admitAlice(ctx context.Context) error {
	return s.follow(ctx, []step{
		{
			prose: `The demo needs a namespace and a user. Alice can edit VMs there, with a role of KubeVirt, and read other
				objects, with a role of Kubernetes.`,
			as: admin, runs: []string{
				"kubectl create namespace " + namespace,
				"kubectl create rolebinding alice --namespace " + namespace + " --clusterrole kubevirt.io:edit --user alice",
				"kubectl create rolebinding alice-sees --namespace " + namespace + " --clusterrole view --user alice",
			},
		},
		{as: alice, hidden: true, runs: []string{use(namespace)}},
		{as: alice, await: "kubectl auth can-i create virtualmachines", until: "yes", runs: []string{"kubectl auth can-i create virtualmachines"}},
		{as: alice, rejects: "kubectl auth can-i update kubevirts --namespace kubevirt", says: []string{"no\n"}},
	})
}
