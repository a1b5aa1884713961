// Package e2e has the end-to-end tests: on a real API server, with Virtward's chart installed by Helm, virtward running
// with the arguments of its Deployment, RBAC users, and simulated admission and controllers of KubeVirt.
package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// Names of our webhooks, in the API server's metrics, audit annotations and rejections.
const (
	webhook      = "mutate.virtward.io"
	checks       = "validate.virtward.io" // the configuration
	machineCheck = "virtualmachines." + checks
)

// notCalled is a part of the API server's message if the webhook does not answer.
const notCalled = `failed calling webhook "` + machineCheck + `"`

// The cluster of the suite.
var (
	cluster  *controlplane.ControlPlane
	kubevirt *simulators.KubeVirt
	virtward *controlplane.Virtward
	// admin may do everything; alice may edit virtual machines in the namespace default.
	admin client.Client
	alice client.Client
)

// leaveToSoak skips a spec that is one of many of its kind, or takes a while.
func leaveToSoak() {
	GinkgoHelper()
	if !soak.On() {
		Skip("it takes a while: set VIRTWARD_SOAK")
	}
}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, (*testing.M).Run)) }

func TestE2E(t *testing.T) {
	log.SetLogger(GinkgoLogr)
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(await.Patience)
	SetDefaultEventuallyPollingInterval(await.Interval / 2)
	RunSpecs(t, "Virtward on a real API server")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	definitions, err := crds.All()
	Expect(err).NotTo(HaveOccurred())
	seed, err := crds.Variant(crds.SeedHypervisor)
	Expect(err).NotTo(HaveOccurred())
	for i := range definitions {
		if definitions[i].Name == seed.Name {
			definitions[i] = seed
		}
	}
	definitions = append(definitions, networkAttachments())
	cluster = planes.Start(GinkgoTB(), controlplane.Options{Audit: true, CRDs: definitions})
	admin = cluster.Client()

	kubevirt, err = simulators.InstallKubeVirt(ctx, cluster, kubevirtv1.KubeVirtConfiguration{}, nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(kubevirt.Stop(ctx)).To(Succeed()) })

	virtward, err = cluster.InstallVirtward(ctx, map[string]any{
		"audit":     map[string]any{"reports": map[string]any{"apis": reports.Names()}},
		"templates": map[string]any{"mode": "manage"},
		"checks":    map[string]any{"nodes": true, "quotas": true},
		"policies":  map[string]any{"references": []string{"networkattachmentdefinitions", "persistentvolumeclaims", "datavolumes", "storageclasses", "configmaps"}}, // not datasources
	}, controlplane.Workload{})
	Expect(err).NotTo(HaveOccurred())

	config, err := cluster.UserConfig("alice")
	Expect(err).NotTo(HaveOccurred())
	grantVirtualMachines(ctx, "alice")
	alice = clientFor(config)

	By("waiting until the API server calls the webhooks")
	awaitChecks(ctx)
}, NodeTimeout(3*time.Minute))

// networkAttachments returns the definition of NetworkAttachmentDefinitions, whose spec has only the configuration of CNI.
func networkAttachments() *apiextensionsv1.CustomResourceDefinition {
	resource := apikinds.NetworkAttachments
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"config": text}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: resource.Plural + "." + resource.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: resource.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: resource.Plural, Singular: "network-attachment-definition", Kind: resource.Kind, ListKind: resource.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: resource.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
	}
}

// grantVirtualMachines grants a user to edit the virtual machines of the namespace default.
func grantVirtualMachines(ctx context.Context, user string) {
	GinkgoHelper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vm-editor-" + user},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"kubevirt.io", "pool.kubevirt.io"},
			Resources: []string{"virtualmachines", "virtualmachineinstances", "virtualmachineinstancereplicasets", "virtualmachinepools"},
			Verbs:     []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"},
		}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	Expect(admin.Create(ctx, role)).To(Succeed())
	Expect(admin.Create(ctx, binding)).To(Succeed())
}

func clientFor(config *rest.Config) client.Client {
	GinkgoHelper()
	scheme, err := controlplane.Scheme()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// failedCalls is how often the API server let an object pass because our webhook did not answer.
func failedCalls(ctx context.Context) float64 {
	GinkgoHelper()
	count, err := cluster.Metric(ctx, "apiserver_admission_webhook_fail_open_count", map[string]string{"name": webhook})
	Expect(err).NotTo(HaveOccurred())
	return count
}

// without deletes a webhook configuration of Virtward until the end of the spec.
func without(ctx context.Context, configuration client.Object, name string) {
	GinkgoHelper()
	Expect(admin.Get(ctx, client.ObjectKey{Name: name}, configuration)).To(Succeed())
	Expect(admin.Delete(ctx, configuration)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		configuration.SetResourceVersion("")
		configuration.SetUID("")
		Expect(admin.Create(ctx, configuration)).To(Succeed())
		awaitChecks(ctx)
	})
}

// awaitChecks waits until the API server calls the validating webhook. It reads a new configuration a moment later.
func awaitChecks(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		probe := build.VMI("probe").Obj()
		g.Expect(alice.Create(ctx, probe, client.DryRunAll)).To(Succeed())
		g.Expect(probe.Spec.Domain.CPU).NotTo(BeNil(), "it is not completed")
		g.Expect(alice.Create(ctx, impossible("probe"), client.DryRunAll)).To(MatchError(ContainSubstring("[virtward/arm64-bios]")))
	}).WithContext(ctx).Should(Succeed())
}

// cleanUp deletes an object at the end of the spec, and waits until it is gone.
func cleanUp(object client.Object) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		Eventually(func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKeyFromObject(object), object)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("not found")))
	}, NodeTimeout(3*time.Minute))
}
