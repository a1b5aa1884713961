package planes

import (
	"context"
	"os"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/controlplane"
)

var pool = Pool{Options: func() (controlplane.Options, error) {
	return controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}}, nil
}}

func TestMain(m *testing.M) { os.Exit(pool.Main(m)) }

// TestPool: a control plane that a test gives back is lent again, without what the test left and without its effects.
func TestPool(t *testing.T) {
	var first types.UID
	t.Run("a test leaves objects of all kinds", func(t *testing.T) {
		plane := pool.Take(t)
		first = id(t, plane)
		for _, object := range litter() {
			must(t, plane.Client().Create(t.Context(), object))
		}
		must(t, plane.InstallCRDs(t.Context(), definition()))
		must(t, plane.Client().Create(t.Context(), widget()))
		ctx := t.Context()
		must(t, until(ctx, (&baseline{plane: plane}).denied("left-over", policyDenies("left-over"))))
	})
	t.Run("the next one finds nothing", func(t *testing.T) {
		plane := pool.Take(t)
		if id(t, plane) != first {
			t.Error("it is another control plane")
		}
		for _, object := range append(litter(), definition()) {
			if err := plane.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				t.Errorf("%T %s is left: %v", object, object.GetName(), err)
			}
		}
		for _, object := range litter() {
			must(t, plane.Client().Create(t.Context(), object, client.DryRunAll))
			if object.GetNamespace() == "" && object.GetName() == "shop" {
				must(t, plane.Client().Create(t.Context(), object)) // the objects that follow are in it
			}
		}
	})
	t.Run("one that was changed is not lent again", func(t *testing.T) {
		plane := pool.Take(t)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
		must(t, plane.Client().Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"yes"}}}`))))
	})
	if left := len(pool.idle); left != 0 {
		t.Errorf("%d control planes are idle", left)
	}
}

// TestUnchanged: each change of an object of the baseline is noticed, and so is a missing one.
func TestUnchanged(t *testing.T) {
	plane := pool.Take(t)
	ctx, cancel := context.WithTimeout(t.Context(), restoreTimeout)
	defer cancel()
	meta := metav1.ObjectMeta{Name: "there"}
	namespaced := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "there"}
	for _, object := range []client.Object{
		&corev1.Node{ObjectMeta: meta}, &rbacv1.ClusterRole{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: namespaced}, &corev1.Secret{ObjectMeta: namespaced},
		&networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{Controller: "example.com/none"}},
	} {
		must(t, plane.Client().Create(ctx, object))
	}
	for name, c := range map[string]struct {
		object client.Object
		patch  string
	}{
		"annotation of a namespace":  {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}, `{"metadata":{"annotations":{"changed":"yes"}}}`},
		"rules of a role":            {&rbacv1.ClusterRole{ObjectMeta: meta}, `{"rules":[{"apiGroups":["a.example"],"resources":["b"],"verbs":["get"]}]}`},
		"data of a ConfigMap":        {&corev1.ConfigMap{ObjectMeta: namespaced}, `{"data":{"changed":"yes"}}`},
		"data of a Secret":           {&corev1.Secret{ObjectMeta: namespaced}, `{"stringData":{"changed":"yes"}}`},
		"taint of a node":            {&corev1.Node{ObjectMeta: meta}, `{"spec":{"taints":[{"key":"changed","effect":"NoSchedule"}]}}`},
		"finalizer of a node":        {&corev1.Node{ObjectMeta: meta}, `{"metadata":{"finalizers":["example.com/held"]}}`},
		"annotation of an aggregate": {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}}, `{"metadata":{"annotations":{"changed":"yes"}}}`},
		"class of ingresses":         {&networkingv1.IngressClass{ObjectMeta: meta}, `{"metadata":{"labels":{"changed":"yes"}}}`},
		"flow schema":                {&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "catch-all"}}, `{"metadata":{"annotations":{"changed":"yes"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := newBaseline(ctx, plane)
			must(t, err)
			if same, err := b.restore(ctx); err != nil || !same {
				t.Fatalf("nothing has changed, and it is noticed: %v", err)
			}
			must(t, plane.Client().Patch(ctx, c.object, client.RawPatch(types.MergePatchType, []byte(c.patch))))
			if same, err := b.restore(ctx); err != nil || same {
				t.Errorf("the change is not noticed: %v", err)
			}
		})
	}
	b, err := newBaseline(ctx, plane)
	must(t, err)
	must(t, plane.Client().Delete(ctx, &corev1.Secret{ObjectMeta: namespaced}))
	if same, err := b.restore(ctx); err != nil || same {
		t.Errorf("the deletion is not noticed: %v", err)
	}
}

// TestDenied: a guard that is none of the sentinel's does not show that the sentinel's are effective.
func TestDenied(t *testing.T) {
	plane, ctx := pool.Take(t), t.Context()
	b := &baseline{plane: plane}
	guard := guards()[:2]
	policy, binding := guard[0].(*admissionregistrationv1.ValidatingAdmissionPolicy), guard[1].(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	policy.Name, binding.Name, binding.Spec.PolicyName = "left-over", "left-over", "left-over"
	policy.Spec.MatchConditions = nil
	for _, object := range guard {
		must(t, plane.Client().Create(ctx, object))
	}
	must(t, until(ctx, b.denies("policy", policyDenies("left-over"))))
	for name, message := range map[string]string{"policy": policyDenies(sentinel), "validating": webhookFails("validating"), "mutating": webhookFails("mutating")} {
		if denied, err := b.denies(name, message)(ctx); err != nil || denied {
			t.Errorf("%s: %t, %v", name, denied, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func id(t *testing.T, plane *controlplane.ControlPlane) types.UID {
	t.Helper()
	namespace := &corev1.Namespace{}
	must(t, plane.Client().Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, namespace))
	return namespace.UID
}

// litter has an object in a namespace of its own and in one that stays, with and without finalizers, and a guard of ConfigMaps of its
// name.
func litter() []client.Object {
	held := []string{"example.com/held"}
	guard := guards()[:2]
	policy, binding := guard[0].(*admissionregistrationv1.ValidatingAdmissionPolicy), guard[1].(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	policy.Name, binding.Name, binding.Spec.PolicyName = "left-over", "left-over", "left-over"
	policy.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Delete}
	policy.Spec.MatchConditions[0].Expression = "request.name == 'left-over'"
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "held", Finalizers: held}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "left-over", Finalizers: held}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "left-over"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "left-over"}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "left-over"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "left-over"},
		},
		&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "left-over"}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/none"}},
		&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "left-over"}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "left-over"}, MatchingPrecedence: 9000,
		}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "left-over"}},
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "left-over-of-view", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"widgets"}, Verbs: []string{"get"}}},
		},
		policy, binding,
	}
}

// definition is that of widget.
func definition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}

// widget has a finalizer, so the definition stays until it is removed.
func widget() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	object.SetName("left-over")
	object.SetFinalizers([]string{"example.com/held"})
	return object
}
