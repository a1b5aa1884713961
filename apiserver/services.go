package apiserver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// Services are what the API is made of.
type Services struct {
	Cluster    Cluster
	Authorizer authorizer.Authorizer
	Random     templates.Random
	Events     Events
	Clock      clock.PassiveClock
	Keys       Keys
	// RequireApproval: VirtualMachines are created from approved templates only, in every namespace.
	RequireApproval bool

	memory *gates
}

// Cluster reads and writes the objects of the cluster. Nothing is cached: an approval, or the end of one, counts at once.
// The errors are those of the API server.
type Cluster interface {
	Template(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplate, error)
	// Templates is a page of all templates, from its beginning or from next of the page before. next is empty after the last
	// page.
	Templates(ctx context.Context, limit int64, from string) (page []v1beta1.VirtualMachineTemplate, next string, err error)
	// Import is the import that created a template.
	Import(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplateImport, error)
	// GuardedSince is the time since which a guard is active; zero if it is not.
	GuardedSince(ctx context.Context, guard *admissionpolicies.Guard) (time.Time, error)
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
	DataSource(ctx context.Context, namespace, name string) (*cdiv1beta1.DataSource, error)
	CreateVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine, options metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error)
	// WriteApproval writes status.approval and the condition Approved of a template. A template that was deleted and created
	// again is a conflict. If the template has a resourceVersion, so is one that changed. Without an approval and without a
	// resourceVersion, it removes the present approval.
	WriteApproval(ctx context.Context, template *v1beta1.VirtualMachineTemplate, approval *v1beta1.TemplateApproval, condition metav1.Condition) error
}

// Events records events on templates.
type Events interface {
	Event(template *v1beta1.VirtualMachineTemplate, kind, reason, message string)
}
