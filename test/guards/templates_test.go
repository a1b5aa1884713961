package guards

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// templateTables are the tables of cases of the guards of VM templates, and of the one of exempt namespaces, which has the same users.
var templateTables = []string{
	"template-approved-only", "template-capture", "template-namespaces", "template-provenance", "template-request-labels", "template-status",
	"golden-image-templates", "template-cluster-kinds", "exempt-namespaces",
	"template-export", "template-export-labels", "template-export-objects", "template-export-pods", "template-export-servers", "template-export-status",
	"template-import", "template-import-labels", "template-import-pods", "template-import-servers", "template-import-status",
}

// virtAPI is the account of KubeVirt's API server.
const virtAPI = "system:serviceaccount:kubevirt:kubevirt-apiserver"

// TestTemplateGuards sends the requests of all tables, with all guards active.
func TestTemplateGuards(t *testing.T) {
	c := newTemplateCluster(t)
	tables := map[string][]admissionpolicies.TemplateCase{}
	for _, table := range templateTables {
		cases, err := admissionpolicies.TemplateCases(table)
		must(t, err)
		for i := range cases {
			c.prepare(t, &cases[i], fmt.Sprintf("%s-%d", table, i))
		}
		tables[table] = cases
	}
	observed, err := admissionpolicies.TemplateCases("template-status-observe")
	must(t, err)
	for i := range observed {
		c.prepare(t, &observed[i], fmt.Sprintf("observed-%d", i))
	}
	large, pods := c.largeServers(t), c.resizable(t)
	c.guard(t)
	for _, table := range templateTables {
		t.Run(table, func(t *testing.T) {
			for _, each := range tables[table] {
				t.Run(each.Name, func(t *testing.T) {
					err := c.send(t, &each)
					if err != nil && each.Or != "" && strings.HasSuffix(err.Error(), " denied request: "+each.Or) {
						return
					}
					expectTemplate(t, err, "virtward-"+table, each.Denied)
				})
			}
			c.typeChecks(t, "virtward-"+table)
		})
	}
	t.Run("the largest objects", c.largest)
	t.Run("the largest servers", func(t *testing.T) { c.largestServers(t, large) })
	t.Run("resized", func(t *testing.T) { c.resized(t, pods) })
	t.Run("verified", c.verified)
	t.Run("template-status-observe", func(t *testing.T) {
		c.observe(t)
		for _, each := range observed {
			t.Run(each.Name, func(t *testing.T) { expectTemplate(t, c.send(t, &each), admissionpolicies.TemplateStatus, each.Denied) })
		}
		c.typeChecks(t, admissionpolicies.TemplateStatus)
	})
}

// observe replaces the guard of statuses by that of a cluster in which another component serves templates.
func (c *templateCluster) observe(t *testing.T) {
	t.Helper()
	objects, err := admissionpolicies.ObservingObjects()
	must(t, err)
	for _, object := range objects {
		if object.GetKind() != "ValidatingAdmissionPolicy" || object.GetName() != admissionpolicies.TemplateStatus {
			continue
		}
		present := untypedOf(object.GetAPIVersion(), object.GetKind(), "", object.GetName())
		must(t, c.admin.Get(t.Context(), client.ObjectKeyFromObject(present), present))
		present.Object["spec"] = object.Object["spec"]
		must(t, c.admin.Update(t.Context(), present))
	}
	probe := untypedOf("template.kubevirt.io/v1beta1", "VirtualMachineTemplate", "elsewhere", "probe")
	probe.Object["spec"] = map[string]any{"virtualMachine": map[string]any{"spec": map[string]any{}}}
	c.create(t, probe)
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Tested","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	eventually(t, "the guard to observe", func() bool {
		return c.users["owner"].Status().Patch(t.Context(), probe.DeepCopy(), client.RawPatch(types.MergePatchType, ready)) == nil
	})
}

