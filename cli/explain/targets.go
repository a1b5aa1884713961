package explain

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
)

// target is an object of the cluster that the command line names.
type target struct {
	resource schema.GroupVersionResource
	name     string
}

// Bounds of a list of objects.
const (
	pageSize  = 250
	maxListed = 5_000
)

// listedType returns the type of a command line with a type and without a name; nil for others.
func (c *command) listedType(args []string) (*schema.GroupVersionResource, error) {
	if len(args) != 1 || strings.Contains(args[0], "/") || c.sources.Selector == "" && !c.allNamespaces {
		return nil, nil
	}
	resource, err := resourceOf(args[0])
	if err != nil {
		return nil, options.Usagef("%w", misnamed(args[0], err))
	}
	return &resource, nil
}

// listTargets lists the objects of a type that the selector selects.
func (c *command) listTargets(ctx context.Context, cluster *offline.Cluster, resource schema.GroupVersionResource) ([]manifests.Document, error) {
	in := objectsIn(cluster, resource)
	if c.allNamespaces {
		in = cluster.Client.Resource(resource)
	}
	var subjects []manifests.Document
	for query := (metav1.ListOptions{LabelSelector: c.sources.Selector, Limit: pageSize}); ; {
		list, err := in.List(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			subjects = append(subjects, manifests.Document{Source: offline.SourceCluster, Object: &list.Items[i]})
		}
		if len(subjects) > maxListed {
			return nil, fmt.Errorf("more than %d %s: use audit, which reads them in pages, or another selector", maxListed, resource.Resource)
		}
		if query.Continue = list.GetContinue(); query.Continue == "" {
			return subjects, nil
		}
	}
}

// readTargets fetches the virtual machines that the command line names.
func (c *command) readTargets(ctx context.Context, cluster *offline.Cluster, args []string) ([]manifests.Document, error) {
	if resource, err := c.listedType(args); err != nil {
		return nil, err
	} else if resource != nil {
		return c.listTargets(ctx, cluster, *resource)
	}
	targets, err := namedTargets(args)
	if err != nil {
		return nil, options.Usagef("%w", err)
	}
	var subjects []manifests.Document
	for _, t := range targets {
		object, err := objectsIn(cluster, t.resource).Get(ctx, t.name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", t.resource.Resource, cluster.Namespace, t.name, err)
		}
		subjects = append(subjects, manifests.Document{Source: offline.SourceCluster, Object: object})
	}
	return subjects, nil
}

// namedTargets reads TYPE/NAME ..., or TYPE NAME ..., as kubectl does.
func namedTargets(args []string) ([]target, error) {
	if len(args) == 0 {
		return nil, nil
	}
	var targets []target
	if !strings.Contains(args[0], "/") {
		resource, err := resourceOf(args[0])
		switch {
		case err != nil && len(args) == 1 && !looksLikeFile(args[0]):
			return nil, fmt.Errorf("%q: add a type, such as vm/%s, or use -f %s for a file", args[0], args[0], args[0])
		case err != nil:
			return nil, misnamed(args[0], err)
		}
		if len(args) == 1 {
			return nil, fmt.Errorf("add the name of the virtual machine: %s/NAME, or labels with -l", args[0])
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, fmt.Errorf("%q: TYPE NAME and TYPE/NAME cannot be mixed", name)
			}
			targets = append(targets, target{resource: resource, name: name})
		}
		return targets, nil
	}
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" || strings.Contains(name, "/") {
			return nil, misnamed(arg, fmt.Errorf("%q is not of the form TYPE/NAME", arg))
		}
		resource, err := resourceOf(kind)
		if err != nil {
			return nil, misnamed(arg, err)
		}
		targets = append(targets, target{resource: resource, name: name})
	}
	return targets, nil
}

// misnamed returns the error of an argument that names no object, or one that suggests -f if it looks like a file.
func misnamed(word string, err error) error {
	if looksLikeFile(word) {
		return fmt.Errorf("%q: use -f for a file: -f %s", word, word)
	}
	return err
}

func looksLikeFile(word string) bool {
	switch strings.ToLower(path.Ext(word)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return word == "-" || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")
}

// typeNames are the short names of KubeVirt's other resources.
var typeNames = map[string]string{
	"vmf": "virtualmachineinstancetypes", "vmcf": "virtualmachineclusterinstancetypes", "vmp": "virtualmachinepreferences", "vmcp": "virtualmachineclusterpreferences",
}

func resourceOf(name string) (schema.GroupVersionResource, error) {
	wanted := strings.ToLower(name)
	if at := strings.IndexByte(wanted, '.'); at >= 0 && strings.HasSuffix(wanted, "kubevirt.io") {
		wanted = wanted[:at]
	}
	var short []string
	for _, m := range apikinds.Machines() {
		short = append(short, m.ShortNames[0])
		if slices.Contains(m.ShortNames, wanted) {
			return m.GroupVersionResource(), nil
		}
	}
	wanted = cmp.Or(typeNames[wanted], wanted)
	for _, info := range evaluator.Kinds() {
		if wanted == info.Resource.Resource || wanted == strings.ToLower(info.Kind) {
			return info.Resource, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("unknown type %q: the known ones are %s, and instancetypes and preferences by their full names", name, strings.Join(short, ", "))
}

// objectsIn returns a client for a resource, in the namespace of the command line if the resource is namespaced.
func objectsIn(c *offline.Cluster, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	for _, info := range evaluator.Kinds() {
		if info.Resource == resource && !info.Namespaced {
			return c.Client.Resource(resource)
		}
	}
	return c.Client.Resource(resource).Namespace(c.Namespace)
}
