package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/placements"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/texts"
)

// maxMachines bounds the instances of a cluster that are read.
const maxMachines = 50_000

// state is what was read of a cluster.
type state struct {
	facts    *platform.Facts
	found    *placements.Found
	machines []migrations.Machine
}

// read reads the cluster. An empty namespace is all of them.
func read(ctx context.Context, sources *options.Sources, namespace func(current string) string) (*state, error) {
	cluster, err := options.Connect(sources.Config)
	if err != nil {
		return nil, err
	}
	in := namespace(cluster.Namespace)
	s := &state{}
	if s.facts, err = options.ClusterFacts(ctx, cluster, sources.Settings); err != nil {
		return nil, err
	}
	if s.found, err = placements.Read(ctx, cluster.Client, ""); err != nil {
		return nil, err
	}
	if s.machines, err = machines(ctx, cluster.Client, in); err != nil {
		return nil, err
	}
	return s, nil
}

// machines are the running instances with their launchers, by namespace and name.
func machines(ctx context.Context, client dynamic.Interface, namespace string) ([]migrations.Machine, error) {
	var all []migrations.Machine
	err := offline.List(ctx, client, apikinds.VirtualMachineInstances.GroupVersionResource(), namespace, "", maxMachines, func(vmi *v1.VirtualMachineInstance) {
		if vmi.Status.Phase == v1.Running && vmi.Status.NodeName != "" {
			all = append(all, migrations.Machine{VMI: vmi})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing virtual machine instances: %w", err)
	}
	pods := map[string]*corev1.Pod{}
	err = offline.List(ctx, client, corev1.SchemeGroupVersion.WithResource("pods"), namespace, v1.AppLabel+"=virt-launcher", maxMachines, func(p *corev1.Pod) {
		if owner := metav1.GetControllerOf(p); owner != nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			pods[string(owner.UID)+"/"+p.Spec.NodeName] = p
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of virtual machines: %w", err)
	}
	for i := range all {
		all[i].Pod = pods[string(all[i].VMI.UID)+"/"+all[i].VMI.Status.NodeName]
	}
	slices.SortFunc(all, func(a, b migrations.Machine) int {
		return cmp.Or(cmp.Compare(a.VMI.Namespace, b.VMI.Namespace), cmp.Compare(a.VMI.Name, b.VMI.Name))
	})
	return all, nil
}

// reason is the first thing that keeps an instance from moving; empty if nothing does.
func reason(r *migrations.Result) string {
	switch {
	case len(r.Blockers) > 0:
		return r.Blockers[0].Text
	case r.TargetCount > 0 && len(r.NotChecked) > 0:
		return "not checked: " + texts.First(r.NotChecked, shownNodes)
	case r.TargetCount > 0:
		return ""
	}
	if len(r.Groups) > 0 {
		return r.Groups[0].Nearest + ": " + r.Groups[0].Text
	}
	return "there is no other node"
}
