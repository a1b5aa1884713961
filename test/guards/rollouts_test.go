package guards

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// recordOfOthers is the record of the user who wrote the old rollouts of cases.
const recordOfOthers = `{"username":"author","groups":["system:masters"]}`

// TestRollouts sends the requests of all cases, as users with RBAC permissions.
func TestRollouts(t *testing.T) {
	cases, err := admissionpolicies.RolloutCases()
	must(t, err)
	c := newRolloutCluster(t)
	for i := range cases {
		if cases[i].Old != nil {
			c.create(t, c.rollout(t, &cases[i], i, cases[i].Old, recordOfOthers))
		}
	}
	c.guard(t)
	for i := range cases {
		t.Run(cases[i].Name, func(t *testing.T) {
			guard, denied := admissionpolicies.Rollouts, cases[i].Denied
			if cases[i].Status {
				guard = admissionpolicies.RolloutStatus
			}
			expectTemplate(t, c.send(t, &cases[i], i), guard, denied)
		})
	}
	for _, guard := range []string{admissionpolicies.Rollouts, admissionpolicies.RolloutStatus} {
		c.typeChecks(t, guard)
	}
	t.Run("the longest record", c.longest)
}

// rolloutCluster has the definitions of Virtward, and the users of the cases.
type rolloutCluster struct {
	*templateCluster

	records map[string]string
}

func newRolloutCluster(t *testing.T) *rolloutCluster {
	t.Helper()
	started := pool.Take(t)
	c := &rolloutCluster{templateCluster: &templateCluster{&userCluster{ControlPlane: started, users: map[string]client.Client{}}}, records: map[string]string{}}
	c.admin = c.client(t, "an-admin", "system:masters")
	for name, labels := range map[string]map[string]string{"shop": nil, "approved": {v1beta1.ApprovedOnlyLabel: "true"}, "elsewhere": nil} {
		namespace := untypedOf("v1", "Namespace", "", name)
		namespace.SetLabels(labels)
		c.create(t, namespace)
	}
	own := rule("get,list,create,update,patch,delete", v1alpha1.GroupVersion.Group, "virtualmachinerollouts,virtualmachinerollouts/status")
	patch, migrate := rule("patch", "kubevirt.io", "virtualmachines"), rule("create", "kubevirt.io", "virtualmachineinstancemigrations")
	restart := rule("update", "subresources.kubevirt.io", "virtualmachines/restart")
	bypass := rule(admissionpolicies.VerbBypassApproval, "template.kubevirt.io", "virtualmachinetemplates")
	everything := []rbacv1.PolicyRule{own, patch, migrate, restart}
	for user, rights := range map[string]struct {
		name  string
		rules []rbacv1.PolicyRule
	}{
		"patcher":     {"patcher", []rbacv1.PolicyRule{own, patch}},
		"migrator":    {"migrator", []rbacv1.PolicyRule{own, patch, migrate}},
		"restarter":   {"restarter", []rbacv1.PolicyRule{own, patch, restart}},
		"operator":    {"operator", everything},
		"bypasser":    {"bypasser", append([]rbacv1.PolicyRule{bypass}, everything...)},
		"bystander":   {"bystander", []rbacv1.PolicyRule{own}},
		"one-machine": {"one-machine", []rbacv1.PolicyRule{own, rule("patch", "kubevirt.io", "virtualmachines", "db"), migrate, restart}},
		"elsewhere":   {"elsewhere", []rbacv1.PolicyRule{own}},
		"controller":  {"system:serviceaccount:virtward-system:virtward-rollouts", everything},
		"imposter":    {"system:serviceaccount:elsewhere:virtward-rollouts", everything},
	} {
		c.users[user] = c.client(t, rights.name)
		for _, namespace := range []string{"shop", "approved"} {
			c.role(t, namespace, user, rights.rules...)
			c.bind(t, namespace, user, rights.name)
		}
		c.records[user] = c.record(t, c.users[user])
	}
	c.role(t, "elsewhere", "operator", everything...)
	c.bind(t, "elsewhere", "operator", "elsewhere")
	c.impersonated(t)
	return c
}

// quotedName is the name of a user that contains JSON.
const quotedName = `o"perator\","groups":["system:masters"],"x":"<é>&`

// impersonated adds users with unusual names, and with extra values.
func (c *rolloutCluster) impersonated(t *testing.T) {
	for _, name := range []string{quotedName, "scoped"} {
		for _, namespace := range []string{"shop", "approved"} {
			c.create(t, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("impersonated-%d", len(name))},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
			})
		}
	}
	c.unusual(t)
}