// resizable creates pods with the names of those of servers.
func (c *templateCluster) resizable(t *testing.T) (pods []*unstructured.Unstructured) {
	t.Helper()
	c.users["resizer"] = c.client(t, "resizer")
	c.role(t, "target", "resizer", rule("get,patch", "", "pods,pods/resize"))
	c.bind(t, "target", "resizer", "resizer")
	for _, name := range []string{"virtward-import-resized", "virtward-ova-resized"} {
		pod := untypedOf("v1", "Pod", "target", name)
		pod.SetAnnotations(map[string]string{"template.virtward.io/import-server": "a", "template.virtward.io/export-server": "a"})
		pod.Object["spec"] = map[string]any{"automountServiceAccountToken": false, "containers": []any{map[string]any{
			"name": "a", "image": "example.com/a", "resources": map[string]any{"requests": map[string]any{"cpu": "1"}},
		}}}
		c.create(t, pod)
		pods = append(pods, pod)
	}
	return pods
}

// resized: a change of the resources of a pod changes neither its image nor its annotations and labels, so the guards of pods need not
// match it.
func (c *templateCluster) resized(t *testing.T, pods []*unstructured.Unstructured) {
	for _, pod := range pods {
		patch := []byte(`{"metadata":{"labels":{"template.virtward.io/import-uid":"b","template.virtward.io/export-uid":"b"},` +
			`"annotations":{"template.virtward.io/import-server":"b","template.virtward.io/export-server":"b"}},` +
			`"spec":{"containers":[{"name":"a","image":"example.com/b","resources":{"requests":{"cpu":"2"}}}]}}`)
		got := pod.DeepCopy()
		must(t, c.users["resizer"].SubResource("resize").Patch(t.Context(), got, client.RawPatch(types.MergePatchType, patch)))
		containers, _, err := unstructured.NestedSlice(got.Object, "spec", "containers")
		must(t, err)
		container, _ := containers[0].(map[string]any)
		if diff := cmp.Diff(pod.GetAnnotations(), got.GetAnnotations()); diff != "" || got.GetLabels() != nil || container["image"] != "example.com/a" {
			t.Errorf("%s has the labels %v, and %v; annotations (-want +got):\n%s", pod.GetName(), got.GetLabels(), container, diff)
		}
		if cpu, _, err := unstructured.NestedString(container, "resources", "requests", "cpu"); cpu != "2" || err != nil {
			t.Errorf("%s is not resized: %v", pod.GetName(), container)
		}
	}
}

// verified: where an admin requires manifests of all sources, claims are among them.
func (c *templateCluster) verified(t *testing.T) {
	policy := untypedOf("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", admissionpolicies.TemplateImport)
	must(t, c.admin.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	variables, _, err := unstructured.NestedSlice(policy.Object, "spec", "variables")
	must(t, err)
	for _, v := range variables {
		if of, is := v.(map[string]any); is && of["name"] == "verified" {
			of["expression"] = "['*']"
		}
	}
	must(t, unstructured.SetNestedSlice(policy.Object, variables, "spec", "variables"))
	must(t, c.admin.Update(t.Context(), policy))
	send := func(verify string) error {
		object := untypedOf("template.kubevirt.io/v1beta1", "VirtualMachineTemplateImport", "target", "verified")
		object.Object["spec"] = map[string]any{"source": map[string]any{"pvc": map[string]any{"name": "upload"}}, "verify": verify}
		return c.users["import-reader"].Create(t.Context(), object, client.DryRunAll)
	}
	const denied = "template-import-verify: spec.verify: set Require: an admin requires a manifest of appliances of all sources, also of claims"
	eventually(t, "the guard to require manifests", func() bool {
		err := send("IfPresent")
		return err != nil && strings.Contains(err.Error(), denied)
	})
	must(t, send("Require"))
}

// templateCluster has the definitions of KubeVirt, CDI and templates, and the users of the cases.
type templateCluster struct{ *userCluster }

func newTemplateCluster(t *testing.T) *templateCluster {
	t.Helper()
	c := &templateCluster{&userCluster{ControlPlane: pool.Take(t), users: map[string]client.Client{}}}
	c.admin = c.client(t, "an-admin", "system:masters")
	for name, labels := range map[string]map[string]string{
		"approved": {v1beta1.ApprovedOnlyLabel: "true"}, "former": {v1beta1.ApprovedOnlyLabel: "false"}, "shop": nil, "source": nil, "target": nil, "images": nil, "elsewhere": nil,
		"permitted": {v1beta1.ApprovedOnlyLabel: "true"},
	} {
		namespace := untypedOf("v1", "Namespace", "", name)
		namespace.SetLabels(labels)
		c.create(t, namespace)
	}
	c.grantOwners(t)
	c.grantCaptures(t)
	c.grantImports(t)
	c.grantExports(t)
	c.grantServers(t)
	return c
}

func untypedOf(version, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: strings.Split(resources, ","), ResourceNames: names}
}

