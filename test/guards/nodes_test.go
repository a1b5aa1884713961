package guards

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/virtward/virtward/admissionpolicies"
)

const labellerName = "virtward-node-labeller"

// nodeCluster has two nodes, and a pod of the labeller on the first one.
type nodeCluster struct {
	config *rest.Config
	admin  kubernetes.Interface
}

// TestNodeLabels sends the requests of a stolen token of the node labeller: a real token, which the API server binds to a pod. The account
// has all permissions, so only the guard denies.
func TestNodeLabels(t *testing.T) {
	c := newNodeCluster(t)
	bound := c.client(t, c.token(t, "labeller"))
	apply := func(node, labels string) func(kubernetes.Interface) error {
		return c.patch(t, node, types.ApplyPatchType, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"`+node+`","labels":`+labels+`}}`)
	}
	merge := func(patch string) func(kubernetes.Interface) error {
		return c.patch(t, "node1", types.MergePatchType, patch)
	}
	const own = `{"hypervisor.node.virtward.io/kvm":"ready"}`
	eventually(t, "the guard is active", func() bool { return apierrors.IsForbidden(apply("node2", own)(bound)) })
	for _, tc := range []struct {
		name    string
		client  kubernetes.Interface
		request func(kubernetes.Interface) error
		want    string
	}{
		{"its labels", bound, apply("node1", own), ""},
		{"other labels of its own", bound, apply("node1", `{"kvm.node.virtward.io/tpm":"true"}`), ""},
		{"another node", bound, apply("node2", own), "the token is of a pod on the node node1: it cannot change the node node2"},
		{"a label of KubeVirt", bound, apply("node1", `{"cpu-model.node.kubevirt.io/Penryn":"true"}`), "metadata.labels: the node labeller only changes labels below node.virtward.io"},
		{"a label with a similar prefix", bound, apply("node1", `{"xnode.virtward.io/kvm":"ready"}`), "only changes labels below node.virtward.io"},
		{"the value of a foreign label", bound, merge(`{"metadata":{"labels":{"kubernetes.io/arch":"s390x"}}}`), "only changes labels below node.virtward.io"},
		{"without a foreign label", bound, merge(`{"metadata":{"labels":{"kubernetes.io/arch":null}}}`), "only changes labels below node.virtward.io"},
		{"a taint", bound, merge(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`), "changes no spec, status, annotations"},
		{"unschedulable", bound, merge(`{"spec":{"unschedulable":true}}`), "changes no spec, status, annotations"},
		{"an annotation", bound, merge(`{"metadata":{"annotations":{"a":"b"}}}`), "changes no spec, status, annotations"},
		{"a finalizer", bound, merge(`{"metadata":{"finalizers":["example.org/a"]}}`), "changes no spec, status, annotations"},
		{"the status", bound, func(client kubernetes.Interface) error {
			_, err := client.CoreV1().Nodes().Patch(t.Context(), "node1", types.MergePatchType, []byte(`{"status":{"capacity":{"cpu":"1000"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			return err
		}, "does not UPDATE nodes/status"},
		{"a deletion", bound, func(client kubernetes.Interface) error {
			return client.CoreV1().Nodes().Delete(t.Context(), "node1", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}, "does not DELETE nodes"},
		{"a new node", bound, func(client kubernetes.Interface) error {
			_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, "does not CREATE nodes"},
		{"the kubelet's port", bound, func(client kubernetes.Interface) error {
			return client.CoreV1().RESTClient().Get().Resource("nodes").Name("node1").SubResource("proxy").Suffix("pods").Do(t.Context()).Error()
		}, "does not CONNECT nodes/proxy"},
		{"a token that is bound to no pod", c.client(t, c.token(t, "")), apply("node1", own), "the token is not of a pod on a node"},
		{"a token of a pod without a node", c.client(t, c.token(t, "pending")), apply("node1", own), "the token is not of a pod on a node"},
		{"an admin", c.admin, merge(`{"spec":{"unschedulable":true}}`), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.request(tc.client)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("denied: %v", err)
			case tc.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func newNodeCluster(t *testing.T) *nodeCluster {
	t.Helper()
	c := &nodeCluster{config: pool.Take(t).Config()}
	var err error
	c.admin, err = kubernetes.NewForConfig(c.config)
	must(t, err)
	for _, name := range []string{"node1", "node2"} {
		_, err := c.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/arch": "amd64"}}}, metav1.CreateOptions{})
		must(t, err)
	}
	_, err = c.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "virtward-system"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.admin.CoreV1().ServiceAccounts("virtward-system").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: labellerName}}, metav1.CreateOptions{})
	must(t, err)
	for pod, node := range map[string]string{"labeller": "node1", "pending": ""} {
		spec := corev1.PodSpec{ServiceAccountName: labellerName, NodeName: node, Containers: []corev1.Container{{Name: "a", Image: "a"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		_, err = c.admin.CoreV1().Pods("virtward-system").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: spec}, metav1.CreateOptions{})
		must(t, err)
	}
	_, err = c.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: labellerName}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: labellerName, Namespace: "virtward-system"}},
	}, metav1.CreateOptions{})
	must(t, err)
	objects, err := admissionpolicies.Objects()
	must(t, err)
	for _, object := range objects {
		if object.GetName() != admissionpolicies.NodeLabels {
			continue
		}
		must(t, (&accountCluster{config: c.config}).as(t, "").Create(t.Context(), object))
	}
	return c
}

// token is a token of the account, bound to a pod if it has a name.
func (c *nodeCluster) token(t *testing.T, pod string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if pod != "" {
		found, err := c.admin.CoreV1().Pods("virtward-system").Get(t.Context(), pod, metav1.GetOptions{})
		must(t, err)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: found.UID}
	}
	request, err := c.admin.CoreV1().ServiceAccounts("virtward-system").CreateToken(t.Context(), labellerName, request, metav1.CreateOptions{})
	must(t, err)
	return request.Status.Token
}

func (c *nodeCluster) client(t *testing.T, token string) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// patch is a patch of a node in a dry run.
func (c *nodeCluster) patch(t *testing.T, node string, kind types.PatchType, patch string) func(kubernetes.Interface) error {
	return func(client kubernetes.Interface) error {
		o := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
		if kind == types.ApplyPatchType {
			o.FieldManager, o.Force = labellerName, ptr.To(true)
		}
		_, err := client.CoreV1().Nodes().Patch(t.Context(), node, kind, []byte(patch), o)
		return err
	}
}
