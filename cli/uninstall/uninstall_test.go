package uninstall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	kupenstackv1alpha1 "github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

const system = "virtward-system"

// object is an object of a class: "Kind NAMESPACE/NAME", with what the plan needs of it.
func object(title string, change ...func(*Object)) Object {
	kind, name, _ := strings.Cut(title, " ")
	namespace, rest, namespaced := strings.Cut(name, "/")
	if !namespaced {
		namespace, rest = "", name
	}
	o := Object{Kind: kind, Namespace: namespace, Name: rest}
	for _, c := range change {
		c(&o)
	}
	return o
}

func ofHelm(o *Object) { o.release = Release{system, "virtward"} }
func kept(o *Object)   { ofHelm(o); o.helmKeeps = true }

// full is what a cluster has of an installation by Helm.
func full() map[class][]Object {
	return map[class][]Object{
		controllers:  {object("Deployment "+system+"/virtward-virtualimages", ofHelm)},
		finalized:    {object("VirtualImage shop/golden")},
		webhooks:     {object("ValidatingWebhookConfiguration validate.virtward.io", ofHelm), object("MutatingWebhookConfiguration mutate.virtward.io", ofHelm)},
		guards:       {object("ValidatingAdmissionPolicy virtward-template-approved-only", ofHelm)},
		parts:        {object("Service "+system+"/virtward-webhook", ofHelm)},
		reports:      {object("Report shop/virtward")},
		remains:      {object("Lease " + system + "/virtward-controller")},
		exports:      {object("ValidatingAdmissionPolicy virtward-policy-cap")},
		definitions:  {object("CustomResourceDefinition virtualimages.kupenstack.io", kept)},
		instances:    {object("VirtualImage shop/golden"), object("VirtualMachinePolicy library", ofHelm), object("VirtualMachinePolicy mine"), object("VirtualMachineRollout shop/larger")},
		approvalKeys: {object("Secret "+system+"/virtward-approval-keys", kept)},
		approvedOnly: {object("Namespace shop")},
		annotated:    {object("Namespace shop"), object("VirtualMachine shop/db")},
	}
}

