package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

// The files of the chapter about golden images.
const (
	catalogFile = "examples/images/catalog.yaml"
	edgeFile    = "examples/images/vm.yaml"

	listImages = "kubectl virtward golden list"
)

// goldenImages follows golden images through changes of the nodes.
func goldenImages() []step { return []step{{do: (*show).followsImages}} }

func (s *show) followsImages(ctx context.Context) (err error) {
	if err := s.cluster.EnsureNamespace(ctx, v1alpha1.DefaultNamespace); err != nil {
		return err
	}
	importer := simulators.StartImporter(ctx, s.cluster.Client(), v1alpha1.DefaultNamespace)
	defer func() { err = errors.Join(err, importer.Stop()) }()
	process, err := s.cluster.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardImages})
	if err != nil {
		return err
	}
	defer process.Kill()
	return s.follow(ctx, imageSteps())
}

func imageSteps() []step {
	const sources = " -n virtward-os-images -o "
	return []step{
		{
			prose: `The cluster gets nodes of two architectures: objects without a kubelet. A catalog lists golden images. Virtward imports each image
				once for every architecture of the nodes. The imports are simulated.`,
			do: func(s *show, ctx context.Context) error {
				return errors.Join(s.node(ctx, "control-1", "amd64", "node-role.kubernetes.io/control-plane"), s.node(ctx, "worker-1", "arm64"))
			},
		},
		{as: admin, reads: catalogFile, runs: []string{"kubectl get nodes -L kubernetes.io/arch", "kubectl apply -f " + catalogFile}},
		{as: admin, await: listImages, until: "site fedora True Ready* Ready", runs: []string{listImages}},
		{
			prose: "A star marks the default architecture. The DataSource with the name of the image points to it:",
			as:    admin, runs: []string{"kubectl get datasources" + sources + "custom-columns=NAME:.metadata.name,POINTS-TO:.spec.source.dataSource.name"},
			says: []string{"fedora fedora-amd64", "fedora-arm64 <none>"},
		},
		{
			prose: "A VM that clones the image for arm64 is for arm64. Its manifest has no architecture.",
			as:    alice, runs: []string{"kubectl apply -f " + edgeFile},
		},
		{as: alice, runs: []string{"kubectl get vm edge -o jsonpath={.spec.template.spec.architecture}"}, says: []string{"arm64"}},
		{as: alice, hidden: true, runs: []string{"kubectl delete -f " + edgeFile}},
		{
			prose: "A node of s390x joins. Fedora has this architecture and is imported for it:",
			do:    func(s *show, ctx context.Context) error { return s.node(ctx, "worker-2", "s390x") },
		},
		{as: admin, await: listImages, until: "site fedora True Ready* Ready Ready", tour: "CATALOG|fedora", runs: []string{listImages}},
		{
			prose: "The node of amd64 leaves. After the delay of the catalog, the DataSource points to another image, which is ready already:",
			as:    admin, runs: []string{"kubectl delete node control-1"},
		},
		{as: admin, await: listImages, until: "site fedora True - Ready* Ready", runs: []string{listImages}},
		{
			as: admin, await: "kubectl get datasource fedora" + sources + "jsonpath={.spec.source.dataSource.name}", until: "fedora-arm64",
		},
		{
			prose: "Debian in this catalog is for amd64 only. The command says what is missing, and what to do:",
			as:    admin, rejects: "kubectl virtward golden why debian", says: []string{"no node has an architecture of the image", "debian-arm64: Missing"},
			checked: "each VM clones the image of its architecture, and the original name was ready all the time.",
		},
		{as: admin, hidden: true, runs: []string{"kubectl delete -f " + catalogFile, "kubectl delete node worker-1 worker-2"}},
	}
}

// node creates a node. It is an object without a kubelet.
func (s *show) node(ctx context.Context, name, architecture string, labels ...string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelArchStable: architecture, "node-role.kubernetes.io/worker": ""}}}
	for _, label := range labels {
		node.Labels[label] = ""
	}
	if err := s.cluster.Client().Create(ctx, node); err != nil {
		return err
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: architecture, OperatingSystem: "linux"}
	return s.cluster.Client().Status().Update(ctx, node)
}