// unusual adds the clients and the records of these users.
func (c *rolloutCluster) unusual(t *testing.T) {
	t.Helper()
	extra := map[string][]string{"example.org/scopes": {"vms:patch", `a"b\c`}, "other": {}, "zone": {"1"}}
	c.users["quoted"] = c.as(t, rest.ImpersonationConfig{UserName: quotedName, UID: `u"1`, Groups: []string{`g"],"extra":{"a`, "system:authenticated"}})
	c.users["scoped"] = c.as(t, rest.ImpersonationConfig{UserName: "scoped", Groups: []string{"system:authenticated"}, Extra: extra})
	for _, user := range []string{"quoted", "scoped"} {
		c.records[user] = c.record(t, c.users[user])
	}
	c.records["scoped-otherwise"] = strings.Replace(c.records["scoped"], "vms:patch", "vms:other", 1)
	c.records["scoped-more"] = strings.Replace(c.records["scoped"], `"zone":["1"]`, `"zone":["1"],"more":["1"]`, 1)
	for _, forged := range []string{"scoped-otherwise", "scoped-more"} {
		if c.records[forged] == c.records["scoped"] {
			t.Fatalf("%s is no other record: %s", forged, c.records[forged])
		}
	}
}

func (c *rolloutCluster) as(t *testing.T, user rest.ImpersonationConfig) client.Client {
	t.Helper()
	config := rest.CopyConfig(c.Config())
	config.Impersonate = user
	made, err := client.New(config, client.Options{})
	must(t, err)
	return made
}

// record is what Virtward's webhook records of a user: what the API server knows.
func (c *rolloutCluster) record(t *testing.T, user client.Client) string {
	t.Helper()
	review := &authenticationv1.SelfSubjectReview{}
	must(t, user.Create(t.Context(), review))
	text, err := v1alpha1.RequesterFrom(review.Status.UserInfo).String()
	must(t, err)
	return text
}

func (c *rolloutCluster) recordOf(each *admissionpolicies.RolloutCase) string {
	if each.Requester == "self" {
		return c.records[each.User]
	}
	if each.Requester == "kept" {
		return recordOfOthers
	}
	if record, known := c.records[each.Requester]; known {
		return record
	}
	return strings.Replace(each.Requester, "SELF", strings.TrimSuffix(c.records[each.User], "}"), 1)
}

func (c *rolloutCluster) rollout(t *testing.T, each *admissionpolicies.RolloutCase, i int, spec map[string]any, record string) *unstructured.Unstructured {
	t.Helper()
	namespace := each.Namespace
	if namespace == "" {
		namespace = "shop"
	}
	object := untypedOf(v1alpha1.GroupVersion.String(), v1alpha1.Kind, namespace, fmt.Sprintf("case-%d", i))
	data, err := json.Marshal(spec)
	must(t, err)
	var copied map[string]any
	must(t, json.Unmarshal(data, &copied))
	object.Object["spec"] = copied
	if record != "" {
		object.SetAnnotations(map[string]string{v1alpha1.AnnotationRequester: record})
	}
	return object
}

// send sends the request of a case, as a dry run.
func (c *rolloutCluster) send(t *testing.T, each *admissionpolicies.RolloutCase, i int) error {
	t.Helper()
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	if each.Old == nil {
		return user.Create(t.Context(), c.rollout(t, each, i, each.New, c.recordOf(each)), client.DryRunAll)
	}
	object := c.rollout(t, each, i, each.New, "")
	switch {
	case each.Delete:
		return user.Delete(t.Context(), object, client.DryRunAll)
	case each.Status:
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Complete"}}`))
		return user.Status().Patch(t.Context(), object, patch)
	}
	change := map[string]any{"metadata": map[string]any{"labels": map[string]string{"changed": "yes"}, "annotations": map[string]any{v1alpha1.AnnotationRequester: nil}}}
	if record := c.recordOf(each); record != "" {
		change["metadata"].(map[string]any)["annotations"] = map[string]any{v1alpha1.AnnotationRequester: record}
	}
	if each.New != nil {
		change["spec"] = each.New
	}
	data, err := json.Marshal(change)
	must(t, err)
	return user.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, data), client.DryRunAll)
}

// longest: the guard stays within its cost limit for a user with as many groups as a record can have.
func (c *rolloutCluster) longest(t *testing.T) {
	groups := []string{"system:authenticated"}
	for i := range 200 {
		groups = append(groups, fmt.Sprintf("%03d-%s", i, strings.Repeat(`"`, 30)))
	}
	c.users["large"] = c.as(t, rest.ImpersonationConfig{UserName: "operator", Groups: groups, Extra: map[string][]string{"a": {strings.Repeat("x", 500)}}})
	c.records["large"] = c.record(t, c.users["large"])
	must(t, c.send(t, &admissionpolicies.RolloutCase{User: "large", Requester: "self", New: map[string]any{"selector": map[string]any{}}}, 9000))
}
