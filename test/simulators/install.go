package simulators

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/controlplane"
)

// Name of the one KubeVirt resource of a cluster.
var Name = client.ObjectKey{Namespace: Namespace, Name: "kubevirt"}

// KubeVirt is a simulated installation: the KubeVirt resource, virt-api's admission and virt-controller.
type KubeVirt struct {
	API        *VirtAPI
	Controller *VirtController
}

// InstallKubeVirt simulates a KubeVirt installation with a configuration.
func InstallKubeVirt(ctx context.Context, c *controlplane.ControlPlane, configuration kubevirtv1.KubeVirtConfiguration, expand Expand) (*KubeVirt, error) {
	if err := ensureAccounts(ctx, c); err != nil {
		return nil, err
	}
	resource := &kubevirtv1.KubeVirt{
		ObjectMeta: metav1.ObjectMeta{Namespace: Name.Namespace, Name: Name.Name},
		Spec:       kubevirtv1.KubeVirtSpec{Configuration: configuration},
	}
	if err := c.Client().Create(ctx, resource); client.IgnoreAlreadyExists(err) != nil {
		return nil, err
	}
	if err := MarkDeployed(ctx, c.Client(), Name); err != nil {
		return nil, err
	}
	api, err := StartVirtAPI(ctx, c)
	if err != nil {
		return nil, err
	}
	controller, err := StartVirtController(ctx, c, expand)
	if err != nil {
		return nil, errors.Join(err, api.Stop(ctx))
	}
	return &KubeVirt{API: api, Controller: controller}, nil
}

// Stop ends the simulation; the KubeVirt resource and the VMs stay.
func (k *KubeVirt) Stop(ctx context.Context) error {
	return errors.Join(k.Controller.Stop(), k.API.Stop(ctx))
}
