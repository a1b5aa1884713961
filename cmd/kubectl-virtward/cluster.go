package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/platform"
)

// completionTimeout bounds how long a shell waits for names of virtual machines.
const completionTimeout = 2 * time.Second

// cluster is the one that the kubeconfig points at. It is only read.
type cluster struct {
	client    dynamic.Interface
	objects   *platform.Objects
	namespace string
}

func connect(flags *genericclioptions.ConfigFlags) (*cluster, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.WarningHandler = rest.NoWarnings{} // that a kind is deprecated is nothing the reader can change
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &cluster{client: client, objects: platform.NewObjects(client), namespace: namespace}, nil
}

// target is an object of the cluster that the command line names.
type target struct {
	resource schema.GroupVersionResource
	name     string
}

// read fetches the virtual machines that the command line names.
func (c *cluster) read(ctx context.Context, args []string) ([]subject, error) {
	targets, err := namedTargets(args)
	if err != nil {
		return nil, usageError{err}
	}
	var subjects []subject
	for _, t := range targets {
		object, err := c.client.Resource(t.resource).Namespace(c.namespace).Get(ctx, t.name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", t.resource.Resource, c.namespace, t.name, err)
		}
		subjects = append(subjects, subject{source: "cluster", object: object})
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
		if err != nil {
			return nil, err
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
			return nil, fmt.Errorf("%q is not of the form TYPE/NAME", arg)
		}
		resource, err := resourceOf(kind)
		if err != nil {
			return nil, err
		}
		targets = append(targets, target{resource: resource, name: name})
	}
	return targets, nil
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

// completeNames offers vm/ and vmi/, and then the names that the cluster has.
func (o *explainOptions) completeNames(ctx context.Context, word string) ([]string, cobra.ShellCompDirective) {
	kind, _, ok := strings.Cut(word, "/")
	if !ok {
		return []string{"vm/", "vmi/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	resource, err := resourceOf(kind)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := connect(o.config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := c.client.Resource(resource).Namespace(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, kind+"/"+list.Items[i].GetName())
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