// grantOwners creates the users with every right that RBAC has for the objects of the cases. Only the guards deny.
func (c *templateCluster) grantOwners(t *testing.T) {
	const all = "get,list,create,update,patch,delete"
	rules := []rbacv1.PolicyRule{rule(all, "", "namespaces,namespaces/status,namespaces/finalize"), rule(all, "apps", "controllerrevisions")}
	for _, group := range []string{"kubevirt.io", "pool.kubevirt.io", "clone.kubevirt.io", "snapshot.kubevirt.io", "instancetype.kubevirt.io", "template.kubevirt.io", "cdi.kubevirt.io", "backup.kubevirt.io", "export.kubevirt.io", "plugin.kubevirt.io"} {
		rules = append(rules, rule(all, group, "*"))
	}
	c.role(t, "", "owner", rules...)
	for user, name := range map[string]string{
		"owner": "owner", "bypasser": "bypasser", "bypasser-elsewhere": "bypasser-elsewhere", "changer": "changer", "exempter": "exempter",
		"server": "system:serviceaccount:virtward-system:virtward-apiserver", "other-server": "system:serviceaccount:elsewhere:virtward-apiserver",
		"templates": "system:serviceaccount:virtward-system:virtward-templates", "virt-controller": "system:serviceaccount:kubevirt:kubevirt-controller",
		"other-virt-controller": "system:serviceaccount:elsewhere:kubevirt-controller", "statefulsets": "system:serviceaccount:kube-system:statefulset-controller",
		"images": "system:serviceaccount:virtward-system:virtward-images", "other-images": "system:serviceaccount:elsewhere:virtward-images",
		"rollouts": "system:serviceaccount:virtward-system:virtward-rollouts", "virt-api": virtAPI, "virt-handler": "system:serviceaccount:kubevirt:kubevirt-handler",
		"virt-operator": "system:serviceaccount:kubevirt:kubevirt-operator", "other-virt-operator": "system:serviceaccount:elsewhere:kubevirt-operator",
		"bypasser-everywhere": "bypasser-everywhere",
	} {
		c.users[user] = c.client(t, name)
		c.bind(t, "", "owner", name)
	}
	bypass := rule(admissionpolicies.VerbBypassApproval, "template.kubevirt.io", "virtualmachinetemplates")
	c.role(t, "approved", "bypass", bypass)
	c.bind(t, "approved", "bypass", "bypasser")
	c.role(t, "elsewhere", "bypass", bypass)
	c.bind(t, "elsewhere", "bypass", "bypasser-elsewhere")
	c.role(t, "permitted", "bypass", bypass)
	c.bind(t, "permitted", "bypass", virtAPI)
	c.role(t, "", "bypass", bypass)
	c.bind(t, "", "bypass", "bypasser-everywhere")
	c.role(t, "", "changer", rule(admissionpolicies.VerbChangeApprovedOnly, "", "namespaces", "changeable", "changeable-2"))
	c.bind(t, "", "changer", "changer")
	c.role(t, "", "exempter", rule(admissionpolicies.VerbExempt, "", "namespaces", "exemptible", "exemptible-2"))
	c.bind(t, "", "exempter", "exempter")
}