func TestPlan(t *testing.T) {
	release := &Release{system, "virtward"}
	for name, c := range map[string]struct {
		change  func(*Inventory)
		choices Choices
		steps   []string
		left    []string
		needs   []string
	}{
		"Helm": {
			choices: Choices{OpenNamespaces: true},
			steps: []string{
				"helm uninstall virtward: Deployment 1, VirtualImage 1, ValidatingWebhookConfiguration 1, MutatingWebhookConfiguration 1, ValidatingAdmissionPolicy 1, Service 1, VirtualMachinePolicy 1",
				"delete Reports: Report 1", "delete Leases and certificates: Lease 1",
			},
			left: []string{"CustomResourceDefinition 1", "VirtualImage 1", "VirtualMachinePolicy 1", "VirtualMachineRollout 1", "Secret 1", "ValidatingAdmissionPolicy 1", "Namespace 1", "VirtualMachine 1", "Namespace 1"},
		},
		"without Helm": {
			change:  func(i *Inventory) { i.Release = nil },
			choices: Choices{OpenNamespaces: true},
			steps: []string{
				"stop the controllers: Deployment 1", "remove finalizers: VirtualImage 1", "delete the webhooks: ValidatingWebhookConfiguration 1, MutatingWebhookConfiguration 1",
				"delete the guards: ValidatingAdmissionPolicy 1", "delete the parts of the installation: Service 1", "delete Reports: Report 1", "delete Leases and certificates: Lease 1",
			},
			left: []string{"CustomResourceDefinition 1", "VirtualImage 1", "VirtualMachinePolicy 2", "VirtualMachineRollout 1", "Secret 1", "ValidatingAdmissionPolicy 1", "Namespace 1", "VirtualMachine 1", "Namespace 1"},
		},
		"everything": {
			choices: Choices{OpenNamespaces: true, DeleteDefinitions: true, DeleteExports: true},
			steps: []string{
				"helm uninstall virtward: Deployment 1, VirtualImage 1, ValidatingWebhookConfiguration 1, MutatingWebhookConfiguration 1, ValidatingAdmissionPolicy 1, Service 1, VirtualMachinePolicy 1",
				"delete Reports: Report 1", "delete Leases and certificates: Lease 1", "delete exported policies: ValidatingAdmissionPolicy 1",
				"delete the definitions, with all objects of their kinds: CustomResourceDefinition 1", "delete the keys of approvals: Secret 1",
			},
			left: []string{"Namespace 1", "VirtualMachine 1", "Namespace 1"},
		},
		"the record of Helm is left": {
			change: func(i *Inventory) { i.Objects = map[class][]Object{} },
			steps:  []string{"helm uninstall virtward: Release 1"},
			left:   []string{"Namespace 1"},
		},
		"namespaces are not open": {
			change: func(i *Inventory) {
				i.Objects = map[class][]Object{guards: i.Objects[guards], approvedOnly: i.Objects[approvedOnly]}
			},
			steps: []string{"helm uninstall virtward: ValidatingAdmissionPolicy 1"},
			left:  []string{"Namespace 1"},
			needs: []string{"--open-namespaces: afterwards, users who may create virtual machines can create any in 1 namespace that is approved-only now: shop"},
		},
		"namespaces are not known": {
			change: func(i *Inventory) {
				i.ReadNamespaces, i.Objects = false, map[class][]Object{guards: i.Objects[guards]}
			},
			steps: []string{"helm uninstall virtward: ValidatingAdmissionPolicy 1"},
			left:  []string{"Namespace 1"},
			needs: []string{"--open-namespaces: you may not list namespaces, so it is not known whether some are approved-only: afterwards, users who may create virtual machines can create any there"},
		},
		"nothing": {
			change: func(i *Inventory) { *i = Inventory{ReadNamespaces: true} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := &Inventory{Release: release, Namespace: system, Objects: full(), ReadNamespaces: true}
			if c.change != nil {
				c.change(i)
			}
			plan := PlanOf(i, c.choices)
			var steps, left, needs []string
			for _, s := range plan.Steps {
				steps = append(steps, s.Name+": "+counts(s.Groups))
			}
			for _, l := range plan.Left {
				left = append(left, counts([]Group{l.Group}))
			}
			for _, n := range plan.Needs {
				needs = append(needs, n.Flag+": "+n.Message)
			}
			if diff := cmp.Diff([][]string{c.steps, c.left, c.needs}, [][]string{steps, left, needs}); diff != "" {
				t.Errorf("steps, what is left, and needs (-want +got):\n%s", diff)
			}
		})
	}
}

func counts(all []Group) string {
	var words []string
	for _, g := range all {
		words = append(words, fmt.Sprint(g.Kind, " ", g.Count))
	}
	return strings.Join(words, ", ")
}

// TestReleaseNames: a name in an annotation that Helm would read as an option is not passed to it.
func TestReleaseNames(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		releases  []Release
		want      string
	}{
		"one":               {"", []Release{{system, "virtward"}, {system, "virtward"}}, ""},
		"two":               {"", []Release{{system, "virtward"}, {system, "other"}}, "more than one release of Helm, such as virtward-system/virtward and virtward-system/other"},
		"an option":         {"", []Release{{system, "--kube-token"}}, `name the release "--kube-token"`},
		"control sequences": {"", []Release{{"a\x1b[2J", "virtward"}}, `in the namespace "a\x1b[2J"`},
		"another namespace": {"lab", []Release{{system, "virtward"}}, "the release virtward-system/virtward is not in the namespace lab"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &Inventory{Namespace: c.namespace, Objects: map[class][]Object{}}
			for _, r := range c.releases {
				i.Objects[guards] = append(i.Objects[guards], Object{Name: "guard", release: r})
			}
			_, err := releaseOf(i)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// cluster is a fake API server of metadata.
type cluster struct {
	*metadatafake.FakeMetadataClient
	runner *Runner
	helms  []Release
	errOut bytes.Buffer
}

func labelled(kind, version, name string, change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	namespace, rest, namespaced := strings.Cut(name, "/")
	if !namespaced {
		namespace, rest = "", name
	}
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: rest, UID: types.UID(kind + name), Labels: map[string]string{"app.kubernetes.io/part-of": "virtward"}},
	}
	for _, c := range change {
		c(o)
	}
	return o
}

