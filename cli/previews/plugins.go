package previews

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/plugins"
)

// Plugins are those of files or of a cluster.
type Plugins struct {
	List []*pluginv1alpha1.Plugin
	// Documents are the objects of the list, in the same order.
	Documents []manifests.Document
	// Unreadable are documents that are no Plugins that KubeVirt accepts.
	Unreadable []manifests.Unreadable
}

// Complete returns the Plugins, or an error about the first one that cannot be read.
func (p *Plugins) Complete() ([]*pluginv1alpha1.Plugin, error) {
	if len(p.Unreadable) > 0 {
		return nil, &p.Unreadable[0]
	}
	return p.List, nil
}

// IsPlugin reports whether a kind is that of KubeVirt's Plugins, in any version.
func IsPlugin(kind schema.GroupKind) bool {
	return kind == pluginv1alpha1.SchemeGroupVersion.WithKind(plugins.Kind).GroupKind()
}

// ReadPlugins reads the Plugins of files and directories. Objects of other kinds are left out.
func ReadPlugins(ctx context.Context, names []string, recursive bool, stdin io.Reader) (*Plugins, error) {
	content, err := manifests.ReadEach(ctx, names, recursive, stdin)
	if err != nil {
		return nil, err
	}
	content = content.Strictly()
	found := PluginsOf(content.Documents)
	found.Unreadable = append(content.Unreadable, found.Unreadable...)
	return found, nil
}

// PluginsOf returns the Plugins among objects.
func PluginsOf(documents []manifests.Document) *Plugins {
	found := &Plugins{}
	for _, d := range documents {
		if IsPlugin(d.Object.GroupVersionKind().GroupKind()) {
			found.add(d)
		}
	}
	return found
}

// ClusterPlugins lists the Plugins of a cluster. A cluster without the kind has none.
func ClusterPlugins(ctx context.Context, cluster *offline.Cluster) (*Plugins, error) {
	found := &Plugins{}
	list, err := cluster.Client.Resource(pluginv1alpha1.SchemeGroupVersion.WithResource("plugins")).List(ctx, metav1.ListOptions{Limit: plugins.MaxPlugins + 1})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return found, nil
	case err != nil:
		return nil, fmt.Errorf("listing Plugins: %w", err)
	}
	for i := range list.Items {
		found.add(manifests.Document{Source: offline.SourceCluster, Object: &list.Items[i]})
	}
	return found, nil
}

// add adds a Plugin.
func (p *Plugins) add(d manifests.Document) {
	made, err := plugins.Decode(d.Object.Object)
	switch {
	case d.Object.GetAPIVersion() != plugins.APIVersion:
		err = fmt.Errorf("apiVersion: must be %s", plugins.APIVersion)
	case d.Object.GetName() == "":
		err = errors.New("metadata.name: a Plugin has a name")
	case len(p.List) >= plugins.MaxPlugins:
		err = fmt.Errorf("more than %d Plugins", plugins.MaxPlugins)
	}
	for _, other := range p.List {
		if err == nil && other.Name == made.Name {
			err = fmt.Errorf("metadata.name: there are two Plugins of the name %s", made.Name)
		}
	}
	if err != nil {
		p.Unreadable = append(p.Unreadable, d.Unreadable(err))
		return
	}
	p.List, p.Documents = append(p.List, made), append(p.Documents, d)
}

// gate is the feature gate with which KubeVirt calls Plugins.
const gate = "Plugins"

// GateNote is a note for facts of a cluster that calls no Plugins; empty if it does.
func GateNote(facts *platform.Facts) string {
	if facts.GateEnabled(gate) {
		return ""
	}
	return "KubeVirt calls no Plugins: its feature gate " + gate + " is off"
}