// grantCaptures creates the users of captures, each with some of the rights that a capture needs.
func (c *templateCluster) grantCaptures(t *testing.T) {
	request := rule("create,get,patch", "template.kubevirt.io", "virtualmachinetemplaterequests")
	volumes, made := rule("create", "cdi.kubevirt.io", "datavolumes"), rule("create", "template.kubevirt.io", "virtualmachinetemplates")
	read, snapshot := rule("get", "kubevirt.io", "virtualmachines"), rule("create", "snapshot.kubevirt.io", "virtualmachinesnapshots")
	for user, rights := range map[string]struct{ target, source []rbacv1.PolicyRule }{
		"author":              {[]rbacv1.PolicyRule{request, volumes, made}, []rbacv1.PolicyRule{read, snapshot}},
		"delegate":            {[]rbacv1.PolicyRule{request, volumes, made}, []rbacv1.PolicyRule{rule("create", "template.kubevirt.io", "virtualmachinetemplaterequests/source", "db")}},
		"source-user":         {[]rbacv1.PolicyRule{request, volumes, made}, []rbacv1.PolicyRule{rule("create", "template.kubevirt.io", "virtualmachinetemplaterequests/source")}},
		"snapshotter":         {[]rbacv1.PolicyRule{request, volumes, made}, []rbacv1.PolicyRule{snapshot}},
		"reader":              {[]rbacv1.PolicyRule{request, volumes, made}, []rbacv1.PolicyRule{read}},
		"reader-of-web":       {[]rbacv1.PolicyRule{request, volumes, made}, []rbacv1.PolicyRule{rule("get", "kubevirt.io", "virtualmachines", "web"), snapshot}},
		"without-datavolumes": {[]rbacv1.PolicyRule{request, made}, []rbacv1.PolicyRule{read, snapshot}},
		"without-templates":   {[]rbacv1.PolicyRule{request, volumes}, []rbacv1.PolicyRule{read, snapshot}},
		"stranger":            {[]rbacv1.PolicyRule{request}, nil},
	} {
		c.users[user] = c.client(t, user)
		c.role(t, "target", user, rights.target...)
		c.bind(t, "target", user, user)
		if rights.source != nil {
			c.role(t, "source", user, rights.source...)
			c.bind(t, "source", user, user)
		}
	}
	const some = "get,create,patch"
	c.role(t, "shop", "capturer", rule(some, "cdi.kubevirt.io", "datavolumes"), rule(some, "snapshot.kubevirt.io", "virtualmachinesnapshots"),
		rule(some, "template.kubevirt.io", "virtualmachinetemplates,virtualmachinetemplaterequests"))
	for user, name := range map[string]string{"capturer": "capturer", "other-templates": "system:serviceaccount:elsewhere:virtward-templates"} {
		c.users[user] = c.client(t, name)
		c.bind(t, "shop", "capturer", name)
	}
}

// grantImports creates the users of imports, each with some of the rights that an import needs.
func (c *templateCluster) grantImports(t *testing.T) {
	const some = "create,get,patch"
	request, status := rule(some, "template.kubevirt.io", "virtualmachinetemplateimports"), rule("patch,update", "template.kubevirt.io", "virtualmachinetemplateimports/status")
	volumes, made := rule(some, "cdi.kubevirt.io", "datavolumes"), rule(some, "template.kubevirt.io", "virtualmachinetemplates")
	pods := rule(some, "", "pods,pods/ephemeralcontainers,pods/status,pods/binding,bindings,services")
	all := []rbacv1.PolicyRule{request, volumes, made, pods, status}
	for user, u := range map[string]struct {
		name  string
		rules []rbacv1.PolicyRule
	}{
		"importer":                   {"importer", []rbacv1.PolicyRule{request, volumes, made, pods}},
		"import-reader":              {"import-reader", []rbacv1.PolicyRule{request, volumes, made, rule("get", "", "secrets", "login"), rule("get", "", "configmaps", "authority"), rule("get", "", "persistentvolumeclaims", "upload")}},
		"import-without-datavolumes": {"import-without-datavolumes", []rbacv1.PolicyRule{request, made}},
		"import-without-templates":   {"import-without-templates", []rbacv1.PolicyRule{request, volumes}},
		"status-writer":              {"status-writer", all},
		"imports":                    {"system:serviceaccount:virtward-system:virtward-templateimports", all},
		"other-imports":              {"system:serviceaccount:elsewhere:virtward-templateimports", []rbacv1.PolicyRule{request, volumes, made, pods}},
	} {
		c.users[user] = c.client(t, u.name)
		c.role(t, "target", user, u.rules...)
		c.bind(t, "target", user, u.name)
	}
}