func labels(pairs ...string) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) {
		o.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			o.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func finalizers(names ...string) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) { o.Labels, o.Finalizers = nil, names }
}

func byHelm(o *metav1.PartialObjectMetadata) {
	o.Annotations = map[string]string{helmName: "virtward", helmNamespace: system}
}

func keeps(o *metav1.PartialObjectMetadata) {
	byHelm(o)
	o.Annotations[helmPolicy] = "keep"
}

// installation is one of everything, and objects that look similar and are of others. change is applied to those of the release.
func installation(change func(*metav1.PartialObjectMetadata)) []runtime.Object {
	admission, rbac, managed := "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1", []string{"app.kubernetes.io/managed-by", "virtward"}
	return []runtime.Object{
		labelled("ValidatingWebhookConfiguration", admission, "validate.virtward.io", change), labelled("MutatingWebhookConfiguration", admission, "mutate.virtward.io", change),
		labelled("ValidatingWebhookConfiguration", admission, "virt-api-validator", labels()),
		labelled("ValidatingAdmissionPolicyBinding", admission, "virtward-policies", change), labelled("ValidatingAdmissionPolicy", admission, "virtward-policies", change),
		labelled("ValidatingAdmissionPolicy", admission, "virtward-policy-cap", labels(managed...)), labelled("ValidatingAdmissionPolicy", admission, "of-others", labels(managed...)),
		labelled("APIService", "apiregistration.k8s.io/v1", "v1beta1.subresources.template.kubevirt.io", change),
		labelled("ClusterRole", rbac, "virtward", change), labelled("ClusterRoleBinding", rbac, "virtward", change),
		labelled("CustomResourceDefinition", "apiextensions.k8s.io/v1", "virtualimages.kupenstack.io", keeps),
		labelled("Deployment", "apps/v1", system+"/virtward-virtualimages", change), labelled("Deployment", "apps/v1", system+"/virtward-webhook", change),
		labelled("Secret", "v1", system+"/virtward-approval-keys", keeps), labelled("Secret", "v1", system+"/virtward-webhook-cert", labels()),
		labelled("Secret", "v1", "shop/virtward-webhook-cert"), // a user's
		labelled("Lease", "coordination.k8s.io/v1", system+"/virtward-controller", labels()), labelled("Lease", "coordination.k8s.io/v1", system+"/of-others", labels()),
		labelled("RoleBinding", rbac, "kube-system/virtward-apiserver", change), labelled("RoleBinding", rbac, "shop/virtward"), // the second one is a user's
		labelled("VirtualImage", "kupenstack.io/v1alpha1", "shop/golden", finalizers("example.com/others", kupenstackv1alpha1.Finalizer)),
		labelled("VirtualImage", "kupenstack.io/v1alpha1", "shop/free", finalizers("example.com/others")),
		// The definition is another component's, and so is the finalizer.
		labelled("VirtualMachineTemplateRequest", "template.kubevirt.io/v1beta1", "shop/capture", finalizers(v1beta1.FinalizerSnapshotCleanup)),
		labelled("Report", "openreports.io/v1alpha1", "shop/virtward", labels(managed...)), labelled("PolicyReport", "wgpolicyk8s.io/v1alpha2", "shop/virtward", labels(managed...)), labelled("Report", "openreports.io/v1alpha1", "shop/of-others", labels(managed...)),
		labelled("VirtualMachine", "kubevirt.io/v1", "shop/db", labels("rollout.virtward.io/rollout", "larger")),
		labelled("Namespace", "v1", "shop", labels(v1beta1.ApprovedOnlyLabel, "true")),
	}
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &cluster{FakeMetadataClient: metadatafake.NewSimpleMetadataClient(scheme, objects...)}
	kinds := map[schema.GroupVersionResource]string{}
	for _, s := range clusterSources() {
		kinds[s.resource] = s.kind + "List"
	}
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	c.runner = &Runner{
		Reader: &Reader{Metadata: c, Dynamic: dynamic}, Choices: Choices{OpenNamespaces: true},
		ErrOut: &c.errOut, Settle: time.Millisecond, Pause: time.Millisecond, Patience: 20 * time.Millisecond,
		Helm: func(_ context.Context, release Release) error {
			c.helms = append(c.helms, release)
			for _, o := range objects { // as Helm and the Job do
				m := o.(*metav1.PartialObjectMetadata)
				if m.Annotations[helmName] != "" && m.Annotations[helmPolicy] == "" || m.Kind == "Secret" && m.Labels["owner"] == "helm" {
					resource := resourceFor(m)
					if err := c.Tracker().Delete(resource, m.Namespace, m.Name); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	return c
}

// resourceFor is the resource of an object of the test.
func resourceFor(o *metav1.PartialObjectMetadata) schema.GroupVersionResource {
	all := slices.Concat(clusterSources(), installedSources(), userSources(func(string) bool { return true }))
	return all[slices.IndexFunc(all, func(s source) bool { return s.kind == o.Kind })].resource
}

// objects are the titles of all objects, with their finalizers.
func (c *cluster) objects(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	for _, s := range slices.Concat(clusterSources(), installedSources(), userSources(func(string) bool { return true })) {
		list, err := c.Resource(s.resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			title := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
			all[strings.TrimSpace(s.kind+" "+title+" "+strings.Join(o.Finalizers, ","))] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// leftovers are what stays of the installation, and the objects of others.
func leftovers() []string {
	return []string{
		"CustomResourceDefinition virtualimages.kupenstack.io", "Lease virtward-system/of-others", "Namespace shop", "Report shop/of-others", "RoleBinding shop/virtward",
		"Secret shop/virtward-webhook-cert", "Secret virtward-system/virtward-approval-keys", "ValidatingAdmissionPolicy of-others", "ValidatingAdmissionPolicy virtward-policy-cap",
		"ValidatingWebhookConfiguration virt-api-validator", "VirtualImage shop/free example.com/others", "VirtualImage shop/golden example.com/others",
		"VirtualMachine shop/db", "VirtualMachineTemplateRequest shop/capture " + v1beta1.FinalizerSnapshotCleanup,
	}
}

func nothing(*metav1.PartialObjectMetadata) {}

// TestRun removes an installation without Helm, and one of Helm's.
func TestRun(t *testing.T) {
	for name, change := range map[string]func(*metav1.PartialObjectMetadata){"without Helm": nothing, "Helm": byHelm} {
		t.Run(name, func(t *testing.T) {
			objects := installation(change)
			want := []Release(nil)
			if name == "Helm" {
				objects = append(objects, labelled("Secret", "v1", system+"/sh.helm.release.v1.virtward.v1", labels("owner", "helm", "name", "virtward")))
				want = []Release{{system, "virtward"}}
			}
			c := newCluster(t, objects...)
			c.runner.Reader.Namespace = system
			plan, err := c.runner.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(leftovers(), c.objects(t)); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, c.helms); diff != "" {
				t.Errorf("releases of Helm (-want +got):\n%s", diff)
			}
			if len(plan.Steps) > 0 || len(plan.Unread) > 0 {
				t.Errorf("the plan has %+v, %v", plan.Steps, plan.Unread)
			}
			var said []string
			for _, l := range plan.Left {
				said = append(said, l.Kind+" "+strings.Join(l.Names, ","))
			}
			if diff := cmp.Diff([]string{
				"CustomResourceDefinition virtualimages.kupenstack.io", "VirtualImage shop/free,shop/golden", "Secret virtward-system/virtward-approval-keys",
				"ValidatingAdmissionPolicy virtward-policy-cap", "Namespace shop", "VirtualMachine shop/db", "Namespace virtward-system",
			}, said); diff != "" {
				t.Errorf("what it says (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInterrupted ends the command after each of its writes, in two ways, and runs it again. The order holds at each of these points.
func TestInterrupted(t *testing.T) {
	ends := 0
	for after := range 40 {
		c := newCluster(t, installation(nothing)...)
		c.runner.Reader.Namespace = system
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		writes, over := 0, false
		for _, verb := range []string{"delete", "patch"} {
			c.PrependReactor(verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				if writes++; writes <= after || over {
					return false, nil, nil
				}
				if after%2 == 0 {
					cancel() // as a signal does
				}
				return true, nil, errors.New("the process ended")
			})
		}
		_, err := c.runner.Run(ctx)
		if err == nil {
			break
		}
		ends++
		at := strings.Join(c.objects(t), "\n")
		for _, order := range [][2]string{ // while the second one exists, the first one is gone
			{"Deployment virtward-system/virtward-virtualimages", "VirtualImage shop/golden example.com/others\n"},
			{"VirtualImage shop/golden example.com/others," + kupenstackv1alpha1.Finalizer, ""},
			{"ValidatingWebhookConfiguration validate.virtward.io", "MutatingWebhookConfiguration mutate.virtward.io"},
			{"MutatingWebhookConfiguration mutate.virtward.io", "Deployment virtward-system/virtward-webhook"},
		} {
			first, second := strings.Contains(at, order[0]), strings.Contains(at, order[1])
			if order[1] != "" && first && !second && order[1] != "VirtualImage shop/golden example.com/others\n" {
				t.Errorf("%d writes: %s is there, and %s is gone", after, order[0], order[1])
			}
			if strings.HasPrefix(order[1], "VirtualImage") && first && second {
				t.Errorf("%d writes: the controller is there, and the finalizer is gone", after)
			}
		}
		over = true
		if _, err := c.runner.Run(t.Context()); err != nil {
			t.Fatalf("%d writes: run again: %v", after, err)
		}
		if diff := cmp.Diff(leftovers(), c.objects(t)); diff != "" {
			t.Errorf("%d writes (-want +got):\n%s", after, diff)
		}
	}
	if ends < 10 {
		t.Errorf("the command ended in the middle %d times", ends)
	}
}

// TestStuck: an object that is never gone, and one that others write again, end the command with an error that names it.
func TestStuck(t *testing.T) {
	c := newCluster(t, labelled("ClusterRole", "rbac.authorization.k8s.io/v1", "virtward", func(o *metav1.PartialObjectMetadata) {
		o.DeletionTimestamp, o.Finalizers = new(metav1.Now()), []string{"example.com/others"}
	}))
	if _, err := c.runner.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the roles: ClusterRole virtward: these objects are being deleted, and have finalizers of others") {
		t.Errorf("the error is %v", err)
	}
	c = newCluster(t, labelled("ClusterRole", "rbac.authorization.k8s.io/v1", "virtward"))
	c.PrependReactor("delete", "clusterroles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if _, err := c.runner.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the roles: ClusterRole virtward: another program writes these objects again") {
		t.Errorf("the error is %v", err)
	}
}

// TestTable has names that control a terminal.
func TestTable(t *testing.T) {
	plan := PlanOf(&Inventory{Namespace: system, Objects: map[class][]Object{
		reports: {object("Report shop/virtward\n\x1b[2J"), object("Report a/virtward"), object("Report b/virtward"), object("Report c/virtward")},
	}}, Choices{})
	var out bytes.Buffer
	if err := write(&out, "table", plan); err != nil {
		t.Fatal(err)
	}
	want := "STEP  DOES            KIND    COUNT  OBJECTS\n" +
		"1     delete Reports  Report  4      " + texts.OneLine("shop/virtward\n\x1b[2J") + ", a/virtward, b/virtward, …\n\n" +
		"LEFT       COUNT  OBJECTS          BECAUSE                       TO DELETE\n" +
		"Namespace  1      virtward-system  it can have objects of others  kubectl delete namespace virtward-system\n"
	if got := strings.Join(strings.Fields(out.String()), " "); got != strings.Join(strings.Fields(want), " ") {
		t.Errorf("the table is\n%s", out.String())
	}
}

// TestKinds: each definition of the chart has its objects in the plan.
func TestKinds(t *testing.T) {
	const chart = "../../charts/virtward/"
	found := 0
	for _, folder := range []string{"definitions", "template-definitions"} {
		files, err := os.ReadDir(chart + folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			group, plural, named := strings.Cut(strings.TrimSuffix(file.Name(), ".yaml"), "_")
			if !named {
				t.Errorf("the file %s is not named GROUP_PLURAL.yaml", file.Name())
			}
			found++
			all := userSources(func(name string) bool { return name == plural+"."+group })
			if !slices.ContainsFunc(all, func(s source) bool {
				return s.class == instances && s.resource.Group == group && s.resource.Resource == plural
			}) {
				t.Errorf("the plan has no objects of %s.%s", plural, group)
			}
		}
	}
	if found < 9 {
		t.Errorf("%d definitions", found)
	}
}
