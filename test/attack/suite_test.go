// Package attack has the attacks that Virtward resists. Each spec is an attack of a user with few permissions, or of a
// client without an account, that succeeded once or could have. The specs run on a real API server, with the chart
// installed by Helm and RBAC users. KubeVirt's admission and controllers are simulated. docs/threat-model.md describes
// the users and their permissions.
package attack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// The namespaces of the attacker, mallory, and of an innocent user, alice.
const (
	attacked = "mallory"
	quiet    = "default"
)

// nodeTimeout is the timeout of a spec with many requests.
const nodeTimeout = 10 * time.Minute

// The cluster of the suite.
var (
	cluster  *controlplane.ControlPlane
	kubevirt *simulators.KubeVirt
	virtward *controlplane.Virtward
	// admin may do everything. mallory may create, change and delete VMs, VMIs, replica sets, pools, presets,
	// namespaced instancetypes and preferences, snapshots, restores, clones and PVCs in the namespace mallory, and
	// nothing else. alice may edit virtual machines in the namespace default.
	admin, mallory, alice client.Client
)

func TestAttack(t *testing.T) {
	if soak.On() {
		t.Skip("TestSoakAttack runs the same specs")
	}
	runSpecs(t)
}

// TestSoakAttack runs the specs with more objects, measures the API server's own cost of each attack, and verifies the
// bounds of the figures. No other load may run on the machine.
func TestSoakAttack(t *testing.T) {
	soak.Only(t)
	runSpecs(t)
}

func runSpecs(t *testing.T) {
	t.Helper()
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(await.Patience)
	SetDefaultEventuallyPollingInterval(await.Interval / 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go machine.watch(ctx)
	RunSpecs(t, "Attacks on Virtward on a real API server")
	logFailures(t)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster = planes.Start(GinkgoTB(), controlplane.Options{Audit: true})
	admin = cluster.Client()

	kubevirt, err = simulators.InstallKubeVirt(ctx, cluster, kubevirtv1.KubeVirtConfiguration{}, nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(kubevirt.Stop(ctx)).To(Succeed()) })

	kubevirt.API.KeepNoRecord()

	virtward, err = cluster.InstallVirtward(ctx, nil, controlplane.Workload{})
	Expect(err).NotTo(HaveOccurred())

	Expect(cluster.EnsureNamespace(ctx, attacked)).To(Succeed())
	everything := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	grant(ctx, "mallory", attacked,
		rbacv1.PolicyRule{APIGroups: []string{"kubevirt.io"}, Verbs: everything, Resources: []string{
			"virtualmachines", "virtualmachineinstances", "virtualmachineinstancereplicasets", "virtualmachineinstancereplicasets/scale", "virtualmachineinstancepresets", "virtualmachineinstancemigrations",
		}},
		rbacv1.PolicyRule{APIGroups: []string{"pool.kubevirt.io"}, Verbs: everything, Resources: []string{"virtualmachinepools", "virtualmachinepools/scale"}},
		rbacv1.PolicyRule{APIGroups: []string{"instancetype.kubevirt.io"}, Verbs: everything, Resources: []string{"virtualmachineinstancetypes", "virtualmachinepreferences"}},
		rbacv1.PolicyRule{APIGroups: []string{"snapshot.kubevirt.io"}, Verbs: everything, Resources: []string{"virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores"}},
		rbacv1.PolicyRule{APIGroups: []string{"clone.kubevirt.io"}, Verbs: everything, Resources: []string{"virtualmachineclones"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: everything, Resources: []string{"persistentvolumeclaims"}},
	)
	grant(ctx, "alice", quiet, rbacv1.PolicyRule{APIGroups: []string{"kubevirt.io"}, Verbs: everything, Resources: []string{"virtualmachines", "virtualmachineinstances"}})
	mallory, alice = clientOf("mallory"), clientOf("alice")

	By("waiting until the API server calls the webhooks")
	awaitWebhooks(ctx)

	By("measuring a create without an attack")
	idle = served(ctx, innocentCreates())
}, NodeTimeout(3*time.Minute))

// grant gives a user permissions in a namespace.
func grant(ctx context.Context, user, namespace string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	Expect(admin.Create(ctx, role)).To(Succeed())
	Expect(admin.Create(ctx, binding)).To(Succeed())
}

// clientOf is a client with the rights of a user.
func clientOf(user string) client.Client {
	GinkgoHelper()
	config, err := cluster.UserConfig(user)
	Expect(err).NotTo(HaveOccurred())
	return clientFor(config)
}

