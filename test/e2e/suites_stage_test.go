package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// allUsers is the group of all users.
const allUsers = "system:authenticated"

// leftOut is an extra attribute of a user, with the names of webhook configurations that are not called.
const leftOut = "left-out"

// announced is the namespace with a policy of the same name, which reports the active stage.
const announced = "suites-stage"

// prepareSenders allows all users to write virtual machines, because suites do not test these permissions.
func prepareSenders(ctx context.Context) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "suites-senders"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"kubevirt.io", "pool.kubevirt.io", "template.kubevirt.io"}, Verbs: []string{"create", "patch", "delete"},
		Resources: []string{"virtualmachines", "virtualmachineinstances", "virtualmachineinstancereplicasets", "virtualmachinepools", "virtualmachinetemplates"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: allUsers}},
	}
	for _, object := range []client.Object{role, binding} {
		Expect(admin.Create(ctx, object)).To(Succeed())
		cleanUp(object)
	}
	Expect(cluster.EnsureNamespace(ctx, announced)).To(Succeed())
}

// letLeaveOut allows requests to exclude webhooks until the end of the specs: to store an object that is older than a
// policy, and to send an object that is not completed.
func letLeaveOut(ctx context.Context, names ...string) {
	GinkgoHelper()
	const condition = "not-left-out"
	change := func(ctx context.Context, edit func(name string, conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition) {
		GinkgoHelper()
		for _, name := range names {
			mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
			if err := admin.Get(ctx, client.ObjectKey{Name: name}, mutating); err == nil {
				for i := range mutating.Webhooks {
					mutating.Webhooks[i].MatchConditions = edit(name, mutating.Webhooks[i].MatchConditions)
				}
				Expect(admin.Update(ctx, mutating)).To(Succeed())
				continue
			}
			Expect(admin.Get(ctx, client.ObjectKey{Name: name}, validating)).To(Succeed())
			for i := range validating.Webhooks {
				validating.Webhooks[i].MatchConditions = edit(name, validating.Webhooks[i].MatchConditions)
			}
			Expect(admin.Update(ctx, validating)).To(Succeed())
		}
	}
	DeferCleanup(func(ctx SpecContext) {
		change(ctx, func(_ string, conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
			return slices.DeleteFunc(conditions, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == condition })
		})
		awaitChecks(ctx)
	}, NodeTimeout(3*time.Minute))
	change(ctx, func(name string, conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
		return append(conditions, admissionregistrationv1.MatchCondition{Name: condition, Expression: fmt.Sprintf(
			`!has(request.userInfo.extra) || !('%[1]s' in request.userInfo.extra) || !('%[2]s' in request.userInfo.extra['%[1]s'])`, leftOut, name)})
	})
	unasked := clientFor(leavingOut(names...))
	Eventually(func(g Gomega, ctx context.Context) {
		probe := build.VMI("probe").Obj()
		g.Expect(unasked.Create(ctx, probe, client.DryRunAll)).To(Succeed())
		g.Expect(probe.Spec.Domain.CPU).To(BeNil(), "it is completed")
		g.Expect(unasked.Create(ctx, impossible("probe"), client.DryRunAll)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
}

// leavingOut returns the configuration of an admin whose requests exclude some webhooks.
func leavingOut(names ...string) *rest.Config {
	config := cluster.Config()
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: "suites-before", Groups: []string{"system:masters"}, Extra: map[string][]string{leftOut: names}}
	return config
}

// scene has the objects of the suites in the cluster.
type scene struct {
	// before makes what was there before, whatever virtward says of it; persisting lets KubeVirt write into it what it
	// writes into every virtual machine.
	before, persisting, admin dynamic.Interface
	// completing creates instances that Virtward completes and does not validate, and writing writes their status.
	completing, writing client.Client
	number              int
	kubevirt            string
	placed              map[string]*unstructured.Unstructured
}

func newScene() *scene {
	GinkgoHelper()
	before, err := dynamic.NewForConfig(leavingOut(simulators.MutatorName, simulators.ValidatorName, webhook, checks))
	Expect(err).NotTo(HaveOccurred())
	persisting, err := dynamic.NewForConfig(leavingOut(simulators.ValidatorName, webhook, checks))
	Expect(err).NotTo(HaveOccurred())
	config := cluster.Config()
	config.QPS = -1
	asAdmin, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return &scene{
		completing: clientFor(leavingOut(simulators.ValidatorName, checks)), writing: clientFor(leavingOut(simulators.MutatorName, simulators.ValidatorName, webhook, checks)),
		before: before, persisting: persisting, admin: asAdmin, kubevirt: "{}kvm amd64", placed: map[string]*unstructured.Unstructured{},
	}
}

// set changes the cluster to a stage, and waits until its policies are active.
func (s *scene) set(ctx context.Context, next *stage) {
	GinkgoHelper()
	s.number++
	for name, metadata := range next.namespaces {
		s.mark(ctx, name, metadata)
	}
	wanted := s.objectsOf(ctx, next)
	for key, object := range s.placed {
		if !slices.ContainsFunc(wanted, func(w *unstructured.Unstructured) bool { return keyOf(w) == key }) {
			Expect(s.remove(ctx, object)).To(Succeed())
			delete(s.placed, key)
		}
	}
	for _, object := range wanted {
		s.place(ctx, object)
	}
	s.configure(ctx, next.sample)
	s.await(ctx, next.sample.Facts)
}

// clear deletes all objects, and restores the KubeVirt resource.
func (s *scene) clear(ctx context.Context) {
	GinkgoHelper()
	for _, object := range s.placed {
		Expect(s.remove(ctx, object)).To(Succeed())
	}
	Expect(simulators.MarkDeployed(ctx, admin, simulators.Name)).To(Succeed())
	configure(ctx, nil, platform.KVM)
	eventuallyModel(ctx, "host-model")
	s.mark(ctx, metav1.NamespaceDefault, &namespaceMetadata{})
}

// mark replaces the labels and annotations of a namespace.
func (s *scene) mark(ctx context.Context, name string, metadata *namespaceMetadata) {
	GinkgoHelper()
	Expect(cluster.EnsureNamespace(ctx, name)).To(Succeed())
	namespace := &corev1.Namespace{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
	labels := map[string]string{corev1.LabelMetadataName: name}
	maps.Copy(labels, metadata.labels)
	if maps.Equal(namespace.Labels, labels) && maps.Equal(namespace.Annotations, metadata.annotations) {
		return
	}
	namespace.Labels, namespace.Annotations = labels, metadata.annotations
	Expect(admin.Update(ctx, namespace)).To(Succeed())
}

// objectsOf are those of a stage. The policy that announces it comes last: what was there before it is active when it
// is.
func (s *scene) objectsOf(ctx context.Context, next *stage) []*unstructured.Unstructured {
	GinkgoHelper()
	var all []*unstructured.Unstructured
	for _, object := range next.sample.Objects {
		if kind := object.GetKind(); kind == "KubeVirt" || kind == "Namespace" {
			continue
		}
		object = object.DeepCopy()
		if object.GetKind() == "DataVolume" && object.Object["spec"] == nil {
			object.Object["spec"] = map[string]any{} // its schema requires it
		}
		namespaced, err := admin.IsObjectNamespaced(object)
		Expect(err).NotTo(HaveOccurred())
		if namespaced {
			object.SetNamespace(cmp.Or(object.GetNamespace(), next.sample.Namespace.Name))
			Expect(cluster.EnsureNamespace(ctx, object.GetNamespace())).To(Succeed())
		}
		all = append(all, object)
	}
	for _, user := range slices.Sorted(maps.Keys(next.permissions)) {
		for i := range next.permissions[user] {
			granted := grantOf(fmt.Sprintf("suites-%d", len(all)), user, &next.permissions[user][i])
			all = append(all, asUnstructured(granted[0]), asUnstructured(granted[1]))
			if namespace := granted[0].GetNamespace(); namespace != "" {
				Expect(cluster.EnsureNamespace(ctx, namespace)).To(Succeed())
			}
		}
	}
	for _, policy := range next.sample.Policies {
		all = append(all, asUnstructured(onToday(policy, next.sample.Now)))
	}
	announcement := policyWith(announced, fmt.Sprintf(`{enforcement: Warn, match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}},
	  validations: [{expression: "false", fieldPath: metadata.name, messageExpression: "'stage %d on ' + platform.hypervisor + ' ' + platform.architecture"}]}`, announced, s.number))
	return append(all, announcement)
}

// onToday moves the ends of exceptions so that they are as far from today as they were from another day.
func onToday(policy *policyv1alpha1.VirtualMachinePolicy, day time.Time) *policyv1alpha1.VirtualMachinePolicy {
	moved := policy.DeepCopy()
	moved.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	for i := range moved.Spec.Exceptions {
		if end := moved.Spec.Exceptions[i].Expires; end != nil {
			moved.Spec.Exceptions[i].Expires = &metav1.Time{Time: time.Now().Add(end.Sub(day)).Truncate(time.Second)}
		}
	}
	return moved
}

// grantOf are a role and its binding that permit something to a user.
func grantOf(name, user string, p *policytest.Permission) [2]client.Object {
	anything := func(value string) []string { return []string{cmp.Or(value, rbacv1.ResourceAll)} }
	rule := rbacv1.PolicyRule{Verbs: []string{p.Verb}}
	if p.Path != "" {
		rule.NonResourceURLs = []string{p.Path}
	} else {
		rule.APIGroups, rule.Resources = anything(p.Group), anything(p.Resource)
		if p.Subresource != "" {
			rule.Resources[0] += "/" + p.Subresource
		}
		if p.Name != "" && p.Name != rbacv1.ResourceAll {
			rule.ResourceNames = []string{p.Name}
		}
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: cmp.Or(p.User, user)}}
	if p.Namespace == "" || p.Namespace == rbacv1.ResourceAll {
		meta := metav1.ObjectMeta{Name: name}
		return [2]client.Object{
			&rbacv1.ClusterRole{TypeMeta: rbacKind("ClusterRole"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
			&rbacv1.ClusterRoleBinding{
				TypeMeta: rbacKind("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			},
		}
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: p.Namespace}
	return [2]client.Object{
		&rbacv1.Role{TypeMeta: rbacKind("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			TypeMeta: rbacKind("RoleBinding"), ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		},
	}
}

func rbacKind(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// place creates an object, and replaces one with the same name.
func (s *scene) place(ctx context.Context, object *unstructured.Unstructured) {
	GinkgoHelper()
	key := keyOf(object)
	if there := s.placed[key]; there != nil {
		if asJSON(there.Object) == asJSON(object.Object) {
			return
		}
		Expect(s.remove(ctx, there)).To(Succeed())
	}
	s.placed[key] = object
	by := s.before
	if object.GroupVersionKind().Group == policyv1alpha1.GroupVersion.Group { // those have to be valid
		by = s.admin
	}
	Expect(create(ctx, by, object)).To(Succeed(), key)
	if object.GetKind() == "DataVolume" && object.Object["status"] != nil {
		Expect(s.report(ctx, object)).To(Succeed(), key)
	}
}

// report writes the status of an object that exists.
func (s *scene) report(ctx context.Context, object *unstructured.Unstructured) error {
	at, err := resourceOf(s.before, object)
	if err != nil {
		return err
	}
	written, err := at.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	written.Object["status"] = object.DeepCopy().Object["status"]
	_, err = at.UpdateStatus(ctx, written, metav1.UpdateOptions{})
	return err
}

// keep creates the object before an update, as KubeVirt persists it.
func (s *scene) keep(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GetKind() == "VirtualMachine" {
		return create(ctx, s.persisting, object)
	}
	return create(ctx, s.before, object)
}

// run makes the VM before an update one that runs. The instance is completed, but not validated. The returned function deletes
// the instance and the revision of its start.
func (s *scene) run(ctx context.Context, object *unstructured.Unstructured) (stop func() error, err error) {
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
	vmi, err := simulators.Run(ctx, s.completing, s.writing, vm)
	if err != nil {
		return nil, err
	}
	liveupdates.SetCondition(vmi, kubevirtv1.VirtualMachineInstanceCondition{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}) // as suites have it
	if err := s.writing.Update(ctx, vmi); err != nil {
		return nil, err
	}
	revision := &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: vmi.Namespace, Name: vmi.Status.VirtualMachineRevisionName},
	}
	vmi.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	return func() error {
		return errors.Join(s.remove(ctx, asUnstructured(vmi)), s.remove(ctx, asUnstructured(revision)))
	}, nil
}

func create(ctx context.Context, by dynamic.Interface, object *unstructured.Unstructured) error {
	to, err := resourceOf(by, object)
	if err != nil {
		return err
	}
	_, err = to.Create(ctx, object.DeepCopy(), metav1.CreateOptions{})
	return err
}

// remove deletes an object and its finalizers, and waits until it does not exist.
func (s *scene) remove(ctx context.Context, object *unstructured.Unstructured) error {
	at, err := resourceOf(s.before, object)
	if err != nil {
		return err
	}
	if err := at.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, await.Patience, true, func(ctx context.Context) (bool, error) {
		left, err := at.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err == nil && len(left.GetFinalizers()) > 0 {
			_, err = at.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// configure sets the configuration of KubeVirt for a situation.
func (s *scene) configure(ctx context.Context, situation *policytest.Situation) {
	GinkgoHelper()
	key := kubeVirtKey(situation)
	if key == s.kubevirt {
		return
	}
	s.kubevirt = key
	kv := kubeVirt(ctx)
	Expect(unstructured.SetNestedField(kv.Object, situation.Facts.DefaultArchitecture, "status", "defaultArchitecture")).To(Succeed())
	Expect(admin.Status().Update(ctx, kv)).To(Succeed())
	configure(ctx, kubeVirtConfiguration(situation), situation.Facts.Hypervisor.ConfiguredName)
}

// kubeVirtKey identifies the KubeVirt configuration of a situation.
func kubeVirtKey(s *policytest.Situation) string {
	return asJSON(kubeVirtConfiguration(s)) + s.Facts.Hypervisor.Name + " " + s.Facts.DefaultArchitecture
}

// kubeVirtConfiguration returns the configuration of a KubeVirt object, with the gates and the hypervisor of the facts.
func kubeVirtConfiguration(s *policytest.Situation) map[string]any {
	configuration := map[string]any{}
	for _, object := range s.Objects {
		if object.GetKind() == "KubeVirt" {
			if found, _, _ := unstructured.NestedMap(object.Object, "spec", "configuration"); found != nil {
				configuration = found
			}
		}
	}
	var gates []any
	if developer := s.Facts.Configuration.DeveloperConfiguration; developer != nil {
		for _, gate := range developer.FeatureGates {
			gates = append(gates, gate)
		}
	}
	if h := s.Facts.Hypervisor; h.Name != platform.KVM {
		configuration["hypervisor"] = []any{map[string]any{"name": h.ConfiguredName, "hypervisorDevice": h.Name, "virtType": h.VirtType}}
		gates = append(gates, platform.GateConfigurableHypervisor)
	}
	if len(gates) > 0 {
		_ = unstructured.SetNestedSlice(configuration, gates, "developerConfiguration", "featureGates")
	}
	return configuration
}

// await waits until the policies of the stage are active, and those of others are not, with these facts.
func (s *scene) await(ctx context.Context, facts *platform.Facts) {
	GinkgoHelper()
	want := fmt.Sprintf("stage %d on %s %s [virtward/policy/%s]", s.number, facts.Hypervisor.Name, facts.DefaultArchitecture, announced)
	config := cluster.Config()
	config.QPS = -1
	user, heard := listen(config)
	probe := build.VMOf(build.VMI("stage").Namespace(announced)).Obj()
	Eventually(func(ctx context.Context) []string {
		heard.texts = nil
		_ = user.Create(ctx, probe.DeepCopy(), client.DryRunAll) // the policies of the stage may reject it
		return heard.texts
	}).WithContext(ctx).WithPolling(10 * time.Millisecond).Should(ContainElement(HaveSuffix(want)))
}

// stageKey identifies the stage of a situation, apart from namespaces and permissions.
func stageKey(s *policytest.Situation) string {
	policies := make([]any, 0, len(s.Policies))
	ends := false
	for _, p := range s.Policies {
		policies = append(policies, p.Name, p.Spec)
		for _, e := range p.Spec.Exceptions {
			ends = ends || e.Expires != nil
		}
	}
	objects := make([]any, 0, len(s.Objects))
	beside := ""
	for _, object := range s.Objects {
		objects = append(objects, object.Object)
		if object.GetNamespace() == "" {
			if namespaced, err := admin.IsObjectNamespaced(object); err != nil || namespaced {
				beside = s.Namespace.Name
			}
		}
	}
	now := ""
	if ends {
		now = s.Now.String()
	}
	return asJSON([]any{policies, objects, beside, now, kubeVirtKey(s)})
}

func asJSON(value any) string {
	GinkgoHelper()
	data, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

func asUnstructured(object client.Object) *unstructured.Unstructured {
	GinkgoHelper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}
}

func keyOf(object *unstructured.Unstructured) string {
	return fmt.Sprint(object.GroupVersionKind().GroupKind(), " ", object.GetNamespace(), "/", object.GetName())
}

// mapping is held while the kinds of the API server are looked up.
var mapping sync.Mutex

// resourceOf is where objects like this one are.
func resourceOf(c dynamic.Interface, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping.Lock()
	defer mapping.Unlock()
	kind := object.GroupVersionKind()
	found, err := admin.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if object.GetNamespace() == "" {
		return c.Resource(found.Resource), nil
	}
	return c.Resource(found.Resource).Namespace(object.GetNamespace()), nil
}