// grantExports creates the users of exports, each with some of the rights that an export needs. Those of target can clone from images too.
func (c *templateCluster) grantExports(t *testing.T) {
	const some = "create,get,patch"
	request, status := rule(some, "template.kubevirt.io", "virtualmachinetemplateexports"), rule("patch,update", "template.kubevirt.io", "virtualmachinetemplateexports/status")
	read, volumes, clone := rule("get", "template.kubevirt.io", "virtualmachinetemplates", "mill"), rule(some, "cdi.kubevirt.io", "datavolumes"), rule("create", "cdi.kubevirt.io", "datavolumes/source")
	pods := rule(some, "", "pods,pods/ephemeralcontainers,pods/status,pods/binding,bindings,services")
	all := []rbacv1.PolicyRule{request, read, volumes, clone, pods, status, rule(some, "networking.k8s.io", "ingresses")}
	for user, u := range map[string]struct {
		name   string
		rules  []rbacv1.PolicyRule
		images bool
	}{
		"exporter":                   {"exporter", []rbacv1.PolicyRule{request, read, volumes, clone, pods}, true},
		"export-of-target":           {"export-of-target", []rbacv1.PolicyRule{request, read, volumes, clone}, false},
		"export-without-datavolumes": {"export-without-datavolumes", []rbacv1.PolicyRule{request, read, clone}, true},
		"export-without-template":    {"export-without-template", []rbacv1.PolicyRule{request, volumes, clone}, true},
		"export-without-clones":      {"export-without-clones", []rbacv1.PolicyRule{request, read, volumes}, true},
		"export-status-writer":       {"export-status-writer", all, true},
		"exports":                    {"system:serviceaccount:virtward-system:virtward-templateexports", all, false},
		"other-exports":              {"system:serviceaccount:elsewhere:virtward-templateexports", []rbacv1.PolicyRule{request, volumes, pods, status}, false},
	} {
		c.users[user] = c.client(t, u.name)
		c.role(t, "target", user, u.rules...)
		c.bind(t, "target", user, u.name)
		if u.images {
			c.role(t, "images", user, clone)
			c.bind(t, "images", user, u.name)
		}
	}
}

// grantServers creates users with every right for the objects that lead clients to the pods of imports and exports.
func (c *templateCluster) grantServers(t *testing.T) {
	const all = "get,create,update,patch,delete"
	rules := []rbacv1.PolicyRule{
		rule(all, "", "services,services/status,secrets,configmaps,endpoints"), rule(all, "discovery.k8s.io", "endpointslices"), rule(all, "networking.k8s.io", "ingresses,ingresses/status"),
	}
	c.role(t, "target", "servers", rules...)
	c.role(t, "kube-system", "servers", append(rules, rule(all, "", "pods"))...)
	for user, u := range map[string]struct {
		name   string
		groups []string
	}{
		"server-user":                {"server-user", nil},
		"endpoints-controller":       {"system:serviceaccount:kube-system:endpointslice-controller", []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}},
		"other-endpoints-controller": {"system:serviceaccount:elsewhere:endpointslice-controller", []string{"system:serviceaccounts", "system:serviceaccounts:elsewhere"}},
		"controller-manager":         {"system:kube-controller-manager", nil},
		"server-admin":               {"an-admin", []string{"system:masters"}},
	} {
		c.users[user] = c.client(t, u.name, u.groups...)
		c.bind(t, "target", "servers", u.name)
		c.bind(t, "kube-system", "servers", u.name)
	}
	const replicasets = "system:serviceaccount:kube-system:replicaset-controller"
	c.users["replicasets"] = c.client(t, replicasets, "system:serviceaccounts", "system:serviceaccounts:kube-system")
	c.role(t, "target", "replicasets", rule(all, "", "pods"), rule(all, "apps", "deployments"))
	c.bind(t, "target", "replicasets", replicasets)
}

