package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// liveCluster reads and writes without a cache.
type liveCluster struct{ client client.Client }

// NewCluster connects to the API server with the rights of Virtward. The config must not limit requests. Its warnings reach the user.
func NewCluster(config *rest.Config) (Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionregistrationv1.AddToScheme, v1beta1.AddToScheme, kubevirtv1.AddToScheme, cdiv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
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

// Templates implements Cluster.
func (l *liveCluster) Templates(ctx context.Context, limit int64, from string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	list := &v1beta1.VirtualMachineTemplateList{}
	if err := l.client.List(ctx, list, client.Limit(limit), client.Continue(from)); err != nil {
		return nil, "", err
	}
	return list.Items, list.Continue, nil
}

// Import implements Cluster.
func (l *liveCluster) Import(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplateImport, error) {
	of := &v1beta1.VirtualMachineTemplateImport{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, of); err != nil {
		return nil, err
	}
	return of, nil
}

// GuardedSince implements Cluster.
func (l *liveCluster) GuardedSince(ctx context.Context, guard *admissionpolicies.Guard) (time.Time, error) {
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		if err := l.client.Get(ctx, client.ObjectKey{Name: guard.Name}, object); err != nil {
			return time.Time{}, client.IgnoreNotFound(err)
		}
	}
	return guard.ActiveSince(policy, binding), nil
}

// Namespace implements Cluster.
func (l *liveCluster) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	if err := l.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, err
	}
	return namespace, nil
}

// DataSource implements Cluster.
func (l *liveCluster) DataSource(ctx context.Context, namespace, name string) (*cdiv1beta1.DataSource, error) {
	source := &cdiv1beta1.DataSource{}
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, source); err != nil {
		return nil, err
	}
	return source, nil
}

// CreateVirtualMachine implements Cluster.
func (l *liveCluster) CreateVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine, options metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	created := vm.DeepCopy()
	if err := l.client.Create(ctx, created, &client.CreateOptions{Raw: &options, DryRun: options.DryRun, FieldManager: options.FieldManager}); err != nil {
		return nil, err
	}
	return created, nil
}

// WriteApproval implements Cluster by server-side apply. Applying a status without the approval would keep the fields that
// another manager owns too, so a patch removes them before. A template with a resourceVersion has no approval to remove then.
func (l *liveCluster) WriteApproval(ctx context.Context, template *v1beta1.VirtualMachineTemplate, approval *v1beta1.TemplateApproval, condition metav1.Condition) error {
	owner := client.FieldOwner(v1beta1.ApprovalFieldOwner)
	status := v1beta1.VirtualMachineTemplateStatus{Conditions: []metav1.Condition{condition}, Approval: approval}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": written}}
	object.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplate))
	object.SetNamespace(template.Namespace)
	object.SetName(template.Name)
	object.SetUID(template.UID)
	object.SetResourceVersion(template.ResourceVersion)
	if approval == nil && template.ResourceVersion == "" {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": template.UID}, "status": map[string]any{"approval": nil}})
		if err != nil {
			return err
		}
		if err := l.client.Status().Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, body), owner); err != nil {
			return err
		}
	}
	return l.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), owner, client.ForceOwnership)
}
