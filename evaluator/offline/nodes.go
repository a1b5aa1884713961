package offline

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/placement"
)

// readNodes prepares the nodes for policies that read migrationTargets: those of the files, as if they were applied, and then those of
// the cluster, if there is one. They count as empty. If nothing reads the number, no node is read.
func (w *Evaluator) readNodes(ctx context.Context, files *Files, cluster *Cluster) {
	if !files.NeedNodes && !w.policies.Set.ReadsMigrationTargets() {
		return
	}
	empty := &placement.Cluster{Unknown: placement.Nothing()}
	given := map[string]bool{}
	for _, d := range w.once(files.Nodes) {
		node := &corev1.Node{}
		if err := decodeConfigured(d, node); err != nil {
			w.Unreadable = append(w.Unreadable, d.Unreadable(err))
			continue
		}
		given[node.Name] = true
		empty.Nodes = append(empty.Nodes, placement.TrimNode(node))
	}
	if cluster != nil {
		if err := cluster.addNodes(ctx, empty, given); err != nil {
			why := err.Error()
			if apierrors.IsForbidden(err) {
				why = "you may not list them"
			}
			w.Notes = append(w.Notes, "migrationTargets is not known: the Nodes of the cluster: "+why)
			return
		}
	}
	if len(empty.Nodes) == 0 {
		return
	}
	snapshot, err := placement.NewSnapshot(empty)
	if err != nil {
		w.Notes = append(w.Notes, "migrationTargets is not known: "+err.Error())
		return
	}
	w.nodes = snapshot
}

// addNodes adds the nodes of the cluster, but not those with the names of given ones.
func (c *Cluster) addNodes(ctx context.Context, to *placement.Cluster, given map[string]bool) error {
	resource := corev1.SchemeGroupVersion.WithResource("nodes")
	return List(ctx, c.Client, resource, metav1.NamespaceAll, "", placement.MaxNodes, func(node *corev1.Node) {
		if !given[node.Name] {
			to.Nodes = append(to.Nodes, placement.TrimNode(node))
		}
	})
}
