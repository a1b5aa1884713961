package configcache

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// testNamespacesBound is run by TestWithAPIServer.
func testNamespacesBound(t *testing.T, cluster *controlplane.ControlPlane) {
	for i := range 8 {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("bound-%d", i), Labels: map[string]string{"tier": "lab"}, Annotations: map[string]string{"long": strings.Repeat("x", 200<<10)},
		}}
		if err := cluster.Client().Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	client, err := metadata.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	const limit = 600 << 10
	n, err := newNamespaces(client, limit)
	if err != nil {
		t.Fatal(err)
	}
	await.Run(t, n.Run)
	await.Until(t, n.Ready)
	withLabels, whole := 0, 0
	for i := range 8 {
		name := fmt.Sprintf("bound-%d", i)
		object, _, _ := n.informer.GetStore().GetByKey(name)
		kept := object.(*keptNamespace)
		if kept.hasAnnotations {
			whole++
		} else if kept.Annotations != nil {
			t.Errorf("%s keeps annotations beyond the budget", name)
		}
		if kept.hasLabels {
			withLabels++
		}
		labels, err := n.NamespaceLabels(t.Context(), name)
		if err != nil || labels["tier"] != "lab" {
			t.Errorf("labels of %s: %v, %v", name, labels, err)
		}
		read, err := n.Namespace(t.Context(), name)
		if err != nil || len(read.Annotations["long"]) != 200<<10 {
			t.Errorf("%s is read with %d bytes of annotations: %v", name, len(read.Annotations["long"]), err)
		}
	}
	if whole < 1 || whole > 2 || withLabels != 8 {
		t.Errorf("%d namespaces are kept whole, %d with their labels; want 1 or 2, and all", whole, withLabels)
	}
	if used := n.budget.Used(); used > limit {
		t.Errorf("%d bytes are used of %d", used, limit)
	}
}
