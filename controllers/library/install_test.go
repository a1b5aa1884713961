package library

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// policy belongs to a release.
func policy(name, release string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"enforcement": "Audit"}}}
	p.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	p.SetName(name)
	p.SetAnnotations(map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "virtward-system"})
	return p
}

var (
	silent  = apierrors.NewInternalError(errors.New("failed calling webhook"))
	invalid = apierrors.NewInvalid(schema.GroupKind{Kind: "VirtualMachinePolicy"}, "x", nil)
	denied  = apierrors.NewForbidden(schema.GroupResource{Resource: "virtualmachinepolicies"}, "x", errors.New("no rights"))
)

func TestInstall(t *testing.T) {
	for _, c := range []struct {
		name string
		// answers of the API server to creations, in order; then it stores them.
		answers  []error
		await    bool
		existing *unstructured.Unstructured
		want     string
		attempts int
	}{
		{name: "at once", attempts: 2},
		{name: "a webhook that does not answer yet", answers: []error{silent, silent}, attempts: 4},
		{name: "rights that arrive late", answers: []error{denied}, attempts: 3},
		{name: "a webhook that denies the invalid policy", await: true, answers: []error{silent, nil, invalid}, attempts: 5},
		{name: "an invalid policy", answers: []error{invalid}, want: "creating the policy a: ", attempts: 2},
		{name: "after a first run", existing: policy("a", "virtward"), attempts: 1},
		{name: "a policy of another release", existing: policy("a", "other"), want: "creating the policy a: a policy of this name exists, and does not belong to this release", attempts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts := 0
			answer := func() error {
				attempts++
				if attempts <= len(c.answers) {
					return c.answers[attempts-1]
				}
				return nil
			}
			objects := []client.Object{}
			if c.existing != nil {
				objects = append(objects, c.existing)
			}
			api := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, w client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if err := answer(); err != nil {
						return err
					}
					return w.Create(ctx, object, options...)
				},
				Apply: func(ctx context.Context, w client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					if err := answer(); err != nil {
						return err
					}
					return w.Apply(ctx, object, options...)
				},
			}).Build()
			installer := Installer{Client: api, Log: logr.Discard(), AwaitWebhook: c.await, Interval: time.Millisecond}
			err := installer.Install(t.Context(), []*unstructured.Unstructured{policy("a", "virtward"), policy("b", "virtward")})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if attempts != c.attempts {
				t.Errorf("there were %d attempts, want %d", attempts, c.attempts)
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicyList"))
			if err := api.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			want := 2
			if c.want != "" && c.existing == nil {
				want = 1 // the other one
			}
			if len(list.Items) != want {
				t.Errorf("there are %d policies, want %d", len(list.Items), want)
			}
		})
	}
}

// The error at the end of the time has the last reason.
func TestInstallEnds(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return silent },
	}).Build()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not ready after 10m"))
	err := Installer{Client: api, Log: logr.Discard(), AwaitWebhook: true, Interval: time.Hour}.Install(ctx, nil)
	if err == nil || !strings.Contains(err.Error(), "waiting for the webhook: not ready after 10m: the last reason: ") || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("the error is %v", err)
	}
}

func TestRead(t *testing.T) {
	const valid = "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: a}\n"
	for _, c := range []struct{ name, file, content, want string }{
		{name: "valid", file: "a.yaml", content: valid},
		{name: "another kind", file: "a.yaml", content: strings.Replace(valid, "VirtualMachinePolicy", "Secret", 1), want: "a.yaml: it is a policy.virtward.io/v1alpha1, Kind=Secret"},
		{name: "another name", file: "b.yaml", content: valid, want: `b.yaml: the name of the policy is "a"`},
		{name: "no YAML", file: "a.yaml", content: "\t", want: "a.yaml: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			policies, err := Read(fstest.MapFS{c.file: {Data: []byte(c.content)}, "notes.txt": {}})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if c.want == "" && (len(policies) != 1 || policies[0].GetName() != "a") {
				t.Errorf("the policies are %v", policies)
			}
		})
	}
}
