package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/limits/memory"
)

// The times of calls to the API server. So a request does not keep its place and its memory while the API server, or a
// webhook of the cluster, does not answer.
const (
	readTimeout   = 5 * time.Second
	statusTimeout = 10 * time.Second
	// createTimeout is longer than the timeouts of the webhooks of Virtward and of KubeVirt together.
	createTimeout = 30 * time.Second
	// authorizationTimeout bounds one SubjectAccessReview, which is sent again once.
	authorizationTimeout = 5 * time.Second
	authorizationTries   = 2
)

// timed bounds the time of each call.
type timed struct{ Cluster }

// limit calls a function with a deadline. The error is 504 after it.
func limit[T any](ctx context.Context, most time.Duration, action string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	result, err := call(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = apierrors.NewTimeoutError(fmt.Sprintf("the API server did not %s within %s", action, most), 1)
	}
	return result, err
}

// Template implements Cluster.
func (t timed) Template(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplate, error) {
	return limit(ctx, readTimeout, "send the template", func(ctx context.Context) (*v1beta1.VirtualMachineTemplate, error) {
		return t.Cluster.Template(ctx, namespace, name)
	})
}

// Templates implements Cluster.
func (t timed) Templates(ctx context.Context, count int64, from string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	page, err = limit(ctx, readTimeout, "send templates", func(ctx context.Context) (page []v1beta1.VirtualMachineTemplate, err error) {
		page, next, err = t.Cluster.Templates(ctx, count, from)
		return page, err
	})
	return page, next, err
}

// Import implements Cluster.
func (t timed) Import(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplateImport, error) {
	return limit(ctx, readTimeout, "send the import of the template", func(ctx context.Context) (*v1beta1.VirtualMachineTemplateImport, error) {
		return t.Cluster.Import(ctx, namespace, name)
	})
}

// GuardedSince implements Cluster.
func (t timed) GuardedSince(ctx context.Context, guard *admissionpolicies.Guard) (time.Time, error) {
	return limit(ctx, readTimeout, "send the guard "+guard.Name, func(ctx context.Context) (time.Time, error) {
		return t.Cluster.GuardedSince(ctx, guard)
	})
}

// Namespace implements Cluster.
func (t timed) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return limit(ctx, readTimeout, "send the namespace", func(ctx context.Context) (*corev1.Namespace, error) { return t.Cluster.Namespace(ctx, name) })
}

// DataSource implements Cluster.
func (t timed) DataSource(ctx context.Context, namespace, name string) (*cdiv1beta1.DataSource, error) {
	return limit(ctx, readTimeout, "send the DataSource", func(ctx context.Context) (*cdiv1beta1.DataSource, error) {
		return t.Cluster.DataSource(ctx, namespace, name)
	})
}

// CreateVirtualMachine implements Cluster.
func (t timed) CreateVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine, options metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	return limit(ctx, createTimeout, "create the VirtualMachine", func(ctx context.Context) (*kubevirtv1.VirtualMachine, error) {
		return t.Cluster.CreateVirtualMachine(ctx, vm, options)
	})
}

// WriteApproval implements Cluster.
func (t timed) WriteApproval(ctx context.Context, template *v1beta1.VirtualMachineTemplate, approval *v1beta1.TemplateApproval, condition metav1.Condition) error {
	_, err := limit(ctx, statusTimeout, "write the status of the template", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, t.Cluster.WriteApproval(ctx, template, approval, condition)
	})
	return err
}

// fair bounds the requests that wait for the decision of an authorizer. A user gets at most half of what the others leave.
type fair struct {
	authorizer.Authorizer

	places *memory.Parts
}

var errAuthorizing = errors.New("too many requests of the user are being authorized; try again")

func (f *fair) enter(ctx context.Context, a authorizer.Attributes) (leave func(), err error) {
	name := ""
	if u := a.GetUser(); u != nil {
		name = u.GetName()
	}
	return f.places.Acquire(ctx, name, 1)
}

// Authorize implements authorizer.Authorizer.
func (f *fair) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	leave, err := f.enter(ctx, a)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", errAuthorizing
	}
	defer leave()
	return f.Authorizer.Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (f *fair) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	leave, err := f.enter(ctx, a)
	if err != nil {
		return authorizer.ConditionsAwareDecisionFromParts(authorizer.DecisionNoOpinion, "", errAuthorizing)
	}
	defer leave()
	return f.Authorizer.ConditionsAwareAuthorize(ctx, a)
}