func clientFor(config *rest.Config) client.Client {
	GinkgoHelper()
	scheme, err := controlplane.Scheme()
	Expect(err).NotTo(HaveOccurred())
	config.QPS, config.Burst = -1, -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// accountOf is a client with the rights of one of KubeVirt's service accounts.
func accountOf(ctx context.Context, account string) client.Client {
	GinkgoHelper()
	config, err := cluster.ServiceAccountConfig(ctx, simulators.Namespace, account)
	Expect(err).NotTo(HaveOccurred())
	return clientFor(config)
}

// listening is a client of a user, and the warnings that the API server sends that user.
func listening(user string) (client.Client, *warnings) {
	GinkgoHelper()
	config, err := cluster.UserConfig(user)
	Expect(err).NotTo(HaveOccurred())
	heard := &warnings{}
	config.WarningHandler = heard
	return clientFor(config), heard
}

// warnings has the warnings of the API server's answers.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

// awaitWebhooks waits until the API server calls both webhooks.
func awaitWebhooks(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		probe := build.VMI("probe").Obj()
		g.Expect(alice.Create(ctx, probe, client.DryRunAll)).To(Succeed())
		g.Expect(probe.Spec.Domain.CPU).NotTo(BeNil(), "it is not completed")
		g.Expect(alice.Create(ctx, impossible("probe", quiet), client.DryRunAll)).To(MatchError(ContainSubstring("[virtward/arm64-bios]")))
	}).WithContext(ctx).Should(Succeed())
}

// impossible returns a VM that can never run: it sets a BIOS on arm64.
func impossible(name, namespace string) *kubevirtv1.VirtualMachine {
	vm := build.VMOf(build.VMI(name).Namespace(namespace).Architecture("arm64").With(withBIOS)).Obj()
	vm.Namespace = namespace
	return vm
}

// withBIOS sets a BIOS, which is invalid on arm64.
func withBIOS(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	spec.Domain.Firmware = &kubevirtv1.Firmware{Bootloader: &kubevirtv1.Bootloader{BIOS: &kubevirtv1.BIOS{}}}
}

// change applies a change to an object as it is now, however often others write to it meanwhile.
func change(ctx context.Context, c client.Client, object client.Object, how func()) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		how()
		return c.Update(ctx, object)
	})
}

// ruleID matches the rule in messages of Virtward.
var ruleID = regexp.MustCompile(`\[virtward/([a-z0-9/-]+)\]`)

// causes returns the causes of a rejection, each as its field and its rule. The status must be 422 Invalid.
func causes(err error) []string {
	GinkgoHelper()
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "it is not rejected as invalid, but: %v", err)
	var rejection apierrors.APIStatus
	Expect(errors.As(err, &rejection)).To(BeTrue())
	var rejected []string
	for _, cause := range rejection.Status().Details.Causes {
		found := ruleID.FindStringSubmatch(cause.Message)
		Expect(found).To(HaveLen(2), "%q names no rule", cause.Message)
		rejected = append(rejected, cause.Field+" "+found[1])
	}
	return rejected
}

// cleanUp deletes an object at the end of the spec, its finalizers removed, and waits until it is gone.
func cleanUp(object client.Object) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		Eventually(func(ctx context.Context) error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := admin.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
				return err
			}
			err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
			if err == nil {
				return errors.New("it is still there")
			}
			return client.IgnoreNotFound(err)
		}).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(3*time.Minute))
}

// post sends a body as a user, and returns the answer.
func post(ctx context.Context, user, path, body string) (string, error) {
	GinkgoHelper()
	result := rawClient(user).Post().RequestURI(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx)
	answer, err := result.Raw()
	if err != nil {
		err = result.Error()
	}
	return string(answer), err
}

// patchNamespaces exempts a namespace from one of our webhook configurations, or none.
func patchNamespaces(ctx context.Context, configuration, exempt string) {
	GinkgoHelper()
	kind, name, _ := strings.Cut(configuration, "/")
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("admissionregistration.k8s.io/v1")
	config.SetKind(map[string]string{"mutatingwebhookconfigurations": "MutatingWebhookConfiguration", "validatingwebhookconfigurations": "ValidatingWebhookConfiguration"}[kind])
	config.SetName(name)
	Expect(change(ctx, admin, config, func() {
		hooks, _, _ := unstructured.NestedSlice(config.Object, "webhooks")
		for i := range hooks {
			hook := hooks[i].(map[string]any)
			selector, found, _ := unstructured.NestedSlice(hook, "namespaceSelector", "matchExpressions")
			if !found {
				continue
			}
			selector = slices.DeleteFunc(selector, func(r any) bool { return fmt.Sprint(r.(map[string]any)["values"]) == "["+attacked+"]" })
			if exempt != "" {
				selector = append(selector, map[string]any{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []any{exempt}})
			}
			Expect(unstructured.SetNestedSlice(hook, selector, "namespaceSelector", "matchExpressions")).To(Succeed())
		}
		Expect(unstructured.SetNestedSlice(config.Object, hooks, "webhooks")).To(Succeed())
	})).To(Succeed())
}
