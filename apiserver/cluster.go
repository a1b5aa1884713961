package apiserver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// liveCluster reads and writes without a cache: an approval, or the end of one, counts at once.
type liveCluster struct{ client client.Client }

// NewCluster connects to the API server with the rights of Virtward. Its warnings reach the user.
func NewCluster(config *rest.Config) (Cluster, error) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := kubevirtv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = passWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &liveCluster{c}, nil
}

// Template implements Cluster.
func (l *liveCluster) Template(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplate, error) {
	template := &v1beta1.VirtualMachineTemplate{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, template); err != nil {
		return nil, err
	}
	return template, nil
}

// CreateVirtualMachine implements Cluster.
func (l *liveCluster) CreateVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine, options metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	created := vm.DeepCopy()
	if err := l.client.Create(ctx, created, &client.CreateOptions{Raw: &options, DryRun: options.DryRun, FieldManager: options.FieldManager}); err != nil {
		return nil, err
	}
	return created, nil
}