// role creates a Role, or a ClusterRole without a namespace.
func (c *templateCluster) role(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		c.create(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		return
	}
	c.create(t, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
}

// bind binds a role of that name to a user.
func (c *templateCluster) bind(t *testing.T, namespace, role, user string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: role + "-" + strings.ReplaceAll(user, ":", "-")}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace == "" {
		c.create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects})
		return
	}
	c.create(t, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: subjects})
}

// prepare names the objects of a case, and creates the old one with its status.
func (c *templateCluster) prepare(t *testing.T, each *admissionpolicies.TemplateCase, name string) {
	t.Helper()
	if each.Old == nil {
		each.New = named(each.New, name)
		return
	}
	each.Old = named(each.Old, name)
	old := &unstructured.Unstructured{Object: each.Old}
	status := old.Object["status"]
	created := old.DeepCopy()
	c.create(t, created)
	if status == nil {
		return
	}
	data, err := json.Marshal(map[string]any{"status": status})
	must(t, err)
	must(t, c.admin.Status().Patch(t.Context(), created, client.RawPatch(types.MergePatchType, data)))
}

// named is a copy of an object, with a name unless it has one.
func named(object map[string]any, name string) map[string]any {
	named := &unstructured.Unstructured{Object: maps.Clone(object)}
	named = named.DeepCopy()
	if named.GetName() == "" {
		named.SetName(name)
	}
	return named.Object
}

