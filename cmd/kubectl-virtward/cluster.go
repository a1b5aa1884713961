package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/documents"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/platform"
)

// completionTimeout bounds how long a shell waits for names of virtual machines.
const completionTimeout = 2 * time.Second

// cluster is the one that the kubeconfig points at. It is only read.
type cluster struct {
	client    dynamic.Interface
	objects   lookup.Objects
	namespace string
}

func connect(flags *genericclioptions.ConfigFlags) (*cluster, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if err := namesCluster(flags, config); err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 300        // as kubectl
	config.WarningHandler = rest.NoWarnings{} // that a kind is deprecated is nothing the reader can change
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	objects, err := platform.NewObjects(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &cluster{client: client, objects: objects, namespace: namespace}, nil
}

// namesCluster refuses to look for a cluster on this machine only because nobody said where it is.
func namesCluster(flags *genericclioptions.ConfigFlags, config *rest.Config) error {
	kubeconfig, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if len(kubeconfig.Clusters) == 0 && *flags.APIServer == "" && strings.HasSuffix(config.Host, "localhost:8080") {
		return errors.New("no kubeconfig names a cluster: give one with --kubeconfig or KUBECONFIG, or files with -f")
	}
	return nil
}

// target is an object of the cluster that the command line names.
type target struct {
	resource schema.GroupVersionResource
	name     string
}

// read fetches the virtual machines that the command line names.
func (c *cluster) read(ctx context.Context, args []string) ([]documents.Document, error) {
	targets, err := namedTargets(args)
	if err != nil {
		return nil, usageError{err}
	}
	var subjects []documents.Document
	for _, t := range targets {
		object, err := c.client.Resource(t.resource).Namespace(c.namespace).Get(ctx, t.name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", t.resource.Resource, c.namespace, t.name, err)
		}
		subjects = append(subjects, documents.Document{Source: sourceCluster, Object: object})
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
			return nil, fmt.Errorf("%q: name a type too, such as vm/%s, or a file with -f %s", args[0], args[0], args[0])
		case err != nil:
			return nil, misnamed(args[0], err)
		}
		if len(args) == 1 {
			return nil, fmt.Errorf("name the virtual machine: %s/NAME", args[0])
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

// misnamed is the error of a word that names no object, or what to do if it was meant as a file.
func misnamed(word string, err error) error {
	if looksLikeFile(word) {
		return fmt.Errorf("%q: a file is named with -f: -f %s", word, word)
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

func resourceOf(kind string) (schema.GroupVersionResource, error) {
	resource := schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1"}
	switch strings.ToLower(strings.TrimSuffix(kind, ".kubevirt.io")) {
	case "vm", "vms", "virtualmachine", "virtualmachines":
		resource.Resource = "virtualmachines"
	case "vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances":
		resource.Resource = "virtualmachineinstances"
	default:
		return resource, fmt.Errorf("unknown type %q: the known ones are vm and vmi", kind)
	}
	return resource, nil
}

// completeNames offers vm/ and vmi/, and then the names that the cluster has; names alone behind a type.
func (o *explainOptions) completeNames(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(o.filenames) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, ok := strings.Cut(word, "/")
	prefix := kind + "/"
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		kind, prefix, ok = args[0], "", !ok
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	if !ok {
		return []string{"vm/", "vmi/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	resource, err := resourceOf(kind)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := o.namesOf(ctx, resource)
	for i := range names {
		names[i] = prefix + names[i]
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
}

// namesOf are those that the cluster has; none if it cannot be asked.
func (o *explainOptions) namesOf(ctx context.Context, resource schema.GroupVersionResource) []string {
	c, err := connect(o.config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := c.client.Resource(resource).Namespace(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
