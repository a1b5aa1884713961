package simulators

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/test/controlplane"
)

// Exports simulates what nodes do for exports of templates: it runs the program of each pod that serves an OVA, with the files of its Secret
// and of its volumes. The content of a volume is that of the claim or of the snapshot that was cloned.
type Exports struct {
	diskServers

	// contents have the content of a claim or a snapshot, by NAMESPACE/NAME.
	contents map[string][]byte
}

// StartExports runs the simulation until the context ends. The program is virtward-export-server.
func StartExports(ctx context.Context, c *controlplane.ControlPlane, program, dir string, contents map[string][]byte) *Exports {
	e := &Exports{diskServers: newDiskServers(c, &exports.Servers, program, dir), contents: contents}
	e.mount = e.volumes
	go e.repeat(ctx)
	return e
}

// volumes writes the files of the volumes of a pod.
func (e *Exports) volumes(ctx context.Context, pod *corev1.Pod, folder string) (map[string]string, error) {
	claims := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	replaced := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		claim, has := claims[m.Name]
		if !has {
			continue
		}
		content, err := e.content(ctx, pod.Namespace, claim)
		if err != nil {
			return nil, err
		}
		at := filepath.Join(folder, m.Name)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(at, "disk.img"), content, 0o600); err != nil {
			return nil, err
		}
		replaced[m.MountPath+"/"] = at + "/"
	}
	return replaced, nil
}

// content is that of the source of a clone.
func (e *Exports) content(ctx context.Context, namespace, name string) ([]byte, error) {
	clone := &cdiv1beta1.DataVolume{}
	if err := e.controlPlane.Client().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, clone); err != nil {
		return nil, fmt.Errorf("reading a clone: %w", err)
	}
	var from string
	switch s := clone.Spec.Source; {
	case s.PVC != nil:
		from = s.PVC.Namespace + "/" + s.PVC.Name
	case s.Snapshot != nil:
		from = s.Snapshot.Namespace + "/" + s.Snapshot.Name
	}
	content, has := e.contents[from]
	if !has {
		return nil, fmt.Errorf("the simulation has no content of %q", from)
	}
	return content, nil
}
