package images

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
)

// startWith starts a cluster with the chart and values of its own.
func startWith(t *testing.T, values map[string]any) *fixture {
	t.Helper()
	plane := planes.Start(t, controlplane.Options{})
	f := &fixture{ControlPlane: plane, client: plane.Client()}
	must(t, plane.EnsureNamespace(t.Context(), namespace))
	_, err := plane.InstallVirtward(t.Context(), values, controlplane.Workload{})
	must(t, err)
	f.cdi = simulators.StartImporter(t.Context(), f.client, namespace)
	t.Cleanup(func() { must(t, f.cdi.Stop()) })
	f.process, err = plane.RunVirtward(t.Context(), controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardImages, Args: []string{"--lease-duration=3s"},
	})
	must(t, err)
	return f
}

// as is a client of a user with a ClusterRole. A rule is its verbs, its group and its resources, in sequence.
func (f *fixture) as(t *testing.T, user string, rules ...string) client.Client {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "user-" + user}}
	for i := 0; i+2 < len(rules); i += 3 {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: strings.Split(rules[i], ","), APIGroups: []string{rules[i+1]}, Resources: strings.Split(rules[i+2], ",")})
	}
	must(t, f.client.Create(t.Context(), role))
	must(t, f.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	config, err := f.UserConfig(user)
	must(t, err)
	c, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	must(t, err)
	return c
}

// eventually waits until a condition holds.
func (f *fixture) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}
