package simulators

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/controlplane"
)

// Names of KubeVirt's installation.
const (
	Namespace         = "kubevirt"
	ControllerAccount = "kubevirt-controller"
	HandlerAccount    = "kubevirt-handler"
	APIAccount        = "kubevirt-apiserver"
	accountPrefix     = "system:serviceaccount:" + Namespace + ":"
)

// accounts are KubeVirt's service accounts. Its admission grants them more than users.
var accounts = []string{APIAccount, ControllerAccount, HandlerAccount, "kubevirt-operator"}

// rules of the accounts that the simulators use: those of KubeVirt's that touch VMs.
var rules = map[string][]rbacv1.PolicyRule{
	ControllerAccount: {
		allow("kubevirt.io", []string{
			"virtualmachines", "virtualmachines/status", "virtualmachines/finalizers",
			"virtualmachineinstances", "virtualmachineinstances/finalizers",
			"virtualmachineinstancemigrations", "virtualmachineinstancemigrations/status", "virtualmachineinstancemigrations/finalizers",
		}, "*"),
		allow("kubevirt.io", []string{"kubevirts"}, "get", "list", "watch"),
		allow("instancetype.kubevirt.io", []string{"*"}, "get", "list", "watch"),
		allow("apps", []string{"controllerrevisions"}, "*"),
		allow("snapshot.storage.k8s.io", []string{"volumesnapshots", "volumesnapshots/status"}, "*"),
		allow("snapshot.kubevirt.io", []string{"*"}, "*"),
		allow("cdi.kubevirt.io", []string{"*"}, "*"),
		allow("", []string{"persistentvolumeclaims"}, "get", "list", "watch"),
		allow("", []string{"events"}, "create", "patch", "update"),
	},
	HandlerAccount: {
		allow("kubevirt.io", []string{"virtualmachineinstances"}, "get", "list", "watch", "update", "patch"),
	},
	APIAccount: {
		allow("kubevirt.io", []string{"virtualmachines", "virtualmachines/status"}, "get", "patch"),
		allow("kubevirt.io", []string{"virtualmachineinstances", "kubevirts"}, "get", "list"),
		allow("kubevirt.io", []string{"virtualmachineinstancemigrations"}, "list", "create"),
	},
}

func allow(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// ensureAccounts creates KubeVirt's namespace and service accounts, with the permissions of rules.
func ensureAccounts(ctx context.Context, c *controlplane.ControlPlane) error {
	if err := c.EnsureNamespace(ctx, Namespace); err != nil {
		return err
	}
	for _, name := range accounts {
		objects := []client.Object{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}}
		if granted, found := rules[name]; found {
			objects = append(objects, grant(name, granted)...)
		}
		for _, object := range objects {
			if err := c.Client().Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
				return fmt.Errorf("making KubeVirt's account %s: %w", name, err)
			}
		}
	}
	return nil
}

func grant(account string, granted []rbacv1.PolicyRule) []client.Object {
	meta := metav1.ObjectMeta{Name: account}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: granted},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: account}},
		},
	}
}

// MarkDeployed writes the status that virt-operator writes once KubeVirt runs: phase Deployed, available,
// the architecture of the control plane's nodes.
func MarkDeployed(ctx context.Context, writer client.Client, kubevirt client.ObjectKey) error {
	object := &kubevirtv1.KubeVirt{}
	if err := writer.Get(ctx, kubevirt, object); err != nil {
		return fmt.Errorf("reading KubeVirt %s: %w", kubevirt, err)
	}
	object.Status.Phase = kubevirtv1.KubeVirtPhaseDeployed
	object.Status.ObservedKubeVirtVersion = "v1.9.0"
	object.Status.TargetKubeVirtVersion = "v1.9.0"
	object.Status.DefaultArchitecture = "amd64"
	object.Status.Conditions = []kubevirtv1.KubeVirtCondition{{
		Type:               kubevirtv1.KubeVirtConditionAvailable,
		Status:             corev1.ConditionTrue,
		Reason:             "AllComponentsReady",
		Message:            "All components are ready.",
		LastProbeTime:      metav1.Now(),
		LastTransitionTime: metav1.Now(),
	}}
	if err := writer.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("writing the status of KubeVirt %s: %w", kubevirt, err)
	}
	return nil
}