// send sends the request of a case as its user.
func (c *templateCluster) send(t *testing.T, each *admissionpolicies.TemplateCase) error {
	t.Helper()
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	if each.Old == nil {
		return user.Create(t.Context(), (&unstructured.Unstructured{Object: each.New}).DeepCopy(), client.DryRunAll)
	}
	old := &unstructured.Unstructured{Object: each.Old}
	object := untypedOf(old.GetAPIVersion(), old.GetKind(), old.GetNamespace(), old.GetName())
	if each.New == nil {
		return user.Delete(t.Context(), object, client.DryRunAll)
	}
	data, err := json.Marshal(each.New)
	must(t, err)
	patch := client.RawPatch(types.MergePatchType, data)
	switch each.SubResource {
	case "":
		return user.Patch(t.Context(), object, patch, client.DryRunAll)
	case "binding": // it can only be created
		return user.SubResource("binding").Create(t.Context(), object, &unstructured.Unstructured{Object: each.New}, &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: []string{metav1.DryRunAll}}})
	case "finalize": // it has no patch
		must(t, c.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		labels := object.GetLabels()
		delete(labels, v1beta1.ApprovedOnlyLabel)
		object.SetLabels(labels)
		return user.SubResource("finalize").Update(t.Context(), object, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
	}
	return user.SubResource(each.SubResource).Patch(t.Context(), object, patch, &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
}

// expectTemplate compares an answer with the message of a guard.
func expectTemplate(t *testing.T, err error, guard, denied string) {
	t.Helper()
	want := fmt.Sprintf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: %[2]s", guard, denied)
	switch {
	case denied == "" && err != nil:
		t.Errorf("denied, but should be allowed: %v", err)
	case denied != "" && err == nil:
		t.Errorf("allowed, but should be denied: %s", denied)
	case denied != "" && !strings.HasSuffix(err.Error(), want):
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// largest changes virtual machines near the API server's limit: the guards stay within its cost limit.
func (c *templateCluster) largest(t *testing.T) {
	vm := untypedOf("kubevirt.io/v1", "VirtualMachine", "shop", "large")
	volumes, annotations := make([]any, 0, 250), map[string]string{}
	for i := range 250 {
		volumes = append(volumes, map[string]any{"name": fmt.Sprintf("v%d", i), "cloudInitNoCloud": map[string]any{"userData": strings.Repeat("x", 2000)}})
	}
	for i := range 900 {
		annotations[fmt.Sprintf("kubevirt.io/a%d", i)] = strings.Repeat("x", 200)
	}
	vm.SetAnnotations(annotations)
	vm.Object["spec"] = map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}, "volumes": volumes}}}
	c.create(t, vm)
	must(t, c.admin.Patch(t.Context(), untypedOf("v1", "Namespace", "", "shop"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1beta1.ApprovedOnlyLabel+`":"true"}}}`))))
	patch := func(text string) error {
		return c.users["owner"].Patch(t.Context(), untypedOf("kubevirt.io/v1", "VirtualMachine", "shop", "large"), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	eventually(t, "the namespace to be approved-only", func() bool { return patch(`{"spec":{"template":{"spec":{"hostname":"x"}}}}`) != nil })
	for text, denied := range map[string]string{
		`{"spec":{"runStrategy":"Always"}}`:                         "",
		`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"}}}`: "",
		`{"spec":{"template":{"spec":{"hostname":"x"}}}}`:           "approved-only: spec: in this namespace, only these fields can change: running, runStrategy; otherwise you need the verb bypass-approval on virtualmachinetemplates.template.kubevirt.io",
	} {
		expectTemplate(t, patch(text), admissionpolicies.TemplateApprovedOnly, denied)
	}
}

// largeServers creates objects with the names of those of servers, and others, near the API server's limit.
func (c *templateCluster) largeServers(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	text, annotations := strings.Repeat("x", 900<<10), map[string]string{}
	for i := range 1000 {
		annotations[fmt.Sprintf("a%d", i)] = strings.Repeat("x", 200)
	}
	rules := func(domain string) map[string]any {
		var rules []any
		for i := range 10_000 {
			rules = append(rules, map[string]any{"host": fmt.Sprintf("a-host-with-a-long-name-%d.%s", i, domain)})
		}
		return map[string]any{"rules": rules}
	}
	certified := func(domain string) map[string]any {
		var certificates []any
		for i := range 10_000 {
			certificates = append(certificates, map[string]any{"hosts": []any{fmt.Sprintf("a-host-with-a-long-name-%d.%s", i, domain)}})
		}
		return map[string]any{"tls": certificates, "rules": []any{map[string]any{"host": "apps.example.com"}}}
	}
	for _, prefix := range []string{"virtward-ova-", "virtward-import-", "other-"} {
		for name, object := range map[string]map[string]any{
			"Secret":    {"apiVersion": "v1", "kind": "Secret", "stringData": map[string]any{"plan.json": text}},
			"ConfigMap": {"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"tls.crt": text}},
			"Ingress":   {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": rules("exports.example.com")},
			"elsewhere": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": rules("apps.example.com")},
			"certified": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": certified("exports.example.com")},
		} {
			large := &unstructured.Unstructured{Object: object}
			large = large.DeepCopy()
			large.SetNamespace("target")
			large.SetName(prefix + "largest-" + strings.ToLower(name))
			large.SetAnnotations(annotations)
			c.create(t, large)
			all = append(all, large)
		}
	}
	return all
}

// largestServers changes them: the guards stay within the cost limit of the API server.
func (c *templateCluster) largestServers(t *testing.T, all []*unstructured.Unstructured) {
	for _, large := range all {
		t.Run(large.GetName(), func(t *testing.T) {
			changed := large.DeepCopy()
			must(t, c.users["server-user"].Patch(t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll))
			if !strings.HasPrefix(large.GetName(), "other-") {
				return
			}
			created := large.DeepCopy()
			created.SetName(large.GetName() + "-2")
			created.SetResourceVersion("")
			must(t, c.users["server-user"].Create(t.Context(), created, client.DryRunAll))
		})
	}
}
