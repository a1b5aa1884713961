package main

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubevirtRoles returns the roles of KubeVirt that the demo needs. Every user can read the KubeVirt resource and the
// cluster's instancetypes. The admin binds editors.
func kubevirtRoles() []client.Object {
	edit := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	see := []string{"get", "list", "watch"}
	return []client.Object{
		role("kubevirt.io:edit",
			rule("kubevirt.io", edit, "virtualmachines", "virtualmachineinstances", "virtualmachineinstancepresets")),
		role("kubevirt.io:migrate",
			rule("kubevirt.io", edit, "virtualmachineinstancemigrations")),
		role("kubevirt.io:default", rule("kubevirt.io", []string{"get", "list"}, "kubevirts")),
		forAllUsers("kubevirt.io:default"),
		boundTo("editor", "kubevirt.io:edit"),
		role("instancetype.kubevirt.io:view",
			rule("instancetype.kubevirt.io", see, "virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences")),
		forAllUsers("instancetype.kubevirt.io:view"),
	}
}

func role(name string, rules ...rbacv1.PolicyRule) client.Object {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func rule(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func forAllUsers(role string) client.Object {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}
}

// boundTo binds a role to a user, in all namespaces.
func boundTo(name, role string) client.Object {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
}
