package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

	listImages = "kubectl virtward images list"
)

// goldenImages follows golden images through changes of the nodes.
func goldenImages(ctx context.Context, s *show) (err error) {
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
	for _, part := range []func(context.Context) error{s.importsBoth, s.clonesImage, s.nodeJoins, s.nodeLeaves, s.explainsMissing, s.forgetsImages} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
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

// imagesBecome waits until the list has a row with these words, and shows it.
func (s *show) imagesBecome(ctx context.Context, row string) error {
	if err := s.awaitRow(ctx, s.admin, listImages, row); err != nil {
		return err
	}
	_, err := s.does(ctx, s.admin, listImages)
	return err
}

// awaitRow waits until a command prints a line with these words.
func (s *show) awaitRow(ctx context.Context, who user, line, row string) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, who, line)
		for printed := range strings.Lines(output) {
			if strings.Contains(strings.Join(strings.Fields(printed), " "), row) {
				return "", nil
			}
		}
		return fmt.Sprintf("%q in:\n%s", row, output), err
	})
}

func (s *show) importsBoth(ctx context.Context) error {
	s.prose(`The cluster gets nodes of two architectures: objects without a kubelet. A catalog lists golden images. Virtward imports each image
		once for every architecture of the nodes. The imports are simulated.`)
	for name, labels := range map[string][]string{"control-1": {"amd64", "node-role.kubernetes.io/control-plane"}, "worker-1": {"arm64"}} {
		if err := s.node(ctx, name, labels[0], labels[1:]...); err != nil {
			return err
		}
	}
	if err := s.reads(s.admin, catalogFile); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.admin, "kubectl get nodes -L kubernetes.io/arch", "kubectl apply -f "+catalogFile); err != nil {
		return err
	}
	if err := s.imagesBecome(ctx, "site fedora True Ready* Ready"); err != nil {
		return err
	}
	s.prose("A star marks the default architecture. The DataSource with the name of the image points to it:")
	output, err := s.does(ctx, s.admin, "kubectl get datasources -n virtward-os-images -o custom-columns=NAME:.metadata.name,POINTS-TO:.spec.source.dataSource.name")
	if err != nil {
		return err
	}
	return says(strings.Join(strings.Fields(output), " "), "fedora fedora-amd64", "fedora-arm64 <none>")
}

func (s *show) clonesImage(ctx context.Context) error {
	s.prose("A VM that clones the image for arm64 is for arm64. Its manifest has no architecture.")
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+edgeFile); err != nil {
		return err
	}
	const architecture = "kubectl get vm edge -o jsonpath={.spec.template.spec.architecture}"
	output, err := s.does(ctx, s.alice, architecture)
	if err != nil {
		return err
	}
	if strings.TrimSpace(output) != "arm64" {
		return fmt.Errorf("the VM is for %q", output)
	}
	return s.quietly(ctx, s.alice, "kubectl delete -f "+edgeFile)
}

func (s *show) nodeJoins(ctx context.Context) error {
	s.prose("A node of s390x joins. Fedora has this architecture and is imported for it:")
	if err := s.node(ctx, "worker-2", "s390x"); err != nil {
		return err
	}
	return s.key("CATALOG|fedora").imagesBecome(ctx, "site fedora True Ready* Ready Ready")
}

func (s *show) nodeLeaves(ctx context.Context) error {
	s.prose("The node of amd64 leaves. After the delay of the catalog, the DataSource points to another image, which is ready already:")
	if err := s.doesAll(ctx, s.admin, "kubectl delete node control-1"); err != nil {
		return err
	}
	if err := s.imagesBecome(ctx, "site fedora True - Ready* Ready"); err != nil {
		return err
	}
	const pointer = "kubectl get datasource fedora -n virtward-os-images -o jsonpath={.spec.source.dataSource.name}"
	return s.awaitOutput(ctx, s.admin, pointer, "fedora-arm64")
}

func (s *show) explainsMissing(ctx context.Context) error {
	s.prose("Debian in this catalog is for amd64 only. The command says what is missing, and what to do:")
	return s.isRejected(ctx, s.admin, "kubectl virtward images why debian", "no node has an architecture of the image", "debian-arm64: Missing")
}

// forgetsImages deletes the objects of the chapter.
func (s *show) forgetsImages(ctx context.Context) error {
	s.checked("each VM clones the image of its architecture, and the original name was ready all the time.")
	for _, line := range []string{"kubectl delete -f " + catalogFile, "kubectl delete node worker-1 worker-2"} {
		if err := s.quietly(ctx, s.admin, line); err != nil {
			return err
		}
	}
	return nil
}
