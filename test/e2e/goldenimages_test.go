package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// catalogOf is a catalog of the namespace default, with entries in YAML.
func catalogOf(name, entries string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("{spec: {namespace: default, dataImportCronTemplates: "+entries+"}}"), &object.Object)).To(Succeed())
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	object.SetName(name)
	return object
}

// imageNamed is an entry for two architectures.
func imageNamed(name, source, schedule string) string {
	return "{metadata: {name: " + name + ", annotations: {ssp.kubevirt.io/dict.architectures: 'amd64, arm64'}}, spec: {managedDataSource: " + source +
		", schedule: '" + schedule + "', template: {spec: {source: {registry: {url: 'docker://registry.example/image'}}, storage: {resources: {requests: {storage: 1Gi}}}}}}}"
}

var _ = Describe("Catalogs of golden images", Serial, func() {
	const daily = "0 0 * * *"

	It("are validated, also against each other", func(ctx SpecContext) {
		By("rejecting what CDI would reject")
		err := admin.Create(ctx, catalogOf("invalid", "["+imageNamed("Fedora", "fedora", "whenever")+"]"))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(causes(err)).To(Equal([]string{
			"spec.dataImportCronTemplates[0].metadata.name golden-image-catalog", "spec.dataImportCronTemplates[0].spec.schedule golden-image-catalog",
		}))

		By("rejecting the names of another catalog, with suffixes")
		first := catalogOf("first", "["+imageNamed("fedora-cron", "fedora", daily)+"]")
		Expect(admin.Create(ctx, first)).To(Succeed())
		cleanUp(first)
		second := func() error {
			return admin.Create(ctx, catalogOf("second", "["+imageNamed("arm-cron", "fedora-arm64", daily)+"]"), client.DryRunAll)
		}
		Eventually(func(context.Context) error { return second() }).WithContext(ctx).WithTimeout(10 * time.Second).Should(SatisfyAll(
			Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring(`the catalog "first" uses the DataSource "fedora-arm64"`))))

		By("keeping the namespace")
		patch := func(text string) error {
			return admin.Patch(ctx, first.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
		Expect(patch(`{"spec":{"namespace":"kube-public"}}`)).To(SatisfyAll(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("the namespace cannot change"))))

		By("releasing the names with the catalog")
		Expect(admin.Delete(ctx, first.DeepCopy())).To(Succeed())
		Eventually(func(context.Context) error { return second() }).WithContext(ctx).WithTimeout(10 * time.Second).Should(Succeed())
	}, NodeTimeout(time.Minute))
})
