package guards

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/copies"
)

// TestCopies sends the requests of all cases, as users with RBAC permissions.
func TestCopies(t *testing.T) {
	cases, err := admissionpolicies.CopyCases()
	must(t, err)
	c := newCopyCluster(t)
	for i := range cases {
		if each := &cases[i]; each.Old != "" {
			record := recordOfOthers
			if each.Unrecorded || each.Kind == "content" {
				record = ""
			}
			c.create(t, c.object(each, i, each.Old, record))
		}
	}
	c.guard(t)
	for i := range cases {
		t.Run(cases[i].Name, func(t *testing.T) {
			guard := admissionpolicies.CopyAuthors
			if cases[i].Kind == "content" {
				guard = admissionpolicies.SnapshotContents
			}
			expectTemplate(t, c.send(t, &cases[i], i), guard, cases[i].Denied)
		})
	}
	for _, guard := range []string{admissionpolicies.CopyAuthors, admissionpolicies.SnapshotContents} {
		c.typeChecks(t, guard)
	}
	t.Run("the longest record", c.longestAuthor)
}

// copyCluster has the definitions of KubeVirt, and the users of the cases.
type copyCluster struct{ *rolloutCluster }

func newCopyCluster(t *testing.T) *copyCluster {
	t.Helper()
	started := pool.Take(t)
	c := &copyCluster{&rolloutCluster{&templateCluster{&userCluster{ControlPlane: started, users: map[string]client.Client{}}}, map[string]string{}}}
	c.admin = c.client(t, "an-admin", "system:masters")
	c.create(t, untypedOf("v1", "Namespace", "", "shop"))
	const all = "get,create,update,patch,delete"
	c.role(t, "shop", "copies", rule(all, "snapshot.kubevirt.io", "virtualmachinerestores,virtualmachinesnapshotcontents"), rule(all, "clone.kubevirt.io", "virtualmachineclones"))
	for user, name := range map[string]string{
		"writer": "writer", "other": "other", "controller": "system:serviceaccount:kubevirt:kubevirt-controller", "imposter": "system:serviceaccount:elsewhere:kubevirt-controller",
	} {
		c.users[user] = c.client(t, name)
		c.bind(t, "shop", "copies", name)
		c.records[user] = c.record(t, c.users[user])
	}
	for i, name := range []string{quotedName, "scoped"} {
		c.create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("impersonated-%d", i)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "copies"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})
	}
	c.unusual(t)
	return c
}

// copyResources are the kinds of the cases, each with the field that the cases write.
var copyResources = map[string]struct {
	group, kind string
	spec        func(value string) map[string]any
}{
	"": {"snapshot.kubevirt.io", "VirtualMachineRestore", func(value string) map[string]any {
		return map[string]any{"target": map[string]any{"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}, "virtualMachineSnapshotName": value}
	}},
	"clone": {"clone.kubevirt.io", "VirtualMachineClone", func(value string) map[string]any {
		return map[string]any{"source": map[string]any{"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": value}}
	}},
	"content": {"snapshot.kubevirt.io", "VirtualMachineSnapshotContent", func(value string) map[string]any {
		return map[string]any{"source": map[string]any{"virtualMachine": map[string]any{"metadata": map[string]any{}, "spec": map[string]any{
			"runStrategy": "Halted", "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": value}}, "spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}},
		}}}}
	}},
}

func (c *copyCluster) object(each *admissionpolicies.CopyCase, i int, value, record string) *unstructured.Unstructured {
	of, version := copyResources[each.Kind], each.Version
	if version == "" {
		version = "v1beta1"
	}
	object := untypedOf(of.group+"/"+version, of.kind, "shop", fmt.Sprintf("case-%d", i))
	if value != "" {
		object.Object["spec"] = of.spec(value)
	}
	if record != "" {
		object.SetAnnotations(map[string]string{copies.AnnotationAuthor: record})
	}
	return object
}

func (c *copyCluster) recordOf(each *admissionpolicies.CopyCase) string {
	if each.Record == "self" {
		return c.records[each.User]
	}
	if each.Record == "kept" {
		return recordOfOthers
	}
	if record, known := c.records[each.Record]; known {
		return record
	}
	self := strings.TrimPrefix(c.records[each.User], "{")
	if strings.HasPrefix(each.Record, "SELF") {
		return strings.Replace(each.Record, "SELF", "{"+strings.TrimSuffix(self, "}"), 1)
	}
	return strings.Replace(each.Record, "SELF", self, 1)
}

// send sends the request of a case, as a dry run.
func (c *copyCluster) send(t *testing.T, each *admissionpolicies.CopyCase, i int) error {
	t.Helper()
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	if each.Old == "" {
		return user.Create(t.Context(), c.object(each, i, each.New, c.recordOf(each)), client.DryRunAll)
	}
	object := c.object(each, i, each.New, "")
	if each.Delete {
		return user.Delete(t.Context(), object, client.DryRunAll)
	}
	annotations := map[string]any{copies.AnnotationAuthor: nil}
	if record := c.recordOf(each); record != "" {
		annotations[copies.AnnotationAuthor] = record
	}
	change := map[string]any{"metadata": map[string]any{"labels": map[string]string{"changed": "yes"}, "annotations": annotations}}
	if each.New != "" {
		change["spec"] = object.Object["spec"]
	}
	data, err := json.Marshal(change)
	must(t, err)
	return user.Patch(t.Context(), c.object(each, i, "", ""), client.RawPatch(types.MergePatchType, data), client.DryRunAll)
}

// longestAuthor: the guard stays within its cost limit for a user with as many groups as a record can have.
func (c *copyCluster) longestAuthor(t *testing.T) {
	groups := []string{"system:authenticated"}
	for i := range 200 {
		groups = append(groups, fmt.Sprintf("%03d-%s", i, strings.Repeat(`"`, 30)))
	}
	c.users["large"] = c.as(t, rest.ImpersonationConfig{UserName: "writer", Groups: groups, Extra: map[string][]string{"a": {strings.Repeat("x", 500)}}})
	c.records["large"] = c.record(t, c.users["large"])
	must(t, c.send(t, &admissionpolicies.CopyCase{User: "large", Record: "self", New: "a"}, 9000))
}
